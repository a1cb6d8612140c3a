"""What the bus brings, and the calls that every backend has."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from shoal.model.page import PageRecord
from shoal.model.request import Request
from shoal.model.url import host_key

Reannounce = Callable[[], Awaitable[int]]
"""Announces pages again that are open and that no stream of the store has; returns how many."""

DEADLINE = 60.0  # seconds of silence after which a page is given to somebody else


class Delivery(msgspec.Struct, frozen=True):
    """A page, handed to one consumer until it is silent for too long."""

    crawl: str
    fingerprint: int
    request: Request
    page: PageRecord
    number: int  # of the delivery: 1 for the first
    consumer: str  # as the store knows it; empty: the store cannot tell who has a page, only that it is open
    place: str  # where the backend finds it again

    @property
    def host(self) -> str:
        """Name the host of its request, by which a store in shards finds the page."""
        return host_key(self.request.url)


class Lag(msgspec.Struct, frozen=True):
    """What the parse stage has before it."""

    waiting: int
    delivered: int


class Bus(Protocol):
    """The contract is in the package's description."""

    async def deliver(self, *, limit: int, wait: float) -> list[Delivery]: ...
    async def extend(self, deliveries: Sequence[Delivery]) -> list[Delivery]: ...
    async def done(self, deliveries: Sequence[Delivery]) -> None: ...
    async def release(self, deliveries: Sequence[Delivery]) -> None: ...
    async def relay(self) -> None: ...
    async def lag(self) -> Lag: ...
