"""A bus by its address."""

from contextlib import AbstractAsyncContextManager

from shoal.bus.contract import DEADLINE, Bus, Reannounce
from shoal.model.errors import Misconfigured
from shoal.redis_client import RedisClient


def open_bus(
    address: str, store: RedisClient, *, consumer: str, reannounce: Reannounce, deadline: float = DEADLINE
) -> AbstractAsyncContextManager[Bus]:
    """Join the bus of a store as a consumer; an empty address: the store's own streams.

    `reannounce` has the store announce its open pages again that are not in its streams: a queue of its own
    that has lost them asks for it. The store's own streams have nothing to lose that the store has not lost.
    """
    scheme = address.partition("://")[0]
    match scheme:
        case "":
            from shoal.bus.redis import RedisBus

            return RedisBus.open(store, consumer=consumer, deadline=deadline)
        case "nats" | "tls":
            try:
                from shoal.bus.nats import NatsBus
            except ImportError as error:
                raise Misconfigured("bus: for NATS, run  pip install 'shoal[nats]'  first") from error
            return NatsBus.open(address, store, consumer=consumer, reannounce=reannounce, deadline=deadline)
        case _:  # name the scheme only: an address may carry a password
            raise Misconfigured(f"bus: nothing here speaks {scheme!r}; known: nats, tls, or none at all")
