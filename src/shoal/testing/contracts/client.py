"""The contract of an HTTP client as tests.

`shoal.fetch.contract` has the same contract in prose. The test class of a client derives from
`ClientContract` and provides the fixture `open_client`, a function that opens a client with a given guard:

    from shoal.testing.contracts.client import ClientContract, OpenClient

    class TestMyClient(ClientContract):
        @pytest.fixture
        def open_client(self) -> OpenClient:
            @asynccontextmanager
            async def open_client(guard: Guard) -> AsyncIterator[Client]:
                async with MyClient(guard) as client:
                    yield client

            return open_client

The tests run their own servers on 127.0.0.1 and take a few seconds.
"""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from shoal.fetch.contract import Client
from shoal.fetch.http.guard import Guard
from shoal.fetch.http.message import Headers
from shoal.fetch.http.send_turn import SendTurn
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import KIB, FetchLimits
from shoal.model.page import NotSent, Response, Timing

__all__ = ["ClientContract", "OpenClient"]

OpenClient = Callable[[Guard], AbstractAsyncContextManager[Client]]

LIMITS = FetchLimits(connect=2.0, tls=2.0, first_byte=2.0, idle=2.0, total=10.0, wire_bytes=256 * KIB)
SHORT = replace(LIMITS, first_byte=0.3, idle=0.3)
LOOPBACK_ALLOWED = Guard(PRIVATE)

Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Site:
    """A server that sends one reply to every request, and records the requests."""

    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)  # a request has arrived
    closed: asyncio.Event = field(default_factory=asyncio.Event)  # a connection was closed by the client

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


@asynccontextmanager
async def site(reply: Reply) -> AsyncIterator[Site]:
    served = Site()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                served.requests.append(await reader.readuntil(b"\r\n\r\n"))
                served.asked.set()
                await reply(writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, RuntimeError):
            # uvloop raises RuntimeError where a transport has been closed between two writes.
            served.closed.set()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()


def response(body: bytes = b"ok", status: str = "200 OK", headers: Headers = ()) -> Reply:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
    return raw(head.encode() + body)


def raw(data: bytes, *, close: bool = False) -> Reply:
    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        if close:
            await writer.drain()
            writer.close()

    return reply


async def never(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


class Turn:
    """A turn that records in which order the client calls it."""

    def __init__(self, served: Site, wait: float = 0.0) -> None:
        self._served = served
        self._wait = wait
        self.calls: list[str] = []
        self.requests_at_take = -1
        self.timing = Timing()

    async def take(self, address: str = "") -> float:
        self.calls.append("take")
        self.requests_at_take = len(self._served.requests)
        return self._wait

    def sent(self) -> None:
        self.calls.append("sent")

    def answered(self) -> None:
        self.calls.append("answered")


async def fetch(
    client: Client,
    url: str,
    *,
    headers: Headers = (),
    limits: FetchLimits = LIMITS,
    turn: SendTurn | None = None,
) -> Response | Failure | NotSent:
    async with asyncio.timeout(20):
        return await client.fetch(url, headers=headers, limits=limits, turn=turn)


async def fetch_page(client: Client, url: str) -> Response:
    result = await fetch(client, url)
    assert isinstance(result, Response), result
    return result


async def fetch_failure(client: Client, url: str, limits: FetchLimits = LIMITS) -> FailureClass:
    result = await fetch(client, url, limits=limits)
    assert isinstance(result, Failure), result
    return result.failure_class


class ClientContract:
    """The tests that every client has to pass."""

    @pytest.fixture
    def open_client(self) -> OpenClient:
        raise NotImplementedError("the test class of a client provides this fixture")

    @pytest.fixture
    async def client(self, open_client: OpenClient) -> AsyncIterator[Client]:
        async with open_client(LOOPBACK_ALLOWED) as client:
            yield client

    # --- response ------------------------------------------------------------------------------------

    async def test_a_response_has_status_headers_body_and_address(self, client: Client) -> None:
        headers = (("X-One", "1"), ("Set-Cookie", "a=1"), ("SET-COOKIE", "b=2"))
        async with site(response(b"hello", headers=headers)) as served:
            fetched = await fetch_page(client, served.url("/a?b=c"))

        assert (fetched.url, fetched.status, fetched.body) == (served.url("/a?b=c"), 200, b"hello")
        assert [pair for pair in fetched.headers if pair[0] == "set-cookie"] == [
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
        ]
        assert fetched.address == "127.0.0.1"

    async def test_wire_is_the_body_before_content_decoding(self, client: Client) -> None:
        packed = gzip.compress(b"hello")
        async with site(response(packed, headers=(("Content-Encoding", "gzip"),))) as served:
            fetched = await fetch_page(client, served.url())

        assert (fetched.body, fetched.wire) == (b"hello", packed)
        assert fetched.header("content-encoding") == "gzip"

    async def test_headers_are_sent(self, client: Client) -> None:
        async with site(response()) as served:
            await fetch(client, served.url(), headers=(("X-Test", "yes"),))
        assert b"x-test: yes" in served.requests[0].lower()

    async def test_a_redirect_is_returned_and_not_followed(self, client: Client) -> None:
        async with site(response(b"", "302 Found", (("Location", "/elsewhere"),))) as served:
            fetched = await fetch_page(client, served.url())
        assert (fetched.status, len(served.requests)) == (302, 1)

    async def test_a_cookie_is_not_sent_back(self, client: Client) -> None:
        async with site(response(headers=(("Set-Cookie", "a=1"),))) as served:
            await fetch_page(client, served.url())
            await fetch_page(client, served.url())
        assert b"cookie" not in served.requests[1].lower()

    # --- guard ---------------------------------------------------------------------------------------

    async def test_an_address_that_the_guard_forbids_is_refused(self, open_client: OpenClient) -> None:
        async with site(response()) as served, open_client(Guard()) as client:
            for host in ("127.0.0.1", "localhost", "[::1]"):
                assert await fetch_failure(client, served.url(host=host)) is FailureClass.REFUSED
        assert not served.requests

    @pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http://127.0.0.1:25/", "http://169.254.169.254/"])
    async def test_a_forbidden_scheme_port_or_address_is_refused(self, client: Client, url: str) -> None:
        assert await fetch_failure(client, url) is FailureClass.REFUSED

    # --- gate ----------------------------------------------------------------------------------------

    async def test_the_turn_is_taken_before_the_request_is_sent(self, client: Client) -> None:
        async with site(response()) as served:
            turn = Turn(served)
            assert isinstance(await fetch(client, served.url(), turn=turn), Response)
        assert turn.calls == ["take", "sent", "answered"]
        assert turn.requests_at_take == 0

    async def test_nothing_is_sent_if_the_turn_is_too_far_away(self, client: Client) -> None:
        async with site(response()) as served:
            assert await fetch(client, served.url(), turn=Turn(served, wait=3.5)) == NotSent(3.5)
        assert not served.requests

    # --- limits and failures -------------------------------------------------------------------------

    async def test_a_closed_port_is_a_connect_failure(self, client: Client) -> None:
        async with site(response()) as served:
            url = served.url()
        assert await fetch_failure(client, url) is FailureClass.CONNECT

    async def test_a_server_that_never_responds_is_a_timeout(self, client: Client) -> None:
        async with site(never) as served:
            assert await fetch_failure(client, served.url(), SHORT) is FailureClass.TIMEOUT

    async def test_a_body_that_stops_is_a_timeout(self, client: Client) -> None:
        async with site(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")) as served:
            assert await fetch_failure(client, served.url(), SHORT) is FailureClass.TIMEOUT

    async def test_a_body_that_ends_early_is_truncated(self, client: Client) -> None:
        half = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", close=True)
        async with site(half) as served:
            assert await fetch_failure(client, served.url()) is FailureClass.TRUNCATED

    async def test_data_that_is_not_http_is_a_protocol_failure(self, client: Client) -> None:
        async with site(raw(b"SSH-2.0-OpenSSH\r\n\r\n")) as served:
            assert await fetch_failure(client, served.url()) is FailureClass.PROTOCOL

    async def test_a_body_above_the_limit_is_too_large(self, client: Client) -> None:
        async with site(response(bytes(300 * KIB))) as served:
            assert await fetch_failure(client, served.url()) is FailureClass.TOO_LARGE

    async def test_headers_above_the_limit_are_too_large(self, client: Client) -> None:
        async with site(response(headers=(("X-Long", "x" * 70 * KIB),))) as served:
            assert await fetch_failure(client, served.url()) is FailureClass.TOO_LARGE

    async def test_a_decompression_bomb_is_a_bomb(self, client: Client) -> None:
        bomb = gzip.compress(bytes(40 * KIB * KIB))
        async with site(response(bomb, headers=(("Content-Encoding", "gzip"),))) as served:
            assert await fetch_failure(client, served.url()) is FailureClass.BOMB

    async def test_a_body_that_cannot_be_decoded_is_a_decode_failure(self, client: Client) -> None:
        async with site(response(b"?" * 99, headers=(("Content-Encoding", "gzip"),))) as served:
            assert await fetch_failure(client, served.url()) is FailureClass.DECODE

    # --- cancellation --------------------------------------------------------------------------------

    async def test_a_cancelled_fetch_closes_its_connection(self, client: Client) -> None:
        async with site(never_until_closed) as served:
            fetch = asyncio.ensure_future(client.fetch(served.url(), headers=(), limits=LIMITS, turn=None))
            async with asyncio.timeout(10):
                await served.asked.wait()  # before that, there may be no connection to close
                fetch.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await fetch
                await served.closed.wait()


async def never_until_closed(writer: asyncio.StreamWriter) -> None:
    """Send an endless body slowly, so that the closed connection is noticed."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1\r\nx\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)
