"""One connection to a checked address, with one exchange at a time.

There are no timers for timeouts: the client checks its busy connections a few times a second.
"""

import asyncio
import ssl
from collections.abc import Callable
from time import monotonic

from shoal.fetch.http.body_memory import UNCOUNTED_BYTES
from shoal.fetch.http.budget import BodyBudget
from shoal.fetch.http.exchange import Exchange
from shoal.fetch.http.guard import Origin


class Connection(asyncio.Protocol):
    __slots__ = (
        "_answered",
        "_budget",
        "_loop",
        "_paused_at",
        "_transport",
        "_waiter",
        "address",
        "closed",
        "eof",
        "exchange",
        "idle_since",
        "on_close",
        "origin",
    )

    def __init__(
        self, origin: Origin, address: str, *, budget: BodyBudget, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.origin = origin
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

    def request(self, message: bytes, answered: Callable[[], None] | None) -> asyncio.Future[None]:
        """Send a request; the future is done when the exchange is over. Call `answered` at the first byte."""
        self._answered = answered
        self._waiter = self._loop.create_future()
        self._transport.write(message)
        self.exchange.sent_at = monotonic()
        return self._waiter

    def abort(self) -> None:
        """Close at once. The future of a running exchange is never resolved."""
        self._waiter = None
        if not self.closed:
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
            self._over()
        elif exchange.size > UNCOUNTED_BYTES:
            self._budget.hold(self, exchange.size)

    def eof_received(self) -> None:
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
