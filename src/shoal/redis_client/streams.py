"""Streams of one name, one in each shard, read as if they were one.

On one server a single command reads them all, and a single command waits for the first that has something:
a reader that has nothing to do costs the server nothing. On a cluster every shard has to be asked by itself,
so a reader with nothing to do asks less and less often.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from shoal.model.errors import Unavailable
from shoal.redis_client.client import RedisClient
from shoal.redis_client.connection import Argument
from shoal.redis_client.fan_out import together

START = "0-0"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds between two looks at the shards of a cluster


@dataclass(frozen=True, slots=True)
class StreamEntry:
    shard: int
    id: str
    fields: Mapping[bytes, bytes]


class ShardStreams:
    """The streams `T:<name>` of all shards."""

    def __init__(self, store: RedisClient, name: str) -> None:
        self.store = store
        self._name = name

    def key(self, shard: int) -> str:
        return f"{self.store.tag(shard)}:{self._name}"

    async def read(self, after: Mapping[int, str], *, count: int) -> list[StreamEntry]:
        """Return up to `count` entries of each shard that come after a position; shards not named: all."""
        if not self.store.dsn.cluster:
            return await self._read(range(self.store.shards), after, count)
        parts = await together(self._read([shard], after, count) for shard in range(self.store.shards))
        return [entry for part in parts for entry in part]

    async def wait(self, after: Mapping[int, str], *, seconds: float, stop: asyncio.Event) -> None:
        """Return when a shard has an entry after its position, after `seconds`, or when `stop` is set."""
        look = self._look_now_and_then if self.store.dsn.cluster else self._block
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(stop.wait()), group.create_task(look(after, seconds))]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()

    async def length(self) -> int:
        """Count the entries of all shards."""
        lengths: list[int] = await together(
            self.store.do(self.store.tag(shard), "XLEN", self.key(shard))
            for shard in range(self.store.shards)
        )
        return sum(lengths)

    async def _block(self, after: Mapping[int, str], seconds: float) -> None:
        with suppress(Unavailable):  # whoever asks next is told
            await self.store.block(
                self.store.tag(0),
                seconds,
                *("XREAD", "COUNT", 1, "BLOCK", max(1, int(seconds * 1000))),
                *self._places(range(self.store.shards), after),
            )

    async def _look_now_and_then(self, after: Mapping[int, str], seconds: float) -> None:
        pause = _FIRST_PAUSE
        with suppress(TimeoutError, Unavailable):
            async with asyncio.timeout(seconds):
                while True:
                    await asyncio.sleep(pause)
                    if await self.read(after, count=1):
                        return
                    pause = min(pause * 2, _LONGEST_PAUSE)

    async def _read(self, shards: Sequence[int], after: Mapping[int, str], count: int) -> list[StreamEntry]:
        tag = self.store.tag(shards[0])
        return self.entries(await self.store.do(tag, "XREAD", "COUNT", count, *self._places(shards, after)))

    def _places(self, shards: Sequence[int], after: Mapping[int, str]) -> list[Argument]:
        return ["STREAMS", *map(self.key, shards), *(after.get(shard, START) for shard in shards)]

    def entries(self, answer: Any) -> list[StreamEntry]:
        """Unpack what XREAD and XREADGROUP answer; an entry that was deleted meanwhile has no fields."""
        found = []
        for key, entries in answer or ():
            shard = int(key.split(b"}", 1)[0].rsplit(b":", 1)[1])
            for id, fields in entries:
                pairs = iter(fields or ())
                found.append(StreamEntry(shard, id.decode(), dict(zip(pairs, pairs, strict=True))))
        return found
