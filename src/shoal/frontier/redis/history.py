"""The search for one request in every shard: slow, but without an index that every page would pay for.

A request that has ended without a dead letter leaves only its fingerprint in the seen-set; the archive has
its page.

`RequestListing` lists all requests, shard by shard and in batches. Spilled ones are not read back for it.
"""

from collections.abc import AsyncIterator, Collection, Sequence

from shoal.frontier.redis import keys
from shoal.frontier.redis.dead_letters import letters_in
from shoal.frontier.redis.records import (
    UNREADABLE,
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
from shoal.frontier.results import ListedRequest, RequestHistory
from shoal.model.request import unpack_stored
from shoal.redis_client import RedisClient, ScriptArgument

FP_AT = 12  # bytes of an ENTRY before the fingerprint


class HistorySearch:
    """Searches one request of a crawl; with the host of its URL, only in the queue of that."""

    def __init__(
        self, store: RedisClient, scripts: Scripts, crawl: str, number: int, fp: int, *, host: str = ""
    ) -> None:
        self._store = store
        self._scripts = scripts
        self._crawl = crawl
        self._number = number
        self._fp = fp
        self._packed = pack_fp(fp)
        self._host = host

    async def run(self) -> RequestHistory | None:
        """Return what is known of the request; None: the crawl has never accepted it."""
        tags = [self._store.tag_of(self._host)] if self._host else self._store.tags()
        for searches in ((self._parsing, self._dead, self._leased), (self._delayed, self._waiting)):
            for tag in tags:
                for search in searches:
                    if (found := await search(tag)) is not None:
                        return found
            if not await self._is_seen(tags):  # what was never accepted does not wait either
                return None
        return RequestHistory(self._crawl, self._fp, "done", ())

    async def _is_seen(self, tags: Sequence[str]) -> bool:
        arguments: list[ScriptArgument] = [self._number, str(self._fp), seen_hash(self._fp)]
        for tag in tags:
            if await self._store.run(self._scripts.seen_get, tag, arguments):
                return True
        return False

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
        scan = ShardScan(self._store, tag)
        async for host in scan.host(self._host) if self._host else scan.hosts():
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


class RequestListing:
    """Lists the requests of one crawl."""

    def __init__(self, store: RedisClient, crawl: str, number: int) -> None:
        self._store = store
        self._crawl = crawl
        self._number = number

    async def run(self, states: Collection[str]) -> AsyncIterator[ListedRequest]:
        """Yield the requests in these states, as far as the store keeps them."""
        parts = (
            ("waiting", self._waiting),
            ("delayed", self._delayed),
            ("leased", self._leased),
            ("parsing", self._parsing),
            ("dead", self._dead),
        )
        for state, part in parts:
            if state in states:
                for tag in self._store.tags():
                    async for listed in part(tag):
                        yield listed

    async def _waiting(self, tag: str) -> AsyncIterator[ListedRequest]:
        scan = ShardScan(self._store, tag)
        async for host in scan.hosts():
            for lane in host.lanes:
                if lane.crawl != self._number:
                    continue
                async for packed, _ in scan.sorted(lane.returned(tag, host.name)):
                    yield _queued(
                        "waiting", StoredRecord(lane.crawl, host.name, lane.pool, unpack_entry(packed))
                    )
                for band in lane.bands:
                    async for packed in scan.list(lane.fresh(tag, host.name, band)):
                        entry = unpack_entry(packed)
                        yield _queued("waiting", StoredRecord(lane.crawl, host.name, lane.pool, entry))

    async def _delayed(self, tag: str) -> AsyncIterator[ListedRequest]:
        offset = float(await self._store.do(tag, "HGET", keys.meta(tag), "offset") or 0.0)
        async for packed, due in ShardScan(self._store, tag).sorted(keys.delayed(tag, self._number)):
            try:
                record = unpack_record(packed)
            except UNREADABLE:
                continue
            yield _queued("delayed", record, at=due - offset)

    async def _leased(self, tag: str) -> AsyncIterator[ListedRequest]:
        for token in await self._store.do(tag, "ZRANGE", keys.deadlines(tag), 0, -1):
            async for field, packed in ShardScan(self._store, tag).hash(keys.batch(tag, token.decode())):
                if field == keys.HEAD or int.from_bytes(field[:4], "big") != self._number:
                    continue
                try:
                    record = unpack_leased(packed).record
                except UNREADABLE:
                    continue
                yield _queued("leased", record)

    async def _parsing(self, tag: str) -> AsyncIterator[ListedRequest]:
        async for _, packed in ShardScan(self._store, tag).hash(keys.parsing(tag, self._number)):
            try:
                page, _, record = unpack_parsing(packed)
            except UNREADABLE:
                continue
            yield _queued("parsing", record, at=page.fetched_at, status=page.status)

    async def _dead(self, tag: str) -> AsyncIterator[ListedRequest]:
        async for _, letter in letters_in(self._store, tag, self._crawl, self._number):
            yield ListedRequest(
                fingerprint=letter.fingerprint,
                state="dead",
                url=letter.request.url,
                method=letter.request.method,
                host=letter.host,
                attempts=letter.attempts,
                status=letter.status,
                at=letter.died_at,
                rule=letter.kind.value,
                reason=letter.reason,
            )


def _queued(state: str, record: StoredRecord, *, at: float | None = None, status: int = 0) -> ListedRequest:
    entry = record.entry
    request = unpack_stored(entry.packed)
    return ListedRequest(
        fingerprint=entry.fingerprint,
        state=state,
        url=request.url,
        method=request.method,
        host=record.host,
        attempts=entry.attempts + entry.rests,
        status=status,
        at=entry.first_at if at is None else at,
    )
