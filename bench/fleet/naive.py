"""Three frontiers as they are often built on Redis: one queue for all hosts, and a limiter beside it.

Each takes from a sorted set of URLs by priority. They differ in what they do with a URL whose host was asked
less than a second ago: look further down the queue, wait while holding it, or put it back for later.
"""

import asyncio
import time
from typing import Protocol

from shoal.redis_client import RedisClient

TAG = "{naive}"
QUEUE = f"{TAG}:queue"
INTERVAL = 1.0  # seconds between requests to one host
LOOK_AT = 50  # members at the head of the queue


class Design(Protocol):
    calls: int  # round trips so far

    def __init__(self, store: RedisClient) -> None: ...

    async def take(self) -> str | None:
        """Return the host of a URL that may be fetched now; None: none was found."""


class Naive:
    def __init__(self, store: RedisClient) -> None:
        self._store = store
        self.calls = 0

    async def ask(self, *command: str | int | float) -> object:
        self.calls += 1
        return await self._store.do(TAG, *command)

    async def pop(self) -> str | None:
        popped = await self.ask("ZPOPMIN", QUEUE)
        return popped[0].decode() if isinstance(popped, list) and popped else None


class Scan(Naive):
    """Look through the head of the queue for a host that is not locked."""

    async def take(self) -> str | None:
        head = await self.ask("ZRANGE", QUEUE, 0, LOOK_AT - 1)
        assert isinstance(head, list)
        for member in map(bytes.decode, head):
            lock = f"{TAG}:lock:{host_of(member)}"
            if await self.ask("EXISTS", lock):
                continue
            if await self.ask("ZREM", QUEUE, member):
                await self.ask("SET", lock, 1, "PX", int(INTERVAL * 1000))
                return host_of(member)
        return None


class PopAndWait(Naive):
    """Pop a URL and hold it until its host was last asked long enough ago."""

    async def take(self) -> str | None:
        if (member := await self.pop()) is None:
            return None
        last = f"{TAG}:last:{host_of(member)}"
        while (asked := await self.ask("GET", last)) is not None:
            assert isinstance(asked, bytes)
            pause = float(asked) + INTERVAL - time.time()
            if pause <= 0:
                break
            await asyncio.sleep(pause)
        await self.ask("SET", last, time.time(), "PX", int(INTERVAL * 1000))
        return host_of(member)


class PopAndPutBack(Naive):
    """Pop a URL, and put it back with a worse score if its host was asked in this second."""

    async def take(self) -> str | None:
        if (member := await self.pop()) is None:
            return None
        host = host_of(member)
        if await self.ask("SET", f"{TAG}:window:{host}", 1, "NX", "PX", int(INTERVAL * 1000)):
            return host
        await self.ask("ZADD", QUEUE, priority_of(member) * 1e13 + time.time() * 1000, member)
        return None


def host_of(member: str) -> str:
    return member.split("/")[1]


def priority_of(member: str) -> int:
    return int(member.split("/", maxsplit=1)[0])


async def fill(store: RedisClient, crowd: dict[str, tuple[int, int]]) -> None:
    """Queue URLs: host -> priority and number."""
    began = time.time() * 1000
    for host, (priority, number) in crowd.items():
        members = [f"{priority}/{host}/{page}" for page in range(number)]
        for first in range(0, number, 1000):
            scored = [
                part for member in members[first : first + 1000] for part in (priority * 1e13 + began, member)
            ]
            await store.do(TAG, "ZADD", QUEUE, *scored)


DESIGNS: dict[str, type[Design]] = {
    "scan the head": Scan,
    "pop and wait": PopAndWait,
    "pop and put back": PopAndPutBack,
}
