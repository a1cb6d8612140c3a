"""A client that looks like a browser to a server: its TLS handshake, its HTTP/2 and its headers (wreq).

It implements `fetch.contract.Client`. Its sockets are not ours: it reaches the web through the egress, which
checks every address, with a pass for each origin and exit. Bodies arrive as they were sent, and our decoder
decodes them, with its limits.

The egress takes the turn of a host when the request passes, after the handshake, and holds the request until
then. It cannot tell two requests on one HTTP/2 connection apart. So an origin has one request in flight where
turns are taken.
"""

import asyncio
import importlib
from collections import Counter, OrderedDict, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from time import monotonic, time
from typing import Any

from msgspec import structs

from shoal.fetch.egress.egress import Egress
from shoal.fetch.egress.paced_request import PacedRequest
from shoal.fetch.egress.passes import EgressPass, PassLimits
from shoal.fetch.http.body_memory import UNCOUNTED_BYTES, BodyMemory
from shoal.fetch.http.decode import Decoder, is_known
from shoal.fetch.http.exit_connections import ExitConnections
from shoal.fetch.http.exit_dial import AddressResolver, resolve_allowed
from shoal.fetch.http.guard import Guard, Origin, refused
from shoal.fetch.http.message import Headers, compose
from shoal.fetch.http.own_limits import RETRY_S, OutOfSockets
from shoal.fetch.http.send_turn import SendTurn
from shoal.fetch.impersonate.profiles import DEFAULT_PROFILE, PROFILES, headers_for
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.exits.exit import ChosenExit
from shoal.model.exits.faults import Fault
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.page import NotSent, Response, Timing
from shoal.model.url import canonical

NOT_INSTALLED = "impersonation and HTTP/2 need the extra impersonate: pip install 'shoal[impersonate]'"
MAX_PASSES = 2_000  # origins and exits in use; the one that was not used for longest is closed
NO_LIMIT = PassLimits(down_bytes=1 << 62, up_bytes=1 << 62, connections=1 << 20)  # responses have theirs
PROBE_S = 10.0
IDLE_CONNECTIONS = 256  # as our own client
KEEP_IDLE = timedelta(seconds=15)
_PassKey = tuple[str, str, int]  # origin, exit with its session, and a number where connections are not kept
NO_BODY = frozenset({204, 205, 304})


class ImpersonatingClient:
    """Opens nothing before its first fetch."""

    def __init__(
        self,
        egress: Egress,
        resolver: AddressResolver,
        guard: Guard,
        *,
        profile: str = DEFAULT_PROFILE,
        memory: BodyMemory | None = None,
        ca_file: str | None = None,
        connections: ExitConnections | None = None,
    ) -> None:
        """`connections` through exits are counted over all clients that share it."""
        self.connections = connections or ExitConnections()
        self.connections.add(self)
        self._egress = egress
        self._profile = PROFILES[profile]
        self._resolver = resolver
        self._guard = guard
        self._memory = memory or BodyMemory()
        self._decoder = Decoder(self._memory)
        self._ca_file = ca_file
        self._wreq: Any = None
        self._client: Any = None
        self._usual: Headers = ()  # that the profile brings
        self._opening = asyncio.Lock()
        self._passes: OrderedDict[_PassKey, EgressPass] = OrderedDict()
        self._serial = count(1)
        self._in_use: Counter[EgressPass] = Counter()  # requests in progress
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # of origins in use
        self._wanted: Counter[str] = Counter()  # requests that hold or wait for one of these

    def close(self) -> None:
        """Close every connection."""
        self.connections.remove(self)
        if self._client is not None:
            self._client.close()

    def sent_headers(self, headers: Headers) -> Headers:
        """Return the headers that are sent for a request with these, in their order over HTTP/1.1."""
        own = headers_for(self._profile, headers)
        given = {name.lower() for name, _ in own}
        return (*(pair for pair in self._usual if pair[0].lower() not in given), *own)

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Headers = (),
        body: bytes = b"",
        limits: FetchLimits,
        turn: SendTurn | None = None,
        via: ChosenExit | None = None,
    ) -> Response | Failure | NotSent:
        """Fetch a canonical URL once. Return `NotSent` if the turn is too far away; then nothing was sent."""
        origin = self._check(url, method, headers, body)
        if isinstance(origin, Failure):
            return origin
        if self._client is None:
            await self._open()
        address = ""
        if via is None:
            try:
                addresses = await resolve_allowed(self._resolver, self._guard, origin.host)
            except OutOfSockets:
                return NotSent(RETRY_S)
            if isinstance(addresses, Failure):
                return addresses
            address = addresses[0]
        asked = _Asked(origin, url, method, headers, body, limits, address)
        if turn is None:
            return await self._exchange(asked, None, via)
        began = monotonic()
        async with self._alone(origin.key):
            turn.timing.queue += monotonic() - began
            return await self._exchange(asked, turn, via)

    @asynccontextmanager
    async def _alone(self, origin: str) -> AsyncIterator[None]:
        """Wait until no other request to an origin is in flight."""
        lock = self._turns[origin]
        self._wanted[origin] += 1
        try:
            async with lock:
                yield
        finally:
            self._wanted[origin] -= 1
            if not self._wanted[origin]:
                del self._wanted[origin], self._turns[origin]

    def _check(self, url: str, method: str, headers: Headers, body: bytes) -> Origin | Failure:
        try:
            if url != canonical(url):
                return refused("the URL is not in canonical form")
            origin = self._guard.origin(url)
            if isinstance(origin, Origin):
                compose(method, url, origin.authority, headers, body)  # raises for what must not be sent
        except Rejected as error:
            return refused(str(error))
        return origin

    async def _exchange(
        self, asked: "_Asked", turn: SendTurn | None, via: ChosenExit | None
    ) -> Response | Failure | NotSent:
        key, issued = self._pass_for(asked.origin, via)
        self._in_use[issued] += 1
        if via is not None and not issued.open:
            self.connections.make_room(via)
        if turn is not None:
            issued.paced = PacedRequest(turn, asked.origin.key)
        try:
            return await self._exchange_with(issued, asked, turn, via)
        finally:
            self._in_use[issued] -= 1
            issued.paced = None
            if not self._in_use[issued]:
                del self._in_use[issued]
                if via is not None and not via.keep:
                    self._close_pass(key)

    async def _exchange_with(
        self, issued: EgressPass, asked: "_Asked", turn: SendTurn | None, via: ChosenExit | None
    ) -> Response | Failure | NotSent:
        limits = asked.limits
        issued.over = None
        timing = Timing() if turn is None else turn.timing
        paced = issued.paced if turn is not None else None
        began = monotonic()
        answer: Any = None
        try:
            async with asyncio.timeout(limits.total):
                answer = await self._send(issued, asked)
                if paced is not None:
                    paced.answered()
                    began = paced.sent_at or began
                timing.first_byte = monotonic() - began
                found = await self._read(answer, asked.method, limits)
        except TimeoutError:
            failure = Failure(FailureClass.TIMEOUT, "no response, or not all of it, in time")
            return _through_tunnel(failure, asked, via, paced, answered=answer is not None)
        except Exception as error:
            if paced is not None:
                paced.check()
                if paced.not_sent:
                    return NotSent(paced.not_sent)
            failure = self._failure(error, issued)
            return _through_tunnel(failure, asked, via, paced, answered=answer is not None)
        if isinstance(found, Failure):
            return found
        if issued.over is not None:  # plain http: the egress's own answer
            return issued.over
        elapsed = monotonic() - began
        timing.body = elapsed - timing.first_byte
        asked = asked if asked.address else replace(asked, address=issued.address)
        fetched = await self._response(asked, answer, found, elapsed=elapsed, via=via)
        if isinstance(fetched, Response):
            timing.address, timing.body_bytes = fetched.address, len(fetched.body)
            timing.wire_bytes = len(fetched.wire)
        return fetched

    async def _send(self, issued: EgressPass, asked: "_Asked") -> Any:
        """Send a request; return what wreq has of the response when its head has arrived."""
        limits = asked.limits
        async with asyncio.timeout(limits.connect + limits.tls + limits.first_byte):
            return await self._client.request(
                getattr(self._wreq.Method, asked.method),
                asked.url,
                proxy=self._proxy(issued),
                headers=self._header_map(asked.headers),
                orig_headers=list(self._profile.order),
                **({"body": asked.body} if asked.body else {}),
            )

    def _header_map(self, headers: Headers) -> Any:
        pairs = self._wreq.HeaderMap()
        for name, value in headers_for(self._profile, headers):
            pairs.append(name, value)
        return pairs

    async def _read(self, answer: Any, method: str, limits: FetchLimits) -> bytes | Failure:
        """Read a body as it was sent, within the limits."""
        sizes = [len(name) + len(value) + 4 for name, value in answer.headers]
        if len(sizes) > limits.header_lines or sum(sizes) > limits.header_bytes:
            return Failure(FailureClass.TOO_LARGE, "headers above the limit", answer.status.as_int())
        announced = _header(answer, "content-length")
        if announced.isdigit() and int(announced) > limits.wire_bytes and method != "HEAD":
            reason = f"announces {announced} bytes, more than {limits.wire_bytes}"
            return Failure(FailureClass.TOO_LARGE, reason, answer.status.as_int())
        received = bytearray()
        began = monotonic()
        async with answer.stream() as stream:
            pieces = aiter(stream)
            while True:
                try:
                    async with asyncio.timeout(limits.idle):
                        piece = await anext(pieces)
                except StopAsyncIteration:
                    break
                except TimeoutError:
                    return Failure(
                        FailureClass.TIMEOUT, f"no byte within {limits.idle:g} s", answer.status.as_int()
                    )
                if not isinstance(piece, memoryview | bytes):
                    continue  # trailers
                received += piece
                if len(received) > limits.wire_bytes:
                    reason = f"more than {limits.wire_bytes} bytes"
                    return Failure(FailureClass.TOO_LARGE, reason, answer.status.as_int())
                took = monotonic() - began
                if took > limits.slow_after and len(received) < limits.slow_rate * took:
                    return Failure(FailureClass.TIMEOUT, "the response is too slow", answer.status.as_int())
        return bytes(received)

    async def _response(
        self,
        asked: "_Asked",
        answer: Any,
        wire: bytes,
        *,
        elapsed: float,
        via: ChosenExit | None,
    ) -> Response | Failure:
        status = answer.status.as_int()
        headers = tuple((_text(name).lower(), _text(value)) for name, value in answer.headers)
        if status in NO_BODY:
            wire = b""
        body, lenient = wire, False
        encoding = ",".join(value for name, value in headers if name == "content-encoding")
        if encoding and wire:
            lenient = not is_known(encoding)
            decoded = await self._decoder.decode(wire, encoding, asked.limits)
            if isinstance(decoded, Failure):
                return Failure(decoded.failure_class, decoded.reason, status)
            body = decoded
        fetched = Response(
            asked.url,
            status,
            headers,
            body,
            wire,
            time(),
            elapsed,
            asked.address,
            lenient=lenient,
            exit="" if via is None else via.name,
        )
        size = len(wire) if body is wire else len(wire) + len(body)
        if size > UNCOUNTED_BYTES:
            self._memory.hold(fetched, size)
        return fetched

    async def _open(self) -> None:
        async with self._opening:
            if self._client is not None:
                return
            wreq = self._wreq = load_wreq()
            options: dict[str, Any] = {}
            if self._profile.emulation:
                options["emulation"] = getattr(wreq.Profile, self._profile.emulation)
            if self._ca_file is not None:
                authorities = await asyncio.to_thread(Path(self._ca_file).read_bytes)
                options["tls_verify"] = wreq.CertStore.from_pem_stack(authorities)
            client = wreq.Client(
                runtime=wreq.Runtime(workers=1),
                redirect=wreq.Policy.none(),
                gzip=False,
                brotli=False,
                deflate=False,
                zstd=False,
                no_proxy=True,
                pool_max_size=IDLE_CONNECTIONS,
                pool_idle_timeout=KEEP_IDLE,
                **options,
            )
            self._usual = await self._probe(client)
            self._client = client

    async def _probe(self, client: Any) -> Headers:
        """Return the headers that the profile brings: from a request to this process itself."""
        heads: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server, asyncio.timeout(PROBE_S):
            port = server.sockets[0].getsockname()[1]
            await client.request(
                self._wreq.Method.GET, f"http://127.0.0.1:{port}/", orig_headers=list(self._profile.order)
            )
        lines = [line.partition(": ") for line in heads[0].decode("latin-1").split("\r\n")[1:] if line]
        return tuple((name, value) for name, _, value in lines if name.lower() != "host")

    def _pass_for(self, origin: Origin, via: ChosenExit | None) -> tuple["_PassKey", EgressPass]:
        # A pass is what the client keeps connections for: one that is not kept is for one request.
        serial = 0 if via is None or via.keep else next(self._serial)
        key = (origin.key, "" if via is None else via.key, serial)
        if (known := self._passes.get(key)) is not None:
            self._passes.move_to_end(key)
            return key, known
        issued = self._passes[key] = self._egress.issue(via, NO_LIMIT)
        if len(self._passes) > MAX_PASSES:
            self._egress.close(self._passes.popitem(last=False)[1])
        return key, issued

    def count_through(self, exit: str) -> int:
        return sum(
            max(len(issued.open), self._in_use[issued])
            for issued in self._passes.values()
            if issued.via is not None and issued.via.name == exit
        )

    def close_idle_through(self, exit: str) -> bool:
        for key, issued in self._passes.items():
            if issued.open and issued not in self._in_use and issued.via and issued.via.name == exit:
                self._close_pass(key)
                return True
        return False

    def _close_pass(self, key: "_PassKey") -> None:
        if (issued := self._passes.pop(key, None)) is not None:
            self._egress.close(issued)

    def _proxy(self, issued: EgressPass) -> Any:
        return self._wreq.Proxy.all(self._egress.address, username=issued.proxy_user, password="x")  # noqa: S106

    def _failure(self, error: Exception, issued: EgressPass) -> Failure:
        """Return the failure for an error of wreq; what the egress has noted goes first."""
        if issued.over is not None:
            return issued.over
        wreq, text = self._wreq, _one_line(error)
        low = text.lower()
        if isinstance(error, wreq.TimeoutError):
            return Failure(FailureClass.TIMEOUT, text)
        if isinstance(error, wreq.TlsError) or "certificate" in low or "ssl" in low or "tls" in low:
            return Failure(FailureClass.TLS, f"TLS: {text}")
        if isinstance(error, wreq.BodyError | wreq.DecodingError):
            return Failure(FailureClass.TRUNCATED, text)
        if isinstance(error, wreq.ProxyConnectionError | wreq.ConnectionError | wreq.ConnectionResetError):
            return Failure(FailureClass.CONNECT, text)
        if isinstance(error, wreq.RequestError):
            if "too large" in low or "message head" in low:
                return Failure(FailureClass.TOO_LARGE, text)
            closed = any(word in low for word in ("closed", "reset", "connection error", "incomplete"))
            return Failure(FailureClass.CONNECT if closed else FailureClass.PROTOCOL, text)
        raise error


def load_wreq() -> Any:
    """Return the module wreq; raise `Misconfigured` if it is not installed."""
    try:
        return importlib.import_module("wreq")
    except ImportError:
        raise Misconfigured(NOT_INSTALLED) from None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request that may be sent."""

    origin: Origin
    url: str
    method: str
    headers: Headers
    body: bytes
    limits: FetchLimits
    address: str  # of its host; empty: not known yet, or behind an exit


def _through_tunnel(
    failure: Failure, asked: _Asked, via: ChosenExit | None, paced: PacedRequest | None, *, answered: bool
) -> Failure:
    """Return a failure with its place: through an exit, and before the target has answered?"""
    if via is None or failure.fault or answered or failure.failure_class is FailureClass.REFUSED:
        return failure
    if failure.failure_class is FailureClass.TLS and "certificate" in failure.reason.lower():
        return structs.replace(failure, fault=Fault.CERTIFICATE)
    # The egress notes when the request passes, which is after the handshake.
    shook_hands = asked.origin.secure and paced is not None and bool(paced.sent_at)
    return failure if shook_hands else structs.replace(failure, fault=Fault.TUNNEL)


def _header(answer: Any, name: str) -> str:
    value = answer.headers.get(name)
    return _text(value) if value is not None else ""


def _text(value: Any) -> str:
    return bytes(value).decode("latin-1") if not isinstance(value, str) else value


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
