"""The interface of a bus, and the description by which a package provides one.

The contract that every bus keeps is the text of `shoal.bus`.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import msgspec

from shoal.model.page import PageRecord
from shoal.model.request import Request
from shoal.model.url import host_key
from shoal.redis_client import RedisClient

Reannounce = Callable[[], Awaitable[int]]
"""Announces the open pages again that are in no stream of the store; returns their number."""

DEADLINE_S = 60.0  # after which the pages of a consumer that does not respond are delivered to another one


class Delivery(msgspec.Struct, frozen=True):
    """A page that is delivered to one consumer, until its deadline."""

    crawl: str
    fingerprint: int
    request: Request
    page: PageRecord
    number: int  # of the delivery: 1 for the first
    consumer: str  # as the store knows it; empty: the store knows only that the page is open
    message_id: str  # by which the backend finds it again

    @property
    def host(self) -> str:
        """The host of its request, which selects the shard of the store."""
        return host_key(self.request.url)


class BusBacklog(msgspec.Struct, frozen=True):
    """Pages that the parse stage has not finished."""

    waiting: int
    delivered: int


class Bus(Protocol):
    """One consumer of the bus."""

    async def deliver(self, *, limit: int, wait: float) -> list[Delivery]: ...
    async def extend(self, deliveries: Sequence[Delivery]) -> list[Delivery]: ...
    async def done(self, deliveries: Sequence[Delivery]) -> None: ...
    async def release(self, deliveries: Sequence[Delivery]) -> None: ...
    async def relay(self) -> None: ...
    async def backlog(self) -> BusBacklog: ...


class OpenBus(Protocol):
    def __call__(
        self, address: str, store: RedisClient, /, *, consumer: str, reannounce: Reannounce, deadline: float
    ) -> AbstractAsyncContextManager[Bus]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BusFactory:
    """A kind of bus, found by the scheme of its address.

    A package provides one as an entry point of the group `shoal.buses`, under a scheme (`mybus`). `open`
    joins the bus at `address` as a consumer of a store, and leaves it at the end of the block.
    """

    open: OpenBus
