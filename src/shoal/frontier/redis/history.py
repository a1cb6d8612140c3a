"""The search for one request in every shard: slow, but without an index that every page would pay for.

A request that has ended without a dead letter leaves only its fingerprint in the seen-set; the archive has
its page.
"""

from collections.abc import AsyncIterator

from shoal.frontier.redis import keys
from shoal.frontier.redis.records import (
    StoredLane,
    StoredRecord,
    pack_fp,
    unpack_entry,
    unpack_leased,
    unpack_letter,
    unpack_parsing,
    unpack_record,
)
from shoal.frontier.redis.scan import BATCH, ShardScan
from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.redis.seen import seen_hash
from shoal.frontier.results import RequestHistory
from shoal.model.request import unpack_stored
from shoal.redis_client import RedisClient, ScriptArgument

FP_AT = 12  # bytes of an ENTRY before the fingerprint


class HistorySearch:
    """Searches one request of a crawl."""

    def __init__(self, store: RedisClient, scripts: Scripts, crawl: str, number: int, fp: int) -> None:
        self._store = store
        self._scripts = scripts
        self._crawl = crawl
        self._number = number
        self._fp = fp
        self._packed = pack_fp(fp)

    async def run(self) -> RequestHistory | None:
        """Return what is known of the request; None: the crawl has never accepted it."""
        for tag in self._store.tags():
            for search in (self._parsing, self._dead, self._leased, self._delayed, self._waiting):
                if (found := await search(tag)) is not None:
                    return found
        for tag in self._store.tags():
            arguments: list[ScriptArgument] = [self._number, str(self._fp), seen_hash(self._fp)]
            if await self._store.run(self._scripts.seen_get, tag, arguments):
                return RequestHistory(self._crawl, self._fp, "done", ())
        return None

    async def _parsing(self, tag: str) -> RequestHistory | None:
        packed = await self._store.do(tag, "HGET", keys.parsing(tag, self._number), self._packed)
        if packed is None:
            return None
        page, holder, record = unpack_parsing(packed)
        request = unpack_stored(record.entry.packed)
        return RequestHistory(
            self._crawl, self._fp, "parsing", (), request, page, request.found_on, holder=holder
        )

    async def _dead(self, tag: str) -> RequestHistory | None:
        packed = await self._store.do(tag, "HGET", keys.dead_letters(tag, self._number), self._packed)
        if packed is None:
            return None
        _, letter = unpack_letter(self._crawl, packed)
        return RequestHistory(
            self._crawl,
            self._fp,
            "dead",
            (),
            letter.request,
            letter.page,
            letter.request.found_on,
            ended_at=letter.died_at,
            status=letter.status,
            rule=letter.kind.value,
            reason=letter.reason,
            holder=letter.holder,
        )

    async def _leased(self, tag: str) -> RequestHistory | None:
        field = self._number.to_bytes(4, "big") + self._packed
        for token in await self._store.do(tag, "ZRANGE", keys.deadlines(tag), 0, -1):
            batch = keys.batch(tag, token.decode())
            leased, head = await self._store.do(tag, "HMGET", batch, field, keys.HEAD)
            if leased is not None:
                return self._queued("leased", unpack_leased(leased).record, holder=head[1:].decode())
        return None

    async def _delayed(self, tag: str) -> RequestHistory | None:
        offset = float(await self._store.do(tag, "HGET", keys.meta(tag), "offset") or 0.0)
        async for packed, due in self._scan(tag, keys.delayed(tag, self._number), "*"):
            record = unpack_record(packed)
            if record.entry.fingerprint == self._fp:
                return self._queued("delayed", record, due=due - offset)
        return None

    async def _waiting(self, tag: str) -> RequestHistory | None:
        pattern = b"?" * FP_AT + b"".join(b"\\" + bytes((byte,)) for byte in self._packed) + b"*"
        async for host in ShardScan(self._store, tag).hosts():
            for lane in host.lanes:
                if lane.crawl != self._number:
                    continue
                async for entry in self._entries(tag, host.name, lane, pattern):
                    record = StoredRecord(lane.crawl, host.name, lane.pool, unpack_entry(entry))
                    return self._queued("waiting", record)
        return None

    async def _entries(self, tag: str, host: str, lane: StoredLane, pattern: bytes) -> AsyncIterator[bytes]:
        """Yield the entries of a lane that have the fingerprint."""
        async for entry, _ in self._scan(tag, lane.returned(tag, host), pattern):
            yield entry
        for band in lane.bands:
            async for entry in ShardScan(self._store, tag).list(lane.fresh(tag, host, band)):
                if entry[FP_AT : FP_AT + len(self._packed)] == self._packed:
                    yield entry

    async def _scan(self, tag: str, key: str, pattern: bytes | str) -> AsyncIterator[tuple[bytes, float]]:
        cursor = b"0"
        while True:
            cursor, found = await self._store.do(tag, "ZSCAN", key, cursor, "MATCH", pattern, "COUNT", BATCH)
            for member, score in zip(found[::2], found[1::2], strict=True):
                yield member, float(score)
            if cursor == b"0":
                return

    def _queued(
        self, state: str, record: StoredRecord, *, due: float | None = None, holder: str = ""
    ) -> RequestHistory:
        request = unpack_stored(record.entry.packed)
        return RequestHistory(
            self._crawl, self._fp, state, (), request, found_on=request.found_on, due=due, holder=holder
        )
