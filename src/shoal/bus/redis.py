"""The bus on Redis Streams: the page streams of the store's shards, and one group of consumers, `parse`.

A page that was delivered is pending, under the name of its consumer, until it is acknowledged or silent for
too long: then it belongs to whoever asks next. Acknowledging is the store's own step, in the same script that
takes the items in; `done` here only removes what that step did not want.

A page whose consumer fell silent may be what silenced it. So a consumer has one such page in hand at most:
where it dies of that, the page alone is a step nearer to being given up.

A consumer that was killed leaves its name in every shard. Whoever looks there for pages of the silent forgets
names that have none and were not heard of for `_FORGOTTEN` deadlines.

Waiting. On one server a consumer waits at the server, for all shards with one command, and each page wakes
one consumer. On a cluster no command waits for several shards: there a consumer with nothing to do looks into
a few shards now and then, so that with many consumers every shard is looked into often, and with few of them
a page may have to wait for half a minute.
"""

import asyncio
import random
import struct
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import groupby

import msgspec

from shoal.bus.delivery import DEADLINE, Delivery, Lag
from shoal.model.errors import Unavailable
from shoal.model.page import PageRecord
from shoal.model.request import unpack
from shoal.redis_client import RedisClient, ScriptFault, key_names
from shoal.redis_client.fan_out import fan_out
from shoal.redis_client.script import load_script
from shoal.redis_client.streams import ShardStreams, StreamEntry

GROUP = key_names.PARSE_GROUP
_PROBED = 4  # shards of a cluster that one look of an idle consumer goes into
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_GOODBYE = 2.0  # seconds
_FORGOTTEN = 10  # deadlines; one that lives is heard of within each, as a rule, and in every shard

_unpack_page = msgspec.msgpack.Decoder(PageRecord).decode


_JOIN, _LEAVE, _RECOVER, _OWNED = (
    load_script("shoal.bus", name) for name in ("join", "leave", "recover", "owned")
)


class RedisBus:
    """One consumer; made by `open`."""

    def __init__(self, store: RedisClient, *, consumer: str, deadline: float = DEADLINE) -> None:
        self._store = store
        self._streams = ShardStreams(store, key_names.pages)
        self._consumer = consumer
        self._deadline = deadline
        self._shards = list(range(store.shards))
        random.shuffle(self._shards)  # consumers do not all begin with the same one
        self._idle = False
        self._look_after = 0.0  # monotonic: when to look for pages of silent consumers again
        self._pause = _FIRST_PAUSE
        self._suspect = ""  # the place of the one page in hand whose consumer before fell silent

    @classmethod
    @asynccontextmanager
    async def open(
        cls, store: RedisClient, *, consumer: str, deadline: float = DEADLINE
    ) -> AsyncIterator["RedisBus"]:
        """Join the group, and leave it."""
        bus = cls(store, consumer=consumer, deadline=deadline)
        await bus._join()
        try:
            yield bus
        finally:
            await bus._leave()

    async def deliver(self, *, limit: int, wait: float) -> list[Delivery]:
        """Take pages."""
        until = time.monotonic() + wait
        while True:
            try:
                found = await self._look(limit, until)
            except ScriptFault as fault:
                if "NOGROUP" not in str(fault):
                    raise
                await self._join()  # a server without persistence was restarted
                found = []
            if found or time.monotonic() >= until:
                return found

    async def extend(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Stay in charge of pages."""
        own = await self._own("extend", deliveries)
        return [delivery for delivery in deliveries if delivery.place in own]

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        """Remove what the store's acknowledgement has left."""
        await self._own("done", deliveries)
        self._clear(deliveries)

    async def release(self, deliveries: Sequence[Delivery]) -> None:
        """Give pages back."""
        await self._own("release", deliveries)
        self._clear(deliveries)

    async def relay(self) -> None:
        """Nothing is to be done: pages are announced where they are delivered from."""

    async def lag(self) -> Lag:
        """Count pages."""
        summaries = await fan_out(
            self._store.do(self._store.tag(shard), "XPENDING", self._streams.key(shard), GROUP)
            for shard in self._shards
        )
        delivered = sum(summary[0] for summary in summaries)
        return Lag(await self._streams.length() - delivered, delivered)

    async def _join(self) -> None:
        await fan_out(self._store.run(_JOIN, tag, [GROUP], replicated=True) for tag in self._store.tags())

    async def _leave(self) -> None:
        """Leave nothing behind; a consumer that cannot say goodbye is a name that nobody answers to."""
        with suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await fan_out(
                    self._store.run(_LEAVE, tag, [GROUP, self._consumer]) for tag in self._store.tags()
                )

    async def _look(self, limit: int, until: float) -> list[Delivery]:
        now = time.monotonic()
        if not self._suspect and now >= self._look_after and (recovered := await self._recovered()):
            self._suspect = recovered.place if recovered.number > 1 else ""  # 1: it was given back
            return [recovered]
        if not self._idle and (found := await self._sweep(self._shards, limit)):
            return found
        # An empty round is over: from here on waiting is enough.
        look_after = now + _FIRST_PAUSE if self._suspect else self._look_after
        seconds = max(0.001, min(until, look_after) - time.monotonic())
        found = await (self._probe(limit, seconds) if self._store.dsn.cluster else self._wait(seconds))
        self._idle = not found
        return found

    def _clear(self, ended: Sequence[Delivery]) -> None:
        if any(delivery.place == self._suspect for delivery in ended):
            self._suspect = ""

    async def _recovered(self) -> Delivery | None:
        """Look into one shard for a page whose consumer is silent; it had others there, as a rule."""
        shard = self._shards[0]
        deadline_ms = int(self._deadline * 1000)
        arguments = (GROUP, self._consumer, deadline_ms, deadline_ms * _FORGOTTEN)
        found = await self._store.run(_RECOVER, self._store.tag(shard), arguments)
        if found is None:
            self._shards.append(self._shards.pop(0))
            # All shards once within a deadline, whether there is one consumer or a thousand.
            self._look_after = time.monotonic() + self._deadline / len(self._shards)
            return None
        id, fields, number = found
        [entry] = self._streams.entries([(self._streams.key(shard).encode(), [(id, fields)])])
        return self._delivery(entry, number)

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
            found += [self._delivery(entry, 1) for entry in self._streams.entries(answer)]
        self._shards.append(self._shards.pop(0))
        return found

    async def _wait(self, seconds: float) -> list[Delivery]:
        keys = [self._streams.key(shard) for shard in self._shards]
        block = ("BLOCK", max(1, int(seconds * 1000)))
        answer = await self._store.block(
            self._store.tag(0), seconds, *self._group(1), *block, "STREAMS", *keys, *(">" for _ in keys)
        )
        return [self._delivery(entry, 1) for entry in self._streams.entries(answer)]

    async def _probe(self, limit: int, seconds: float) -> list[Delivery]:
        await asyncio.sleep(min(self._pause, seconds))
        found = await self._sweep(random.sample(self._shards, min(_PROBED, len(self._shards))), limit)
        self._pause = _FIRST_PAUSE if found else min(self._pause * 2, _LONGEST_PAUSE)
        return found

    def _group(self, count: int) -> tuple[str | int, ...]:
        return ("XREADGROUP", "GROUP", GROUP, self._consumer, "COUNT", count)

    def _delivery(self, entry: StreamEntry, number: int) -> Delivery:
        return Delivery(
            crawl=entry.fields[b"crawl"].decode(),
            fingerprint=struct.unpack(">Q", entry.fields[b"fp"])[0],
            request=unpack(entry.fields[b"request"]),
            page=_unpack_page(entry.fields[b"page"]),
            number=number,
            consumer=self._consumer,
            place=f"{entry.shard}/{entry.id}",
        )

    async def _own(self, action: str, deliveries: Sequence[Delivery]) -> set[str]:
        own: set[str] = set()
        places = sorted(delivery.place.split("/") for delivery in deliveries)
        for shard, group in groupby(places, key=lambda place: place[0]):
            ids = [id for _, id in group]
            arguments = [GROUP, self._consumer, action, str(int(self._deadline * 1000)), *ids]
            kept = await self._store.run(_OWNED, self._store.tag(int(shard)), arguments)
            own |= {f"{shard}/{id.decode()}" for id in kept}
        return own
