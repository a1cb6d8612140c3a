"""The HTTP client: HTTP/1.1 with keep-alive, one exchange per connection at a time.

It does what a crawler needs and nothing else: no redirects, no cookies, no HTTP/2 (not offered in ALPN), no
interpretation of status codes. It implements `fetch.contract.Client`.

A server may close an idle connection just as it is reused. If no byte came back, the client sends the request
once more on a new connection, and takes a turn at the gate again. Requests that must not be repeated get a
new connection from the start.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from time import monotonic, time
from types import TracebackType
from typing import Self

from msgspec import structs

from shoal.fetch.http.body_memory import UNCOUNTED_BYTES, BodyMemory
from shoal.fetch.http.budget import BodyBudget
from shoal.fetch.http.connection import Connection, pool_key
from shoal.fetch.http.decode import Decoder, decode_first, is_known
from shoal.fetch.http.dial import Dialer
from shoal.fetch.http.exchange import Exchange
from shoal.fetch.http.exit_connections import ExitConnections
from shoal.fetch.http.exit_dial import AddressResolver, ExitDialer
from shoal.fetch.http.guard import Guard, Origin, refused
from shoal.fetch.http.message import EncodedRequest, Headers, compose
from shoal.fetch.http.own_limits import RETRY_S, OutOfSockets
from shoal.fetch.http.pool import ConnectionPool
from shoal.fetch.http.proxy_protocols import LOGIN_REFUSED, absolute_form, authorization, login_refused
from shoal.fetch.http.send_turn import SendTurn
from shoal.model.errors import Rejected
from shoal.model.exits.exit import ChosenExit
from shoal.model.exits.faults import Fault
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import MIB, FetchLimits
from shoal.model.page import NotSent, Response, Timing
from shoal.model.url import canonical

SWEEP_S = 0.25  # seconds between two checks for timeouts, which are exact to this
MAX_ORIGINS = 20_000  # checked origins that are cached

DEFAULT_LIMITS = FetchLimits()


class HttpClient:
    """An HTTP client for any number of concurrent fetches; its callers limit them."""

    def __init__(
        self,
        resolver: AddressResolver,
        guard: Guard,
        *,
        idle_connections: int = 256,
        keep_idle: float = 15.0,
        in_flight_bytes: int = 64 * MIB,
        memory: BodyMemory | None = None,
        ca_file: str | None = None,
        sweep: float = SWEEP_S,
        connections: ExitConnections | None = None,
    ) -> None:
        """`connections` through exits are counted over all clients that share it."""
        self.resolver = resolver
        self._guard = guard
        self._every = sweep
        self._budget = BodyBudget(in_flight_bytes)
        self._dialer = Dialer(resolver, guard, self._budget, ca_file=ca_file)
        self._pool = ConnectionPool(size=idle_connections, keep=keep_idle)
        self._memory = memory or BodyMemory()
        self._decoder = Decoder(self._memory)
        self._busy: set[Connection] = set()
        self._through: Counter[str] = Counter()  # fetches in progress by exit; each has one connection
        self.connections = connections or ExitConnections()
        self._origins: dict[str, Origin] = {}
        self._sweeper: asyncio.TimerHandle
        # Called with exit, host and bytes on the wire after each exchange through an exit.
        self.on_traffic: Callable[[ChosenExit, str, int], None] | None = None

    @property
    def exits(self) -> ExitDialer:
        """Return what opens connections through exits, with the guard and the name servers of this client."""
        return self._dialer.exits

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._sweeper = self._loop.call_later(self._every, self._sweep)
        self.connections.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sweeper.cancel()
        self.connections.remove(self)
        self._pool.close()
        for connection in list(self._busy):
            connection.abort()
        await asyncio.sleep(0)  # the transports close their sockets in the next iteration of the loop

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Headers = (),
        body: bytes = b"",
        limits: FetchLimits = DEFAULT_LIMITS,
        turn: SendTurn | None = None,
        first_bytes: int = 0,
        via: ChosenExit | None = None,
    ) -> Response | Failure | NotSent:
        """Fetch a canonical URL once. Return `NotSent` if the turn is too far away; then nothing was sent.

        `via`: the exit to connect through.

        `first_bytes`: return about so many bytes of a longer body, decoded, and close the connection; no
        size limit applies. 0: return all of it.
        """
        origin = self._origins.get(url[: url.find("/", 8)]) or self._check(url)
        if isinstance(origin, Failure):
            return origin
        try:
            message = compose(method, url, origin.authority, headers, body, first_bytes=first_bytes)
        except Rejected as error:
            return refused(str(error))
        repeatable = method in ("GET", "HEAD")
        if via is None:
            return await self._exchange(origin, message, limits, turn, repeatable=repeatable)
        self._through[via.name] += 1
        try:
            return await self._exchange(origin, message, limits, turn, repeatable=repeatable, via=via)
        finally:
            self._through[via.name] -= 1
            if not self._through[via.name]:
                del self._through[via.name]

    async def _exchange(
        self,
        origin: Origin,
        message: EncodedRequest,
        limits: FetchLimits,
        turn: SendTurn | None,
        *,
        repeatable: bool,
        via: ChosenExit | None = None,
    ) -> Response | Failure | NotSent:
        started_at = monotonic()
        timing = Timing() if turn is None else turn.timing
        may_be_kept = repeatable and (via is None or via.keep)
        kept = self._pool.take(pool_key(origin, via)) if may_be_kept else None
        if kept is not None:
            answer = await self._send(kept, message, limits, turn, timing=timing, started_at=started_at)
            if not isinstance(answer, Failure) or answer.failure_class is not FailureClass.CONNECT:
                return answer
        if via is not None:
            self.connections.make_room(via)
        try:
            opened = await self._dialer.open(origin, limits, timing, via)
        except OutOfSockets:
            self._pool.close()  # idle connections hold what others need
            return NotSent(RETRY_S)
        if isinstance(opened, Failure):
            return opened
        return await self._send(opened, message, limits, turn, timing=timing, started_at=started_at)

    def count_through(self, exit: str) -> int:
        return self._through[exit] + self._pool.count_idle(exit)

    def close_idle_through(self, exit: str) -> bool:
        return self._pool.close_idle(exit)

    def _check(self, url: str) -> Origin | Failure:
        """Return the origin of a URL that is not in the cache, or the guard's refusal."""
        try:
            if url != canonical(url):
                return refused("the URL is not in canonical form")
        except Rejected as error:
            return refused(str(error))
        origin = self._guard.origin(url)
        if isinstance(origin, Origin):
            if len(self._origins) >= MAX_ORIGINS:
                self._origins.clear()
            self._origins[origin.key] = origin
        return origin

    async def _send(
        self,
        connection: Connection,
        message: EncodedRequest,
        limits: FetchLimits,
        turn: SendTurn | None,
        *,
        timing: Timing,
        started_at: float,
    ) -> Response | Failure | NotSent:
        """Run one exchange. Afterwards the connection is in the pool or closed, in every case."""
        exchange = connection.exchange
        is_first = not connection.idle_since
        timing.address = connection.address
        self._busy.add(connection)
        try:
            if turn is not None:
                waited_from = monotonic()
                wait = await turn.take(connection.address)
                waited = monotonic() - waited_from
                timing.queue += waited
                if wait:
                    self._pool.put(connection)
                    return NotSent(wait)
                started_at += waited  # the wait does not count towards the total time
            if connection.closed:
                return Failure(FailureClass.CONNECT, "closed by the server before the request")
            exchange.begin(
                limits,
                started_at=started_at,
                head=message.head,
                ranged=message.ranged,
                first_bytes=message.first_bytes,
            )
            data = message.data
            if connection.absolute and connection.via is not None:
                exit = connection.via.exit
                login = authorization(connection.via.user, exit.password)
                data = absolute_form(message, connection.origin.key, login)
            over = connection.request(data, turn.answered if turn is not None else None)
            if turn is not None:
                turn.sent()
            await over
            elapsed = _note_exchange(timing, exchange)
            if exchange.failure is not None:
                if connection.via is not None and is_first and not exchange.status:
                    return _through_tunnel(connection, exchange.failure)
                return exchange.failure
            if connection.absolute and exchange.status == LOGIN_REFUSED:
                connection.abort()
                return login_refused("user name or password refused, status 407")
            wire = body = exchange.body
            lenient = exchange.lenient
            if self._memory.full and len(wire) > UNCOUNTED_BYTES:
                self._memory.release(await self._memory.reserve(len(wire)))
            if exchange.encoding:
                lenient = lenient or not is_known(exchange.encoding)
                if message.first_bytes:
                    decoded = decode_first(wire, exchange.encoding, limits, message.first_bytes)
                else:
                    decoded = await self._decoder.decode(
                        wire, exchange.encoding, limits, may_be_empty=not exchange.until_close
                    )
                if isinstance(decoded, Failure):
                    connection.abort()
                    return Failure(decoded.failure_class, decoded.reason, exchange.status)
                body = decoded
            timing.body_bytes = len(body)
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
                lenient,
                "" if connection.via is None else connection.via.name,
                connection.absolute,
            )
            size = len(wire) if body is wire else len(wire) + len(body)
            if size > UNCOUNTED_BYTES:
                self._memory.hold(response, size)
            if connection.via is None or connection.via.keep:
                self._pool.put(connection)
            else:
                connection.abort()
            return response
        except BaseException:
            connection.abort()
            raise
        finally:
            exchange.forget()
            if connection.via is not None and self.on_traffic is not None:
                self.on_traffic(connection.via, connection.origin.authority, connection.take_wire_bytes())
            self._busy.discard(connection)
            self._budget.free(connection)

    def _sweep(self) -> None:
        now = monotonic()
        for connection in list(self._busy):
            connection.sweep(now)
        self._pool.sweep(now)
        self._sweeper = self._loop.call_later(self._every, self._sweep)


def _through_tunnel(connection: Connection, failure: Failure) -> Failure:
    """Return the failure of the first exchange of a connection through an exit, which brought no status."""
    if connection.origin.secure:
        return failure  # the handshake was the answer of the target
    return structs.replace(failure, fault=Fault.TUNNEL)


def _note_exchange(timing: Timing, exchange: Exchange) -> float:
    """Note the phases of an exchange that has just ended; return the seconds since its request was sent."""
    now = monotonic()
    if exchange.received:
        timing.first_byte = exchange.first_byte_at - exchange.sent_at
        timing.body = now - exchange.first_byte_at
    else:
        timing.first_byte = now - exchange.sent_at  # it waited in vain
    timing.wire_bytes = exchange.size
    return now - exchange.sent_at
