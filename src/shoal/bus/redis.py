"""The bus on Redis Streams: the page streams of the store's shards, with one consumer group, `parse`.

A page that was delivered is pending under the name of its consumer until it is acknowledged. If the
consumer does not respond within the deadline, the next consumer that asks gets the page. The script of the
store that appends the items of a page also acknowledges it; `done` only removes what that script has left.

A page whose consumer stopped responding may be the cause. So a consumer has at most one such page at a
time: if it crashes, that page alone gets a strike.

A consumer that was killed leaves its name in every shard. A consumer that looks there for expired deliveries
deletes names that have no pages and have not responded for `_CONSUMER_TTL_DEADLINES` deadlines.

Waiting. On one server, a consumer waits at the server for all shards with one command, and each page wakes
one consumer. On a cluster, no command waits for several shards: an idle consumer polls a few random shards
now and then. With many consumers every shard is polled often; with few, a page may wait for half a minute.
"""

import asyncio
import random
import struct
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import groupby

import msgspec

from shoal.bus.contract import DEADLINE_S, BusBacklog, BusFactory, Delivery, Reannounce
from shoal.model.errors import Unavailable
from shoal.model.page import PageRecord
from shoal.model.request import unpack_stored
from shoal.redis_client import RedisClient, ScriptFault, key_names
from shoal.redis_client.fan_out import fan_out
from shoal.redis_client.quarantine import NO_CRAWL, Quarantine, UnreadableEntry
from shoal.redis_client.script import load_script
from shoal.redis_client.streams import ShardStreams, StreamEntry

GROUP = key_names.PARSE_GROUP
_POLL_SHARDS = 4  # shards of a cluster that an idle consumer polls at once
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.05, 2.0
_LEAVE_TIMEOUT_S = 2.0
_CONSUMER_TTL_DEADLINES = 10  # a live consumer normally visits every shard within one deadline

_unpack_page = msgspec.msgpack.Decoder(PageRecord).decode


_JOIN, _LEAVE, _RECOVER, _OWNED = (
    load_script("shoal.bus", name) for name in ("join", "leave", "recover", "owned")
)


class RedisBus:
    """One consumer; made by `open`."""

    def __init__(
        self,
        store: RedisClient,
        *,
        consumer: str,
        deadline: float = DEADLINE_S,
        reannounce: Reannounce | None = None,
    ) -> None:
        self._store = store
        self._reannounce = reannounce
        self._streams = ShardStreams(store, key_names.pages)
        self._consumer = consumer
        self._deadline = deadline
        self._shards = list(range(store.shards))
        random.shuffle(self._shards)  # so that consumers start with different shards
        self._idle = False
        self._recover_at = 0.0  # monotonic: when to look for expired deliveries again
        self._pause_s = _FIRST_PAUSE_S
        self._suspect = ""  # message id of the one held page whose previous consumer stopped responding

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        store: RedisClient,
        *,
        consumer: str,
        deadline: float = DEADLINE_S,
        reannounce: Reannounce | None = None,
    ) -> AsyncIterator["RedisBus"]:
        """Join the group, and leave it at the end of the block."""
        bus = cls(store, consumer=consumer, deadline=deadline, reannounce=reannounce)
        await bus._join()
        try:
            yield bus
        finally:
            await bus._leave()

    async def deliver(self, *, limit: int, wait: float) -> list[Delivery]:
        """Return pages."""
        until = time.monotonic() + wait
        while True:
            try:
                found = await self._receive(limit, until)
            except ScriptFault as fault:
                if "NOGROUP" not in str(fault):
                    raise
                await self._join()  # a server without persistence was restarted
                found = []
            if found or time.monotonic() >= until:
                return found

    async def extend(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Renew the deadline of pages."""
        own = await self._own("extend", deliveries)
        return [delivery for delivery in deliveries if delivery.message_id in own]

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        """Remove what the acknowledgement of the store has left."""
        await self._own("done", deliveries)
        self._clear_suspect(deliveries)

    async def release(self, deliveries: Sequence[Delivery]) -> None:
        """Return pages to the streams."""
        await self._own("release", deliveries)
        self._clear_suspect(deliveries)

    async def relay(self) -> None:
        """Do nothing: pages are announced where they are delivered from."""

    async def backlog(self) -> BusBacklog:
        """Count pages."""
        summaries = await fan_out(
            self._store.do(self._store.tag(shard), "XPENDING", self._streams.key(shard), GROUP)
            for shard in self._shards
        )
        delivered = sum(summary[0] for summary in summaries)
        return BusBacklog(await self._streams.length() - delivered, delivered)

    async def _join(self) -> None:
        await fan_out(self._store.run(_JOIN, tag, [GROUP], replicated=True) for tag in self._store.tags())

    async def _leave(self) -> None:
        """Delete this consumer from the group; if the store does not respond, other consumers do it later."""
        with suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(_LEAVE_TIMEOUT_S):
                await fan_out(
                    self._store.run(_LEAVE, tag, [GROUP, self._consumer]) for tag in self._store.tags()
                )

    async def _receive(self, limit: int, until: float) -> list[Delivery]:
        now = time.monotonic()
        if not self._suspect and now >= self._recover_at and (recovered := await self._recover()):
            # Number 1: it was released, and is not a suspect.
            self._suspect = recovered.message_id if recovered.number > 1 else ""
            return [recovered]
        if not self._idle and (found := await self._sweep(self._shards, limit)):
            return found
        # All shards were empty: from here on waiting is enough.
        recover_at = now + _FIRST_PAUSE_S if self._suspect else self._recover_at
        seconds = max(0.001, min(until, recover_at) - time.monotonic())
        found = await (self._poll(limit, seconds) if self._store.dsn.cluster else self._wait(seconds))
        self._idle = not found
        return found

    def _clear_suspect(self, ended: Sequence[Delivery]) -> None:
        if any(delivery.message_id == self._suspect for delivery in ended):
            self._suspect = ""

    async def _recover(self) -> Delivery | None:
        """Claim an expired delivery of one shard; there are often more, so the next call tries it again."""
        shard = self._shards[0]
        deadline_ms = int(self._deadline * 1000)
        arguments = (GROUP, self._consumer, deadline_ms, deadline_ms * _CONSUMER_TTL_DEADLINES)
        found = await self._store.run(_RECOVER, self._store.tag(shard), arguments)
        if found is None:
            self._shards.append(self._shards.pop(0))
            # All shards once within a deadline, whether there is one consumer or a thousand.
            self._recover_at = time.monotonic() + self._deadline / len(self._shards)
            return None
        id, fields, number = found
        entries = self._streams.entries([(self._streams.key(shard).encode(), [(id, fields)])])
        return next(iter(await self._readable(entries, number)), None)

    async def _sweep(self, shards: Sequence[int], limit: int) -> list[Delivery]:
        found: list[Delivery] = []
        for shard in shards:
            if len(found) >= limit:
                break
            answer = await self._store.do(
                self._store.tag(shard),
                *self._group(limit - len(found)),
                "STREAMS",
                self._streams.key(shard),
                ">",
            )
            found += await self._readable(self._streams.entries(answer))
        self._shards.append(self._shards.pop(0))
        return found

    async def _wait(self, seconds: float) -> list[Delivery]:
        keys = [self._streams.key(shard) for shard in self._shards]
        block = ("BLOCK", max(1, int(seconds * 1000)))
        answer = await self._store.block(
            self._store.tag(0), seconds, *self._group(1), *block, "STREAMS", *keys, *(">" for _ in keys)
        )
        return await self._readable(self._streams.entries(answer))

    async def _poll(self, limit: int, seconds: float) -> list[Delivery]:
        await asyncio.sleep(min(self._pause_s, seconds))
        found = await self._sweep(random.sample(self._shards, min(_POLL_SHARDS, len(self._shards))), limit)
        self._pause_s = _FIRST_PAUSE_S if found else min(self._pause_s * 2, _MAX_PAUSE_S)
        return found

    def _group(self, count: int) -> tuple[str | int, ...]:
        return ("XREADGROUP", "GROUP", GROUP, self._consumer, "COUNT", count)

    async def _readable(self, entries: Sequence[StreamEntry], number: int = 1) -> list[Delivery]:
        """Return the deliveries of entries; move those that cannot be read to the quarantine."""
        found: list[Delivery] = []
        damaged = False
        for entry in entries:
            try:
                found.append(self._delivery(entry, number))
            except (msgspec.DecodeError, struct.error, ValueError, KeyError) as error:
                unreadable = UnreadableEntry(
                    self._streams.key(entry.shard),
                    "stream",
                    entry.id.encode(),
                    f"{type(error).__name__}: {error}",
                )
                await Quarantine(self._store).move(self._store.tag(entry.shard), NO_CRAWL, [unreadable])
                damaged = True
        if damaged and self._reannounce is not None:
            await self._reannounce()  # the page itself may be intact
        return found

    def _delivery(self, entry: StreamEntry, number: int) -> Delivery:
        return Delivery(
            crawl=entry.fields[b"crawl"].decode(),
            fingerprint=struct.unpack(">Q", entry.fields[b"fp"])[0],
            request=unpack_stored(entry.fields[b"request"]),
            page=_unpack_page(entry.fields[b"page"]),
            number=number,
            consumer=self._consumer,
            message_id=f"{entry.shard}/{entry.id}",
        )

    async def _own(self, action: str, deliveries: Sequence[Delivery]) -> set[str]:
        """Apply `action` to the deliveries that still belong to this consumer; return their message ids."""
        own: set[str] = set()
        parts = sorted(delivery.message_id.split("/") for delivery in deliveries)
        for shard, group in groupby(parts, key=lambda part: part[0]):
            ids = [id for _, id in group]
            arguments = [GROUP, self._consumer, action, str(int(self._deadline * 1000)), *ids]
            found = await self._store.run(_OWNED, self._store.tag(int(shard)), arguments)
            own |= {f"{shard}/{id.decode()}" for id in found}
        return own


def _open(
    _address: str, store: RedisClient, /, *, consumer: str, reannounce: Reannounce, deadline: float
) -> AbstractAsyncContextManager[RedisBus]:
    return RedisBus.open(store, consumer=consumer, deadline=deadline, reannounce=reannounce)


FACTORY = BusFactory(open=_open)
