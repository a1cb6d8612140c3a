"""The HTTP client: HTTP/1.1 over sockets of our own, one exchange per connection at a time, keep-alive.

It does what a crawler needs and nothing else: no redirects, no cookies, no HTTP/2 (not offered in ALPN), no
meaning of status codes. `fetch` never raises for what a server does, and a cancelled `fetch` leaves nothing
behind: its connection is closed.

A kept connection may have been closed by the server just as we use it. If not a single byte came back, the
request is sent once more on a new connection, through the gate again. Requests that must not be repeated get
a new connection from the start.
"""

import asyncio
from time import monotonic, time
from types import TracebackType
from typing import Protocol, Self

from shoal.fetch.gate import HeldSlots
from shoal.fetch.http.budget import Budget
from shoal.fetch.http.connection import Connection
from shoal.fetch.http.decode import Decoder
from shoal.fetch.http.dial import AddressResolver, Dialer
from shoal.fetch.http.guard import Guard, Origin, refused
from shoal.fetch.http.message import Headers, Message, compose
from shoal.fetch.http.pool import Pool
from shoal.model.errors import Rejected
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import MIB, FetchLimits
from shoal.model.page import Response
from shoal.model.url import canonical

SWEEP = 0.25  # seconds between looks at the clock; time-outs are that exact
ORIGINS = 20_000  # checked origins remembered

DEFAULT_LIMITS = FetchLimits()


class SendTurn(Protocol):
    """Leave to send, asked for at the moment of writing."""

    async def take(self) -> float:
        """Return 0.0 to write now, or the seconds until asking again makes sense."""

    def sent(self) -> None:
        """Take note that the request has been written."""

    def answered(self) -> None:
        """Take note of the first byte of the answer."""


class HttpClient:
    """Serves as many fetches at once as its callers start; how many that is, is their business."""

    def __init__(
        self,
        resolver: AddressResolver,
        guard: Guard,
        *,
        idle_connections: int = 256,
        keep_idle: float = 15.0,
        in_flight_bytes: int = 64 * MIB,
        ca_file: str | None = None,
        sweep: float = SWEEP,
    ) -> None:
        self._guard = guard
        self._every = sweep
        self._budget = Budget(in_flight_bytes)
        self._dialer = Dialer(resolver, guard, self._budget, ca_file=ca_file)
        self._pool = Pool(size=idle_connections, keep=keep_idle)
        self._decoder = Decoder()
        self._busy: set[Connection] = set()
        self._origins: dict[str, Origin] = {}
        self._sweeper: asyncio.TimerHandle

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._sweeper = self._loop.call_later(self._every, self._sweep)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sweeper.cancel()
        self._pool.close()
        for connection in list(self._busy):
            connection.abort()
        await asyncio.sleep(0)  # lets the transports close their sockets

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Headers = (),
        body: bytes = b"",
        limits: FetchLimits = DEFAULT_LIMITS,
        turn: SendTurn | None = None,
    ) -> Response | Failure | HeldSlots:
        """Fetch a canonical URL once. `HeldSlots`: its turn is too far off, and nothing was sent."""
        origin = self._origins.get(url[: url.find("/", 8)]) or self._check(url)
        if isinstance(origin, Failure):
            return origin
        try:
            message = compose(method, url, origin.authority, headers, body)
        except Rejected as error:
            return refused(str(error))
        started_at = monotonic()
        kept = self._pool.take(origin.key) if method in ("GET", "HEAD") else None
        if kept is not None:
            answer = await self._send(kept, message, limits, turn, started_at)
            if not isinstance(answer, Failure) or answer.failure_class is not FailureClass.CONNECT:
                return answer
        opened = await self._dialer.open(origin, limits)
        if isinstance(opened, Failure):
            return opened
        return await self._send(opened, message, limits, turn, started_at)

    def _check(self, url: str) -> Origin | Failure:
        """Let the guard read a URL whose origin is new."""
        try:
            if url != canonical(url):
                return refused("the URL is not in canonical form")
        except Rejected as error:
            return refused(str(error))
        origin = self._guard.origin(url)
        if isinstance(origin, Origin):
            if len(self._origins) >= ORIGINS:
                self._origins.clear()
            self._origins[origin.key] = origin
        return origin

    async def _send(
        self,
        connection: Connection,
        message: Message,
        limits: FetchLimits,
        turn: SendTurn | None,
        started_at: float,
    ) -> Response | Failure | HeldSlots:
        """Run one exchange. The connection ends up in the pool or closed, whatever happens."""
        exchange = connection.exchange
        self._busy.add(connection)
        try:
            if turn is not None:
                asked_at = monotonic()
                if wait := await turn.take():
                    self._pool.put(connection)
                    return HeldSlots(wait)
                started_at += monotonic() - asked_at  # the wait was not the server's doing
            if connection.closed:
                return Failure(FailureClass.CONNECT, "closed by the server before the request")
            exchange.begin(limits, started_at=started_at, head=message.head, ranged=message.ranged)
            over = connection.request(message.data, turn.answered if turn is not None else None)
            if turn is not None:
                turn.sent()
            await over
            elapsed = monotonic() - exchange.sent_at
            if exchange.failure is not None:
                return exchange.failure
            wire = body = exchange.body
            if exchange.encoding:
                decoded = await self._decoder.decode(wire, exchange.encoding, limits)
                if isinstance(decoded, Failure):
                    connection.abort()
                    return Failure(decoded.failure_class, decoded.reason, exchange.status)
                body = decoded
            unsealed = exchange.until_close and connection.origin.secure and not connection.eof
            response = Response(
                message.url,
                exchange.status,
                tuple(exchange.headers),
                body,
                wire,
                time(),
                elapsed,
                connection.address,
                unsealed,
            )
            self._pool.put(connection)
            return response
        except BaseException:
            connection.abort()
            raise
        finally:
            exchange.forget()
            self._busy.discard(connection)
            self._budget.free(connection)

    def _sweep(self) -> None:
        now = monotonic()
        for connection in list(self._busy):
            connection.sweep(now)
        self._pool.sweep(now)
        self._sweeper = self._loop.call_later(self._every, self._sweep)
