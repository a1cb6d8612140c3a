"""Snapshots of the store for server-sent events: one reader for all clients.

The store is read only while a client listens. Each client has room for one snapshot: a slow one skips those
in between, and never makes the server keep them.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Protocol

import msgspec

from shoal.model.api.crawls import StoreSnapshot
from shoal.model.api.problem import ApiError
from shoal.model.errors import DataFault, ShoalError

log = logging.getLogger(__name__)

EVERY_S = 1.5
SHARE = 0.2  # of the time may be spent on reading the store
MAX_LISTENERS = 200
READ_TIMEOUT_S = 30.0
CLOSE_CHECK_S = 0.5  # between two looks whether the server stops


class SnapshotSource(Protocol):
    async def read(self) -> StoreSnapshot: ...


OpenReader = Callable[[], AbstractAsyncContextManager[SnapshotSource]]


class SnapshotFeed:
    def __init__(self, open_reader: OpenReader, *, address: str, every_s: float = EVERY_S) -> None:
        self._open = open_reader
        self._address = address
        self._every_s = every_s
        self._latest: tuple[int, bytes] = (0, b"")
        self._changed = asyncio.Condition()
        self._wanted = asyncio.Event()
        self._closed = asyncio.Event()
        self._listeners = 0

    async def run(self) -> None:
        """Read the store while clients listen, until cancelled."""
        while True:
            await self._wanted.wait()
            try:
                async with self._open() as reader:
                    while self._wanted.is_set():
                        began = time.monotonic()
                        async with asyncio.timeout(READ_TIMEOUT_S):
                            snapshot = await reader.read()
                        await self._publish(snapshot)
                        took = time.monotonic() - began
                        await asyncio.sleep(max(self._every_s, took / SHARE))
            except (ShoalError, DataFault, TimeoutError) as error:
                problem = str(error) or "the store does not answer"
                await self._publish(_empty(self._address, problem))
                await asyncio.sleep(self._every_s)

    async def _publish(self, snapshot: StoreSnapshot) -> None:
        async with self._changed:
            self._latest = (self._latest[0] + 1, msgspec.json.encode(snapshot))
            self._changed.notify_all()

    def check_room(self) -> None:
        """Raise if no more clients can follow."""
        if self._listeners >= MAX_LISTENERS:
            raise ApiError(
                429, "too_many_listeners", f"{MAX_LISTENERS} clients follow events already", retry_after_s=5.0
            )

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[AsyncIterator[tuple[int, bytes]]]:
        """Follow the snapshots, from the next one that is read."""
        self._listeners += 1
        self._wanted.set()
        try:
            yield self._follow()
        finally:
            self._listeners -= 1
            if not self._listeners:
                self._wanted.clear()

    def close(self) -> None:
        """End every stream: the server stops."""
        self._closed.set()

    async def _follow(self) -> AsyncIterator[tuple[int, bytes]]:
        seen = self._latest[0]
        while not self._closed.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_CHECK_S), self._changed:
                    while self._latest[0] == seen:
                        await self._changed.wait()
            if self._latest[0] != seen:
                seen, encoded = self._latest
                yield seen, encoded


def _empty(address: str, problem: str) -> StoreSnapshot:
    return StoreSnapshot(
        store=address, at=time.time(), running=False, crawls=[], crawls_total=0, problem=problem
    )
