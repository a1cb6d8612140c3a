"""Dead letters on Redis: selected by scanning all of them, replayed or purged in slices."""

import logging
import struct
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

import msgspec

from shoal.frontier.redis import keys, packing
from shoal.frontier.redis.records import pack_dated, unpack_letter
from shoal.frontier.redis.shard_client import ShardClient, chunks
from shoal.frontier.results import DeadLetter, LetterPosition
from shoal.frontier.rules import parsed_again
from shoal.model.failure import FailureClass
from shoal.redis_client import RedisClient, Script

log = logging.getLogger(__name__)

Ordered = tuple[float, DeadLetter]  # with its place in the order of acceptance

FIRST_LETTERS = 20  # that the first call of a scan reads: most callers want few
SCAN_LETTERS = 200  # that the others read
MAX_LETTERS = 100  # that one call changes


class RedisDeadLetters:
    def __init__(self, client: ShardClient) -> None:
        self._client = client

    async def replay(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Put dead letters back, first accepted first; an archived page that was at fault is parsed again."""
        selected = await self._select(crawl, classes, host, fingerprints, limit)
        replayed = await self._run(self._client.scripts.replay, crawl, selected, _pack_replays)
        self._client.pickers.wake_all()
        return replayed

    async def purge(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Delete dead letters, first accepted first. Their requests stay dead and seen."""
        selected = await self._select(crawl, classes, host, fingerprints, limit)
        return await self._run(self._client.scripts.purge, crawl, selected, _pack_ordinals)

    async def _select(
        self,
        crawl: str,
        classes: Collection[FailureClass],
        host: str,
        fingerprints: Collection[int],
        limit: int | None,
    ) -> dict[str, list[Ordered]]:
        """Return the matching letters by shard, in the order in which their requests were accepted."""
        number = self._client.opened_number(crawl)
        found = [
            (ordinal, tag, letter)
            for tag in self._client.tags_for(host)
            async for ordinal, letter in letters_in(self._client.store, tag, crawl, number)
            if (not classes or letter.kind in classes)
            and (not host or letter.host == host)
            and (not fingerprints or letter.fingerprint in fingerprints)
        ]
        selected: dict[str, list[Ordered]] = {}
        for ordinal, tag, letter in sorted(found, key=lambda one: one[:2])[:limit]:
            selected.setdefault(tag, []).append((ordinal, letter))
        return selected

    async def _run(
        self,
        script: Script,
        crawl: str,
        selected: Mapping[str, Sequence[Ordered]],
        pack: Callable[[Sequence[Ordered]], bytes],
    ) -> int:
        """Run a script on letters, a slice at a time; return how many still existed."""
        number, changed = self._client.opened_number(crawl), 0
        for tag, letters in selected.items():
            for chunk in chunks(letters, MAX_LETTERS):
                changed += await self._client.store.run(script, tag, [number, pack(chunk)], replicated=True)
        return changed


async def letters_in(
    store: RedisClient, tag: str, crawl: str, number: int, before: LetterPosition | None = None
) -> AsyncIterator[Ordered]:
    """Yield a shard's dead letters, each with its place in the order of acceptance, latest first.

    With `before`, only those that come after this position.
    """
    end: bytes | str = "+inf" if before is None else repr(before[0])
    seen: set[bytes] = set()
    step = FIRST_LETTERS
    while True:
        found = await store.do(
            tag, "ZRANGE", keys.dead_letter_dates(tag, number), end, "-inf", "BYSCORE", "REV",
            "LIMIT", 0, len(seen) + step, "WITHSCORES",
        )  # fmt: skip
        rows = [(member, score) for member, score in zip(found[::2], found[1::2], strict=True)]
        fresh = [row for row in rows if row[0] not in seen]
        if not fresh:
            return
        step = SCAN_LETTERS
        fps = [member[8:] for member, score in fresh if before is None or _comes_after(member, score, before)]
        packed = await store.do(tag, "HMGET", keys.dead_letters(tag, number), *fps) if fps else ()
        for fp, letter in zip(fps, packed, strict=True):
            if letter is not None and (unpacked := _readable(crawl, fp, letter)) is not None:
                yield unpacked
        # Letters may be added and removed during the scan: continue from the instant, not from a rank.
        end = fresh[-1][1]
        seen = {member for member, score in rows if score == end}


def _comes_after(member: bytes, score: bytes, before: LetterPosition) -> bool:
    died_at, ordinal, fingerprint = before
    return float(score) < died_at or member < pack_dated(ordinal, fingerprint)


def _readable(crawl: str, fp: bytes, packed: bytes) -> Ordered | None:
    """Return a dead letter; None: it cannot be read."""
    try:
        return unpack_letter(crawl, packed)
    except (msgspec.DecodeError, struct.error, ValueError, LookupError) as error:
        about = {"crawl": crawl, "entry": fp.hex(), "bytes": len(packed), "why": str(error)}
        log.error("dead_letter.unreadable", extra=about)
        return None


def _pack_replays(letters: Sequence[Ordered]) -> bytes:
    return packing.pack_replays(
        [
            (letter.fingerprint, parsed_again(letter.kind, archived=letter.page is not None))
            for _, letter in letters
        ]
    )


def _pack_ordinals(letters: Sequence[Ordered]) -> bytes:
    return packing.pack_ordinals((ordinal, letter.fingerprint) for ordinal, letter in letters)
