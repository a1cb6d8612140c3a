"""Dead letters on Redis: found by looking at all of them, put back or thrown away in slices."""

from collections.abc import Callable, Collection, Mapping, Sequence

from shoal.frontier.redis import packing
from shoal.frontier.redis.crawls import RedisCrawls
from shoal.frontier.redis.reader import tags_of
from shoal.frontier.redis.shards import chunks
from shoal.frontier.results import DeadLetter
from shoal.frontier.rules import parsed_again
from shoal.model.failure import FailureClass
from shoal.redis_client import Script

Ordered = tuple[float, DeadLetter]  # with its place in the order of acceptance

MOST_LETTERS = 100  # per call


class RedisDeadLetters(RedisCrawls):
    async def replay(
        self,
        crawl: str,
        *,
        kinds: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Put dead letters back, oldest first; a kept page that was at fault is parsed again, not fetched."""
        chosen = await self._chosen(crawl, kinds, host, fingerprints, limit)
        replayed = await self._on_letters(self._scripts.replay, crawl, chosen, _pack_replays)
        self._rota.wake_all()
        return replayed

    async def purge(
        self,
        crawl: str,
        *,
        kinds: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Throw dead letters away, oldest first; their requests stay dead, and cannot come back."""
        chosen = await self._chosen(crawl, kinds, host, fingerprints, limit)
        return await self._on_letters(self._scripts.purge, crawl, chosen, _pack_ordinals)

    async def _chosen(
        self,
        crawl: str,
        kinds: Collection[FailureClass],
        host: str,
        fingerprints: Collection[int],
        limit: int | None,
    ) -> dict[str, list[Ordered]]:
        """Find the letters that are meant, by shard, in the order in which their requests were accepted."""
        number = self._opened_number(crawl)
        found = [
            (ordinal, tag, letter)
            for tag in tags_of(self._store, host)
            async for ordinal, letter in self._letters(tag, crawl, number)
            if (not kinds or letter.kind in kinds)
            and (not host or letter.host == host)
            and (not fingerprints or letter.fingerprint in fingerprints)
        ]
        chosen: dict[str, list[Ordered]] = {}
        for ordinal, tag, letter in sorted(found, key=lambda one: one[:2])[:limit]:
            chosen.setdefault(tag, []).append((ordinal, letter))
        return chosen

    async def _on_letters(
        self,
        script: Script,
        crawl: str,
        chosen: Mapping[str, Sequence[Ordered]],
        packed: Callable[[Sequence[Ordered]], bytes],
    ) -> int:
        """Run a script on letters, a slice at a time; return how many were still there."""
        number, there = self._opened_number(crawl), 0
        for tag, letters in chosen.items():
            for chunk in chunks(letters, MOST_LETTERS):
                there += await self._store.run(script, tag, [number, packed(chunk)], replicated=True)
        return there


def _pack_replays(letters: Sequence[Ordered]) -> bytes:
    return packing.pack_replays(
        [
            (letter.fingerprint, parsed_again(letter.kind, kept=letter.page is not None))
            for _, letter in letters
        ]
    )


def _pack_ordinals(letters: Sequence[Ordered]) -> bytes:
    return packing.pack_ordinals((ordinal, letter.fingerprint) for ordinal, letter in letters)
