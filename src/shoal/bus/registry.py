"""The bus of an address, by its scheme."""

from contextlib import AbstractAsyncContextManager

from shoal.backends import Backends, Builtin
from shoal.bus.contract import DEADLINE_S, Bus, BusFactory, Reannounce
from shoal.model.errors import Misconfigured
from shoal.redis_client import RedisClient

GROUP = "shoal.buses"
_STORE_STREAMS = ""  # the scheme of an empty address
_BUSES = Backends(
    GROUP,
    BusFactory,
    {
        _STORE_STREAMS: Builtin("shoal.bus.redis:FACTORY"),
        "nats": Builtin("shoal.bus.nats:FACTORY", extra="nats"),
        "tls": Builtin("shoal.bus.nats:FACTORY", extra="nats"),
    },
)


def open_bus(
    address: str, store: RedisClient, *, consumer: str, reannounce: Reannounce, deadline: float = DEADLINE_S
) -> AbstractAsyncContextManager[Bus]:
    """Join the bus of a store as a consumer; an empty address: the page streams of the store itself.

    `reannounce` makes the store announce the open pages again that are not in its streams. A bus with a
    separate queue calls it when the queue has lost pages. The streams of the store lose only what the store
    itself loses.
    """
    scheme = address.partition("://")[0].lower()
    if (name := _BUSES.find(scheme)) is None:
        # Name the scheme only: an address may contain a password.
        known = ", ".join(filter(None, _BUSES.names()))
        raise Misconfigured(
            f"bus: no bus for the scheme {scheme!r}; known: {known}, or none for the store's own streams"
        )
    factory = _BUSES.load(name, subject=f"bus {scheme!r}")
    return factory.open(address, store, consumer=consumer, reannounce=reannounce, deadline=deadline)
