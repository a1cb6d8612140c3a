"""Dead letters on Redis: found by looking at all of them, put back or thrown away in slices."""

from collections.abc import Collection

from shoal.frontier.answers import DeadLetter
from shoal.frontier.redis import packing
from shoal.frontier.redis.crawls import RedisCrawls
from shoal.frontier.redis.reader import tags_of
from shoal.frontier.redis.shards import chunks
from shoal.frontier.rules import parsed_again
from shoal.model.failure import FailureClass

MOST_LETTERS = 100  # per call


class RedisLetters(RedisCrawls):
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
        number = self._opened_number(crawl)
        chosen = await self._chosen(crawl, kinds, host, fingerprints, limit)
        replayed = 0
        for tag, letters in chosen.items():
            for chunk in chunks(letters, MOST_LETTERS):
                frame = packing.pack_replays(
                    [
                        (letter.fingerprint, parsed_again(letter.kind, kept=letter.page is not None))
                        for _, letter in chunk
                    ]
                )
                replayed += await self._store.run(self._scripts.replay, tag, [number, frame], promised=True)
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
        number = self._opened_number(crawl)
        chosen = await self._chosen(crawl, kinds, host, fingerprints, limit)
        purged = 0
        for tag, letters in chosen.items():
            for chunk in chunks(letters, MOST_LETTERS):
                frame = packing.pack_ordinals((ordinal, letter.fingerprint) for ordinal, letter in chunk)
                purged += await self._store.run(self._scripts.purge, tag, [number, frame], promised=True)
        return purged

    async def _chosen(
        self,
        crawl: str,
        kinds: Collection[FailureClass],
        host: str,
        fingerprints: Collection[int],
        limit: int | None,
    ) -> dict[str, list[tuple[float, DeadLetter]]]:
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
        chosen: dict[str, list[tuple[float, DeadLetter]]] = {}
        for ordinal, tag, letter in sorted(found, key=lambda one: one[:2])[:limit]:
            chosen.setdefault(tag, []).append((ordinal, letter))
        return chosen
