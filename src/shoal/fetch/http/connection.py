"""One connection to a checked address, with one exchange at a time.

There are no timers for timeouts: the client checks its busy connections a few times a second.

A connection through an exit also counts its bytes on the wire.
"""

import asyncio
import ssl
from collections.abc import Callable
from time import monotonic

from shoal.fetch.http.body_memory import UNCOUNTED_BYTES
from shoal.fetch.http.budget import BodyBudget
from shoal.fetch.http.exchange import Exchange
from shoal.fetch.http.guard import Origin
from shoal.fetch.http.wire_bytes import wire_bytes
from shoal.model.exits.exit import ChosenExit


class Connection(asyncio.Protocol):
    __slots__ = (
        "_answered",
        "_budget",
        "_loop",
        "_paused_at",
        "_transport",
        "_waiter",
        "_wire_before",
        "absolute",
        "address",
        "closed",
        "eof",
        "exchange",
        "idle_since",
        "on_close",
        "origin",
        "pool_key",
        "via",
        "wire_bytes",
    )

    def __init__(
        self,
        origin: Origin,
        address: str,
        *,
        budget: BodyBudget,
        loop: asyncio.AbstractEventLoop,
        via: ChosenExit | None = None,
    ) -> None:
        self.origin = origin
        self.via = via
        self.pool_key = pool_key(origin, via)
        self.absolute = False  # requests go to the exit, with the whole URL
        self.wire_bytes = 0  # in both directions, up to the end of the last exchange through an exit
        self._wire_before = 0  # of those, counted by `take_wire_bytes`
        self.address = address
        self.exchange = Exchange()
        self.closed = False
        self.eof = False  # the server ended the stream properly; over TLS, closing the socket alone does not
        self.idle_since = 0.0
        self.on_close: Callable[[Connection], None] | None = None  # set while it is in the pool
        self._budget = budget
        self._loop = loop
        self._paused_at = 0.0
        self._waiter: asyncio.Future[None] | None = None  # done when the current exchange is over
        self._answered: Callable[[], None] | None
        self._transport: asyncio.Transport

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Do the TLS handshake, before the first request."""
        transport = await self._loop.start_tls(
            self._transport, self, context, server_hostname=self.origin.host
        )
        assert transport is not None
        self._transport = transport

    def adopt(self, transport: asyncio.Transport, *, absolute: bool) -> None:
        """Take over the connection to an exit, after its handshake."""
        self.absolute = absolute
        transport.set_protocol(self)
        self.connection_made(transport)
        if not self.origin.secure:
            transport.resume_reading()

    def take_wire_bytes(self) -> int:
        """Return the bytes on the wire since the last call, up to the end of an exchange; 0: no exit."""
        taken, self._wire_before = self.wire_bytes - self._wire_before, self.wire_bytes
        return taken

    def _count_wire(self) -> None:
        if self.via is None:
            return
        # 0 after the connection was closed: then the count before that stays.
        self.wire_bytes = max(self.wire_bytes, wire_bytes(self._transport))

    def request(self, message: bytes, answered: Callable[[], None] | None) -> asyncio.Future[None]:
        """Send a request; the future is done when the exchange is over. Call `answered` at the first byte."""
        self._answered = answered
        self._waiter = self._loop.create_future()
        self.exchange.sent_at = monotonic()  # before writing: this process may be interrupted after it
        self._transport.write(message)
        return self._waiter

    def abort(self) -> None:
        """Close at once. The future of a running exchange is never resolved."""
        self._waiter = None
        if not self.closed:
            self._count_wire()
            self.closed = True
            self._leave_pool()
            self._transport.abort()

    def sweep(self, now: float) -> None:
        """End the exchange if it has taken too long."""
        if self._waiter is not None and not self._paused_at and self.exchange.overdue(now):
            self._over()

    # -- called by the budget -----------------------------------------------------------------------------

    def pause(self) -> None:
        if not self.closed:
            self._paused_at = monotonic()
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self.closed and self._paused_at:
            now = monotonic()
            self.exchange.excuse(now, now - self._paused_at)
            self._paused_at = 0.0
            self._transport.resume_reading()

    # -- called by the event loop -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # asyncio declares its base class here

    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        if self._waiter is None:
            # Data without a request: a second response, or a server that sends first. If it were kept, it
            # would be read as the response to the next request.
            self.abort()
            return
        if not exchange.received:
            exchange.first_byte_at = monotonic()
            if self._answered is not None:
                self._answered()
        if exchange.feed(data):
            self._count_wire()  # before the server closes the connection, and the count is gone
            self._over()
        elif exchange.size > UNCOUNTED_BYTES:
            self._budget.hold(self, exchange.size)

    def eof_received(self) -> None:
        self._count_wire()
        self.eof = True

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self._leave_pool()
        if self._waiter is not None:
            self.exchange.end(reset=error is not None)
            self._over()
        self.exchange.close()

    def _over(self) -> None:
        waiter, self._waiter = self._waiter, None
        if not self.exchange.reusable:
            self.abort()
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _leave_pool(self) -> None:
        if self.on_close is not None:
            self.on_close(self)


def pool_key(origin: Origin, via: ChosenExit | None) -> str:
    """Return what has to be equal for a connection to be used again."""
    return origin.key if via is None else f"{via.key} {origin.key}"
