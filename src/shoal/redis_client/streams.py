"""The streams of one name, one in each shard, read as if they were one.

On one server a single command reads all of them, and a single command blocks until the first has an entry: an
idle reader costs the server nothing. On a cluster every shard needs its own command, so an idle reader polls
less and less often.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from shoal.model.errors import Unavailable
from shoal.redis_client.client import RedisClient
from shoal.redis_client.connection import Argument
from shoal.redis_client.fan_out import fan_out

START = "0-0"
MAX_BLOCKED = 32  # connections of a process on which a reader blocks; further readers poll
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0  # between two polls of the shards of a cluster


@dataclass(frozen=True, slots=True)
class StreamEntry:
    shard: int
    id: str
    fields: Mapping[bytes, bytes]


class ShardStreams:
    """One stream per shard; `key_of` returns its key for the tag of a shard."""

    def __init__(self, store: RedisClient, key_of: Callable[[str], str]) -> None:
        self.store = store
        self._key_of = key_of

    def key(self, shard: int) -> str:
        return self._key_of(self.store.tag(shard))

    async def read(self, after: Mapping[int, str], *, count: int) -> list[StreamEntry]:
        """Return up to `count` entries of each shard after its position (default: its start)."""
        if not self.store.dsn.cluster:
            return await self._read(range(self.store.shards), after, count)
        parts = await fan_out(self._read([shard], after, count) for shard in range(self.store.shards))
        return [entry for part in parts for entry in part]

    async def wait(self, after: Mapping[int, str], *, seconds: float, stop: asyncio.Event) -> None:
        """Return when a shard has an entry after its position, after `seconds`, or when `stop` is set."""
        wait = self._poll if self.store.dsn.cluster else self._block
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(stop.wait()), group.create_task(wait(after, seconds))]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()

    async def length(self) -> int:
        """Count the entries of all shards."""
        lengths: list[int] = await fan_out(
            self.store.do(self.store.tag(shard), "XLEN", self.key(shard))
            for shard in range(self.store.shards)
        )
        return sum(lengths)

    async def _block(self, after: Mapping[int, str], seconds: float) -> None:
        if self.store.blocked >= MAX_BLOCKED:
            await self._poll(after, seconds)
            return
        with suppress(Unavailable):  # the next call raises it
            await self.store.block(
                self.store.tag(0),
                seconds,
                *("XREAD", "COUNT", 1, "BLOCK", max(1, int(seconds * 1000))),
                *self._positions(range(self.store.shards), after),
            )

    async def _poll(self, after: Mapping[int, str], seconds: float) -> None:
        pause = _FIRST_PAUSE_S
        with suppress(TimeoutError, Unavailable):
            async with asyncio.timeout(seconds):
                while True:
                    await asyncio.sleep(pause)
                    if await self.read(after, count=1):
                        return
                    pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _read(self, shards: Sequence[int], after: Mapping[int, str], count: int) -> list[StreamEntry]:
        command = ("XREAD", "COUNT", count, *self._positions(shards, after))
        return self.entries(await self.store.do(self.store.tag(shards[0]), *command))

    def _positions(self, shards: Sequence[int], after: Mapping[int, str]) -> list[Argument]:
        return ["STREAMS", *map(self.key, shards), *(after.get(shard, START) for shard in shards)]

    def entries(self, answer: Any) -> list[StreamEntry]:
        """Parse the reply of XREAD or XREADGROUP; an entry that has been deleted has no fields."""
        found = []
        for key, entries in answer or ():
            shard = int(key.split(b"}", 1)[0].rsplit(b":", 1)[1])
            for id, fields in entries:
                pairs = iter(fields or ())
                found.append(StreamEntry(shard, id.decode(), dict(zip(pairs, pairs, strict=True))))
        return found
