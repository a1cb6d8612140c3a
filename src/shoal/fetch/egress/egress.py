"""The loopback proxy itself. It listens on 127.0.0.1, on a port that the kernel chooses.

A client shows the token of its pass as the user name of Basic proxy authentication. Without a known token it
learns nothing but 407. A name that no browser asks for by itself (`PRIMING_HOST`) is answered here, so that a
browser can learn its token before the first page.

The request that a pass is used for is held until the turn of its host has come (`paced_request.py`).

There are no half-closed connections: when a client closes its side, the connection to the server ends with
it, since a request that was cancelled would otherwise stay open for as long as the server is silent.
"""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from time import monotonic
from typing import cast

from shoal.fetch.egress.paced_request import Handshake, PacedRequest
from shoal.fetch.egress.passes import EgressPass, Passes, PassLimits
from shoal.fetch.egress.proxy_request import (
    MAX_HEAD_BYTES,
    ProxyRequest,
    closing_head,
    is_interim,
    parse_request,
)
from shoal.fetch.http import own_limits
from shoal.fetch.http.exit_dial import AddressResolver, ExitDialer, Tunnel, resolve_allowed
from shoal.fetch.http.guard import Guard, Origin, refused
from shoal.fetch.http.wire_bytes import wire_bytes
from shoal.model.exits.exit import ChosenExit
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits

PRIMING_HOST = "egress.invalid"
HEAD_TIMEOUT_S = 20.0
MAX_ADDRESSES = 3  # of a host that are tried

_UNKNOWN = b'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="egress"\r\n'
_NOT_NOW = b"HTTP/1.1 403 Forbidden\r\n"
_CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_END = b"Content-Length: 0\r\nConnection: close\r\n\r\n"

OnTraffic = Callable[[ChosenExit, str, int], None]


class Egress:
    def __init__(
        self,
        resolver: AddressResolver,
        guard: Guard,
        exits: ExitDialer,
        *,
        limits: FetchLimits | None = None,
        on_traffic: OnTraffic | None = None,
        passes: Passes | None = None,
    ) -> None:
        """`on_traffic` is called with exit, host and bytes at the end of each connection through an exit.

        `passes` are shared with other egresses, if clients may reach each of them over one socket.
        """
        self._resolver = resolver
        self._guard = guard
        self._exits = exits
        self.limits = limits or FetchLimits()
        self.on_traffic = on_traffic
        self.passes = passes or Passes()
        self._issued: set[EgressPass] = set()
        self.clients: set[ClientSide] = set()
        self.port = 0
        self._group: asyncio.TaskGroup

    @asynccontextmanager
    async def listen(self) -> AsyncIterator["Egress"]:
        """Accept clients for as long as the block runs; then end all their connections."""
        loop = asyncio.get_running_loop()
        raised: BaseException | None = None
        async with asyncio.TaskGroup() as group:
            self._group = group
            server = await loop.create_server(lambda: ClientSide(self.passes, self.clients), "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            try:
                yield self
            except BaseException as error:  # raised below: the task group would wrap it
                raised = error
            finally:
                server.close()
                for issued in list(self._issued):
                    self.close(issued)
                for client in list(self.clients):
                    client.abort()
        if raised is not None:
            raise raised

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def issue(self, via: ChosenExit | None = None, limits: PassLimits | None = None) -> EgressPass:
        """Return a new pass, for one session of a client."""
        issued = EgressPass(secrets.token_urlsafe(16), via, limits or PassLimits(), issuer=self)
        self._issued.add(issued)
        self.passes.add(issued)
        return issued

    def close(self, issued: EgressPass) -> None:
        """End a pass and all its connections."""
        issued.closed = True
        self._issued.discard(issued)
        self.passes.remove(issued)
        for connection in list(issued.open):
            connection.abort()

    def start(self, work: Coroutine[None, None, None], name: str) -> "asyncio.Task[None]":
        """Run what a connection waits for."""
        return self._group.create_task(work, name=f"egress.{name}")

    def origin(self, request: ProxyRequest) -> Origin | Failure:
        """Return what a request names, or why the guard refuses it."""
        return self._guard.origin(request.url)

    async def dial(self, issued: EgressPass, origin: Origin) -> Tunnel | Failure | None:
        """Connect to an origin, under the rules of the guard.

        None: this machine has no socket left, and the request is not sent. It is charged no attempt.
        """
        until = monotonic() + self.limits.connect
        issued.hosts[origin.authority] += 1
        is_first = issued.hosts[origin.authority] == 1
        while True:
            try:
                opened = await self._dial(issued, origin)
                break
            except own_limits.OutOfSockets:
                paced = issued.paced
                if monotonic() >= until and paced is not None and paced.drop(origin.key, own_limits.RETRY_S):
                    return None
                await asyncio.sleep(own_limits.RETRY_S)  # the time limit of the client ends it
        if is_first and isinstance(opened, Failure):
            issued.lost[origin.authority] = opened
        return opened

    async def _dial(self, issued: EgressPass, origin: Origin) -> Tunnel | Failure:
        if issued.via is not None:
            return await self._exits.open(
                issued.via, origin.host, origin.port, self.limits, may_be_absolute=False
            )
        return await self._dial_directly(origin)

    async def _dial_directly(self, origin: Origin) -> Tunnel | Failure:
        addresses = await resolve_allowed(self._resolver, self._guard, origin.host)
        if isinstance(addresses, Failure):
            return addresses
        error: OSError = OSError("no address")
        for address in addresses[:MAX_ADDRESSES]:
            try:
                async with asyncio.timeout(self.limits.connect):
                    transport, _ = await own_limits.connect(asyncio.Protocol, address, origin.port)
            except OSError as failed:  # TimeoutError is one
                error = failed
            else:
                transport.pause_reading()
                return Tunnel(transport, address)
        timed_out = isinstance(error, TimeoutError) and error.errno is None
        failure_class = FailureClass.TIMEOUT if timed_out else FailureClass.CONNECT
        return Failure(failure_class, f"no connection: {error.strerror or 'timed out'}")


@asynccontextmanager
async def accept_on(listener: socket.socket, passes: Passes) -> AsyncIterator[None]:
    """Accept clients on a socket that listens in the network of a browser; their passes say for whom."""
    clients: set[ClientSide] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: ClientSide(passes, clients), sock=listener)
    try:
        yield
    finally:
        server.close()
        for client in list(clients):
            client.abort()


class ClientSide(asyncio.Protocol):
    """A connection of a client: first its request, then bytes in both directions."""

    def __init__(self, passes: Passes, clients: "set[ClientSide]") -> None:
        self._passes = passes
        self._clients = clients
        self._egress: Egress | None = None  # once its pass is known
        self._buffer = b""
        self._pass: EgressPass | None = None
        self._server: ServerSide | None = None
        self._task: asyncio.Task[None] | None = None
        self._body_left: int | None = None  # of a request in absolute form; None: a tunnel
        self._host = self.origin = self._address = ""
        self._handshake = Handshake()
        self._connect_s = self._connected_at = 0.0
        self._paced: PacedRequest | None = None  # the latest request that this connection waited for
        self._held: bytes | None = None  # what waits for its turn
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._clients.add(self)
        self._timer = asyncio.get_running_loop().call_later(HEAD_TIMEOUT_S, self.abort)

    def data_received(self, data: bytes) -> None:
        if self._server is not None:
            self._forward(self._server, data)
            return
        self._buffer += data
        if self._task is not None:
            if len(self._buffer) > MAX_HEAD_BYTES:
                self._transport.pause_reading()
        elif b"\r\n\r\n" in self._buffer:
            head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
            self._begin(head)
        elif len(self._buffer) > MAX_HEAD_BYTES:
            self._answer(b"HTTP/1.1 431 Too Large\r\n" + _END)

    def _begin(self, head: bytes) -> None:
        self._timer.cancel()
        request = parse_request(head)
        issued = None if request is None else self._passes.find(request.token)
        if request is None or issued is None:
            self._answer((b"HTTP/1.1 400 Bad Request\r\n" if request is None else _UNKNOWN) + _END)
            return
        if request.url == f"http://{PRIMING_HOST}/":
            self._answer(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
            return
        self._pass = issued
        self._egress = cast(Egress, issued.issuer)
        if len(issued.open) >= issued.limits.connections:
            self._fail(refused(f"more than {issued.limits.connections} connections at once"))
            return
        issued.open.add(self)
        self._task = self._egress.start(self.serve(request, issued), "connect")

    async def serve(self, request: ProxyRequest, issued: EgressPass) -> None:
        """Connect to the server and join the two sides."""
        assert self._egress is not None
        origin = self._egress.origin(request)
        if isinstance(origin, Failure):
            self._fail(origin)
            return
        if issued.requests is not None and not await issued.requests.may_connect(origin):
            self._answer(_NOT_NOW + _END)
            return
        self.origin = origin.key
        began = monotonic()
        opened = await self._egress.dial(issued, origin)
        self._connect_s, self._connected_at = monotonic() - began, monotonic()
        if opened is None:
            self.abort()
            return
        if isinstance(opened, Failure):
            self._fail(opened)
            return
        if self._transport.is_closing() or issued.closed:
            opened.transport.abort()
            return
        issued.address = opened.address
        server = ServerSide(self, issued, is_tunnel=request.is_tunnel)
        server.adopt(opened.transport)
        self._server = server
        self._host = request.url.partition("://")[2].rstrip("/")
        self._address = opened.address
        if request.is_tunnel:
            self._transport.write(_CONNECTED)
            first = b""
        else:
            self._handshake.has_ended = True
            self._body_left = len(request.head) + request.body_bytes
            first = request.head
        waiting, self._buffer = first + self._buffer, b""
        self._transport.resume_reading()
        if waiting:
            self._forward(server, waiting)

    def _forward(self, server: "ServerSide", data: bytes) -> None:
        if self._body_left is not None:
            if len(data) > self._body_left:  # another request, perhaps for another host
                self.abort()
                return
            self._body_left -= len(data)
        if self._held is not None:
            self._held += data
            return
        assert self._pass is not None
        paced = self._pass.paced
        passed = 0 if self._handshake.has_ended else self._handshake.length(data)
        if paced is None or paced is self._paced or paced.origin != self.origin or passed == len(data):
            server.write(data)
            return
        if passed:
            server.write(data[:passed])
        if self._paced is None:
            tls_s = monotonic() - self._connected_at if self._body_left is None else 0.0
            paced.opened(self._connect_s, tls_s)
        self._paced, self._held = paced, data[passed:]
        self.pause()
        assert self._egress is not None
        self._task = self._egress.start(self._send_held(server, paced), "turn")

    async def _send_held(self, server: "ServerSide", paced: PacedRequest) -> None:
        """Send what is held when its turn has come; end the connection if that is too far away."""
        if not await paced.may_send(self, self._address):
            self.abort()
            return
        held, self._held = self._held, None
        if held:
            server.write(held)
        paced.sent(self)
        self.resume()

    def _fail(self, failure: Failure) -> None:
        assert self._pass is not None
        if failure.failure_class is FailureClass.REFUSED:
            self._pass.refuse(failure)
        else:
            self._pass.over = failure
        status = b"403 Forbidden" if failure.failure_class is FailureClass.REFUSED else b"502 Bad Gateway"
        self._answer(b"HTTP/1.1 " + status + b"\r\n" + _END)

    def _answer(self, message: bytes) -> None:
        self._transport.write(message)
        self._transport.close()

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def finish(self) -> None:
        """Close after what was written: the server has ended."""
        self._transport.close()

    def abort(self) -> None:
        """End both sides at once, that of the server first."""
        if self._server is not None:
            self._server.abort()
        if self._task is not None and not self._task.done():
            self._task.cancel()
        self._transport.abort()

    def eof_received(self) -> bool:
        self.abort()
        return False

    def pause_writing(self) -> None:
        if self._server is not None:
            self._server.pause()

    def resume_writing(self) -> None:
        if self._server is not None:
            self._server.resume()

    def pause(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._timer.cancel()
        self._clients.discard(self)
        if self._task is not None and not self._task.done():
            self._task.cancel()
        if self._paced is not None:
            self._paced.closed(self)
        if self._pass is not None:
            self._pass.open.discard(self)
        if self._server is not None:
            self._server.abort()
            egress, issued = self._egress, self._pass
            if egress is not None and egress.on_traffic is not None and issued and issued.via is not None:
                egress.on_traffic(issued.via, self._host, self._server.wire_bytes)


class ServerSide(asyncio.Protocol):
    """The connection to a server, or to the exit that leads to it: bytes are counted here."""

    def __init__(self, client: ClientSide, issued: EgressPass, *, is_tunnel: bool) -> None:
        self._client = client
        self._pass = issued
        self._head: bytes | None = None if is_tunnel else b""  # of the answer, until it is complete
        self._ended = False
        self._transport: asyncio.Transport
        self.wire_bytes = 0

    def adopt(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.wire_bytes = wire_bytes(transport)
        transport.set_protocol(self)
        transport.resume_reading()

    def write(self, data: bytes) -> None:
        self.wire_bytes += len(data)
        if not self._pass.count(up=len(data)):
            self._exceed(f"more than {self._pass.limits.up_bytes} bytes sent")
        elif not self._transport.is_closing():
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        self.wire_bytes += len(data)
        if not self._pass.count(down=len(data)):
            self._exceed(f"more than {self._pass.limits.down_bytes} bytes received")
        elif self._head is None:
            self._client.write(data)
        else:
            self._read_head(self._head + data)

    def _read_head(self, data: bytes) -> None:
        """Pass the head of an answer on, changed so that the client closes after it."""
        while b"\r\n\r\n" in data:
            head, _, data = data.partition(b"\r\n\r\n")
            if is_interim(head):
                self._client.write(head + b"\r\n\r\n")
                continue
            self._head = None
            self._client.write(closing_head(head) + data)
            return
        self._head = data
        if len(data) > MAX_HEAD_BYTES:
            self._exceed("headers above 64 KiB")

    def _exceed(self, reason: str) -> None:
        # The server's side first: otherwise what is on its way still arrives, and is paid for.
        self.abort()
        self._pass.over = Failure(FailureClass.TOO_LARGE, reason)
        self._client.abort()

    def pause(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        self._client.pause()

    def resume_writing(self) -> None:
        self._client.resume()

    def abort(self) -> None:
        if not self._ended:
            self._ended = True
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        self._client.finish()
