"""The contract of HTTP clients: whatever a server does, a fetch ends in a response within the limits or in a
failure of the right class, and does not affect the next fetch.

`TestHttpClient` runs the tests of `shoal.testing.contracts.client`, which any client has to pass. The functions
below it test our own client in more detail. Limits and times are scaled down; tests marked ★ use real sizes.
"""

import asyncio
import gzip
import resource
import socket
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from time import monotonic

import brotli
import pytest
from backports import zstd
from tests.site.certificates import Authority, make_authority
from tests.site.raw import (
    OK,
    Peer,
    RawServer,
    answer,
    bare_closing_server,
    once,
    raw_server,
    replies,
    swallowing_server,
)

from shoal.fetch.contract import Client
from shoal.fetch.egress.egress import Egress
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import Answer, DnsResolver
from shoal.fetch.http.exit_connections import ExitConnections
from shoal.fetch.http.guard import Guard
from shoal.fetch.impersonate.client import ImpersonatingClient
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import KIB, MIB, FetchLimits
from shoal.model.page import NotSent, Response, Timing
from shoal.testing.contracts.client import ClientContract, OpenClient

LIMITS = FetchLimits(
    connect=2.0, tls=2.0, first_byte=2.0, idle=2.0, total=10.0, slow_after=3.0, wire_bytes=1 * MIB
)
QUICK = replace(LIMITS, first_byte=0.2, idle=0.2, total=5.0, tls=0.2)


class Names:
    """Resolves the names of a test, and records the queries."""

    def __init__(self, **names: Answer) -> None:
        self.names = names
        self.asked: list[str] = []

    async def resolve(self, host: str) -> Answer:
        self.asked.append(host)
        if host[0].isdigit() or ":" in host:
            return (host,)
        return self.names[host.partition(".")[0]]


Open = Callable[..., AbstractAsyncContextManager[HttpClient]]


@asynccontextmanager
async def own_client(names: Names | None = None, **options: object) -> AsyncIterator[HttpClient]:
    guard = options.pop("guard", Guard(PRIVATE))
    async with HttpClient(names or Names(), guard, sweep=0.02, **options) as client:  # type: ignore[arg-type]
        yield client


class TestHttpClient(ClientContract):
    @pytest.fixture
    def open_client(self) -> OpenClient:
        @asynccontextmanager
        async def open_client(guard: Guard) -> AsyncIterator[Client]:
            async with DnsResolver() as resolver, HttpClient(resolver, guard, sweep=0.02) as client:
                yield client

        return open_client


@asynccontextmanager
async def impersonating_client(
    guard: Guard,
    *,
    profile: str,
    ca_file: str | None = None,
    names: Names | None = None,
    connections: ExitConnections | None = None,
) -> AsyncIterator[ImpersonatingClient]:
    resolver = names or Names(localhost=("127.0.0.1",))
    async with HttpClient(resolver, guard) as own, Egress(resolver, guard, own.exits).listen() as egress:
        client = ImpersonatingClient(
            egress, resolver, guard, profile=profile, ca_file=ca_file, connections=connections
        )
        try:
            yield client
        finally:
            client.close()


@pytest.mark.parametrize("profile", ["chrome", "plain"])
class TestImpersonatingClient(ClientContract):
    @pytest.fixture
    def open_client(self, profile: str) -> OpenClient:
        @asynccontextmanager
        async def open_client(guard: Guard) -> AsyncIterator[Client]:
            async with impersonating_client(guard, profile=profile) as client:
                yield client

        return open_client


@pytest.fixture(params=[own_client], ids=["own"])
def open_client(request: pytest.FixtureRequest) -> Open:
    opener: Open = request.param
    return opener


@pytest.fixture
async def client(open_client: Open) -> AsyncIterator[HttpClient]:
    async with asyncio.timeout(30), open_client() as client:
        yield client


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"))


async def failure(
    client: HttpClient, server: RawServer, limits: FetchLimits = LIMITS, path: str = "/"
) -> Failure:
    result = await client.fetch(server.url(path), limits=limits)
    assert isinstance(result, Failure), result
    return result


async def page(client: HttpClient, url: str, limits: FetchLimits = LIMITS, **options: object) -> Response:
    result = await client.fetch(url, limits=limits, **options)  # type: ignore[arg-type]
    assert isinstance(result, Response), result
    return result


# -- the plain case -----------------------------------------------------------------------------------------


async def test_a_page_comes_back_with_its_headers_in_order_and_its_peer(client: HttpClient) -> None:
    response = answer(b"hello", headers=(("X-One", "1"), ("Set-Cookie", "a=1"), ("SET-COOKIE", "b=2")))
    async with raw_server(replies(response)) as server:
        fetched = await page(client, server.url("/a?b=c"), headers=(("User-Agent", "Test"),))

    assert (fetched.status, fetched.body, fetched.address) == (200, b"hello", "127.0.0.1")
    assert fetched.wire is fetched.body
    assert fetched.headers[:3] == (("x-one", "1"), ("set-cookie", "a=1"), ("set-cookie", "b=2"))
    head = server.requests[0].decode()
    assert head == f"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nUser-Agent: Test\r\n\r\n"


async def test_a_connection_is_kept_and_used_again(client: HttpClient) -> None:
    async with raw_server(replies(OK)) as server:
        for _ in range(3):
            await page(client, server.url())
    assert (server.connections, len(server.requests)) == (1, 3)


async def test_a_body_that_arrives_byte_by_byte_is_put_together(client: HttpClient) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        for byte in answer(b"slowly", headers=(("X-Long", "v" * 50),)):
            await peer.send(bytes([byte]))
            await asyncio.sleep(0)

    async with raw_server(handler) as server:
        assert (await page(client, server.url())).body == b"slowly"


async def test_chunks_are_joined_and_their_trailers_dropped(client: HttpClient) -> None:
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n4;ext=1\r\ndefg\r\n0\r\nX-Trailer: 1\r\n\r\n"
    )
    async with raw_server(replies(chunked)) as server:
        for _ in range(2):
            fetched = await page(client, server.url())
            assert fetched.body == b"abcdefg"
            assert fetched.header("x-trailer") == ""
    assert server.connections == 1


async def test_a_body_without_a_length_ends_with_the_connection(client: HttpClient) -> None:
    async with raw_server(once(answer(b"to the end", length=False))) as server:
        assert (await page(client, server.url())).body == b"to the end"


async def test_interim_answers_are_skipped(client: HttpClient) -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    async with raw_server(replies(early + OK)) as server:
        fetched = await page(client, server.url())
    assert fetched.status == 200
    assert fetched.header("link") == ""


async def test_a_post_sends_its_body_on_a_connection_of_its_own(client: HttpClient) -> None:
    async with raw_server(replies(OK)) as server:
        await page(client, server.url())
        await page(client, server.url("/form"), method="POST", body=b"a=1")
    assert server.requests[1].endswith(b"Content-Length: 3\r\n\r\na=1")
    assert server.connections == 2


@pytest.mark.parametrize("header", [("X-A", "a\r\nX-B: b"), ("X A", "1"), ("X-A", "caf\u0113")])
async def test_a_header_that_would_break_the_request_is_refused(
    client: HttpClient, header: tuple[str, str]
) -> None:
    async with raw_server(replies(OK)) as server:
        result = await client.fetch(server.url(), headers=(header,))
    assert isinstance(result, Failure)
    assert result.failure_class is FailureClass.REFUSED
    assert not server.requests


async def test_callers_cannot_change_the_framing_of_a_request(client: HttpClient) -> None:
    async with raw_server(replies(OK)) as server:
        await page(client, server.url(), headers=(("Host", "evil"), ("content-length", "9"), ("TE", "x")))
    assert b"evil" not in server.requests[0]
    assert b"ontent-" not in server.requests[0]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1234", "http://127.0.0.1/#x", "HTTP://127.0.0.1/", "nonsense"]
)
async def test_a_url_that_is_not_canonical_is_refused(client: HttpClient, url: str) -> None:
    result = await client.fetch(url)
    assert isinstance(result, Failure)
    assert result.failure_class is FailureClass.REFUSED


# -- network ------------------------------------------------------------------------------------------------


async def test_N01_a_closed_port_is_a_connect_failure(client: HttpClient) -> None:
    async with raw_server(replies(OK)) as server:
        pass
    assert (await failure(client, server)).failure_class is FailureClass.CONNECT


async def test_N02_a_server_that_does_not_accept_times_out_in_connecting(client: HttpClient) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        callers = [socket.socket() for _ in range(4)]  # enough to fill its backlog: the kernel drops the rest
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(deaf.getsockname())
        result = await client.fetch(
            f"http://127.0.0.1:{deaf.getsockname()[1]}/", limits=replace(LIMITS, connect=0.2)
        )
        for caller in callers:
            caller.close()
    assert isinstance(result, Failure)
    assert result.failure_class is FailureClass.TIMEOUT
    assert result.reason.startswith("connect")


async def test_N03_a_server_that_never_answers_times_out_at_the_first_byte(client: HttpClient) -> None:
    async with raw_server(Peer.hang) as server:
        result = await failure(client, server, QUICK)
    assert result.failure_class is FailureClass.TIMEOUT
    assert result.reason.startswith("first byte")


async def test_N04_a_reset_at_once_is_a_connect_failure(client: HttpClient) -> None:
    async def handler(peer: Peer) -> None:
        peer.reset()

    async with raw_server(handler) as server:
        assert (await failure(client, server)).failure_class is FailureClass.CONNECT


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_N06_half_a_body_is_truncated(client: HttpClient, how: str) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 50)
        if how == "reset":
            await asyncio.sleep(0.05)  # a reset would overtake the bytes
            peer.reset()

    async with raw_server(handler) as server:
        result = await failure(client, server)
    assert result.failure_class is FailureClass.TRUNCATED
    assert result.status == 200


async def test_N07_headers_that_break_off_are_truncated(client: HttpClient) -> None:
    async with raw_server(once(b"HTTP/1.1 200 OK\r\nContent-")) as server:
        assert (await failure(client, server)).failure_class is FailureClass.TRUNCATED


@pytest.mark.parametrize(
    "start",
    [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"],
    ids=["headers", "body"],
)
async def test_N08_N09_a_trickle_that_beats_the_idle_time_is_too_slow(
    client: HttpClient, start: bytes
) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(start)
        while True:
            await peer.send(b"x")
            await asyncio.sleep(0.05)

    async with raw_server(handler) as server:
        result = await failure(client, server, replace(LIMITS, idle=1.0, slow_after=0.3, slow_rate=1000))
    assert result.failure_class is FailureClass.TIMEOUT
    assert result.reason.startswith("slow")


async def test_a_pause_in_the_body_times_out_as_idle(client: HttpClient) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc")
        await peer.hang()

    async with raw_server(handler) as server:
        result = await failure(client, server, QUICK)
    assert result.failure_class is FailureClass.TIMEOUT
    assert result.reason.startswith("idle")


async def test_a_steady_body_that_never_ends_times_out_in_total(client: HttpClient) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(length=False))
        while True:
            await peer.send(b"x" * 2048)
            await asyncio.sleep(0.02)

    async with raw_server(handler) as server:
        result = await failure(client, server, replace(LIMITS, total=0.3))
    assert result.failure_class is FailureClass.TIMEOUT
    assert result.reason.startswith("total")


async def test_N10_an_endless_body_is_cut_off_and_not_drained(client: HttpClient) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(length=False))
        await peer.send_for_ever(b"x" * 65536)

    async with raw_server(handler) as server:
        result = await failure(client, server)
        await gone(server)
    assert result.failure_class is FailureClass.TOO_LARGE
    assert server.sent < 16 * MIB  # the rest lay in the kernel's buffers


async def test_N14_a_connection_closed_between_requests_is_replaced_silently(
    client: HttpClient,
) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()  # taken, and dropped with the connection

    async with raw_server(handler) as server:
        await page(client, server.url("/1"))
        fetched = await page(client, server.url("/2"))
    assert fetched.body == b"ok"
    assert (server.connections, server.paths()) == (2, ["/1", "/2", "/2"])


async def test_N14_it_is_replaced_once_and_a_new_connection_that_fails_is_a_failure(
    client: HttpClient,
) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        if server.connections == 1:
            await peer.send(OK)
            await peer.request()

    async with raw_server(handler) as server:
        await page(client, server.url())
        result = await failure(client, server)
    assert result.failure_class is FailureClass.CONNECT
    assert server.connections == 2


async def test_N14_an_idle_connection_the_server_closed_is_not_used(client: HttpClient) -> None:
    async with raw_server(once(OK)) as server:
        await page(client, server.url())
        await gone(server)
        await page(client, server.url())
    assert len(server.requests) == 2


@pytest.mark.parametrize("gap", [0.0, 0.05], ids=["in one piece", "later"])
async def test_N15_an_unrequested_response_is_never_read_as_the_next_one(
    client: HttpClient, gap: float
) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        if server.connections > 1:
            await peer.send(OK)
        elif gap:
            await peer.send(OK)
            await asyncio.sleep(gap)
            await peer.send(answer(b"planted"))
        else:
            await peer.send(OK + answer(b"planted"))
        await peer.hang()

    async with raw_server(handler) as server:
        await page(client, server.url())
        await asyncio.sleep(gap * 4)
        assert (await page(client, server.url())).body == b"ok"
    assert server.connections == 2


async def test_a_server_that_speaks_first_gets_no_answer_attributed_to_it(client: HttpClient) -> None:
    async def handler(peer: Peer) -> None:
        await peer.send(b"SSH-2.0-OpenSSH_9.9\r\n")
        await peer.hang()

    async with raw_server(handler) as server:
        assert (await failure(client, server)).failure_class in (FailureClass.PROTOCOL, FailureClass.CONNECT)


async def test_N16_idle_connections_are_capped_over_all_hosts(open_client: Open) -> None:
    hosts = [f"127.0.7.{n}" for n in range(1, 41)]
    async with raw_server(replies(OK), host="0.0.0.0") as server, open_client(idle_connections=8) as client:
        async with asyncio.TaskGroup() as group:
            for host in hosts:
                group.create_task(page(client, server.url(host=host)))
        await eventually(lambda: server.open <= 8)
        assert server.connections == 40
        await page(client, server.url(host=hosts[-1]))


async def test_idle_connections_are_closed_after_a_while(open_client: Open) -> None:
    async with raw_server(replies(OK)) as server, open_client(keep_idle=0.05) as client:
        await page(client, server.url())
        await eventually(lambda: server.open == 0)


async def test_large_bodies_take_turns_when_together_they_would_fill_memory(open_client: Open) -> None:
    body = b"x" * (400 * KIB)
    async with raw_server(replies(answer(body))) as server, open_client(in_flight_bytes=512 * KIB) as client:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(page(client, server.url())) for _ in range(12)]
    assert all(task.result().body == body for task in tasks)


async def test_a_cancelled_fetch_closes_its_connection(client: HttpClient) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(length=False))
        await peer.send_for_ever(b"x")

    async with raw_server(handler) as server:
        task = asyncio.create_task(client.fetch(server.url(), limits=LIMITS))
        await eventually(lambda: server.sent > 100)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gone(server)


async def test_leaving_the_client_closes_every_connection(open_client: Open) -> None:
    async with raw_server(replies(OK)) as server:
        async with open_client() as client:
            await page(client, server.url())
            assert server.open == 1
        await gone(server)


# -- turns at the gate --------------------------------------------------------------------------------------


class Turns:
    """Returns scripted waits, and records the calls."""

    def __init__(self, *waits: float) -> None:
        self.waits = list(waits)
        self.taken = 0
        self.sends = 0
        self.answers = 0
        self.timing = Timing()

    async def take(self, address: str = "") -> float:
        self.taken += 1
        return self.waits.pop(0) if self.waits else 0.0

    def sent(self) -> None:
        self.sends += 1

    def answered(self) -> None:
        self.answers += 1


async def test_a_turn_is_taken_before_every_send_the_silent_second_one_included(client: HttpClient) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()

    async with raw_server(handler) as server:
        turns = Turns()
        await page(client, server.url(), turn=turns)
        await page(client, server.url(), turn=turns)
    assert (turns.taken, turns.sends, turns.answers) == (3, 3, 2)


async def test_a_turn_that_is_too_far_off_sends_nothing_and_keeps_the_connection(client: HttpClient) -> None:
    async with raw_server(replies(OK)) as server:
        assert await client.fetch(server.url(), turn=Turns(3.5)) == NotSent(3.5)
        assert not server.requests
        await page(client, server.url())
    assert server.connections == 1


async def test_a_fetch_cancelled_while_waiting_for_its_turn_leaves_nothing_open(client: HttpClient) -> None:
    class Never(Turns):
        async def take(self, address: str = "") -> float:
            await asyncio.sleep(60)
            return 0.0

    async with raw_server(replies(OK)) as server:
        task = asyncio.create_task(client.fetch(server.url(), turn=Never()))
        await eventually(lambda: server.open == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gone(server)
    assert not server.requests


# -- timing -------------------------------------------------------------------------------------------------


async def test_the_phases_of_a_request_are_timed_where_they_take_place(client: HttpClient) -> None:
    async def handler(peer: Peer) -> None:
        for _ in range(2):
            await peer.request()
            await asyncio.sleep(0.06)
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
            await asyncio.sleep(0.04)
            await peer.send(b"cd")

    class Waiting(Turns):
        async def take(self, address: str = "") -> float:
            await asyncio.sleep(0.03)
            return 0.0

    async with raw_server(handler) as server:
        first, second = Waiting(), Waiting()
        await page(client, server.url(), turn=first)
        await page(client, server.url(), turn=second)
    for timing in (first.timing, second.timing):
        assert timing.queue >= 0.025
        assert timing.first_byte >= 0.05
        assert timing.body >= 0.03
        assert (timing.wire_bytes, timing.body_bytes, timing.address) == (4, 4, "127.0.0.1")
    assert first.timing.connect > 0
    assert (second.timing.dns, second.timing.connect, second.timing.tls) == (0.0, 0.0, 0.0)  # used again


async def test_a_request_that_fails_is_timed_up_to_its_failure(open_client: Open) -> None:
    async with (
        open_client() as client,
        raw_server(once(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")) as cut,
    ):
        turn = Turns()
        answer = await client.fetch(cut.url(), turn=turn)
        assert isinstance(answer, Failure)
        assert answer.failure_class is FailureClass.TRUNCATED
        assert turn.timing.first_byte > 0
        assert turn.timing.wire_bytes == 2
        nothing = Turns()
        assert isinstance(await client.fetch("http://127.0.0.1:9999/", turn=nothing), Failure)
        assert (nothing.timing.first_byte, nothing.taken) == (0.0, 0)


# -- HTTP ---------------------------------------------------------------------------------------------------


async def test_H04_two_hundred_thousand_header_lines_are_too_large(client: HttpClient) -> None:  # ★
    lines = b"".join(b"X-%d: y\r\n" % n for n in range(200_000))
    async with raw_server(once(b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n")) as server:
        result = await failure(client, server)
    assert result.failure_class is FailureClass.TOO_LARGE


async def test_H05_a_header_line_without_end_is_too_large_at_the_limit(client: HttpClient) -> None:  # ★
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nX-Long: ")
        for _ in range(100):
            await peer.send(b"x" * MIB)

    async with raw_server(handler) as server:
        result = await failure(client, server)
        await gone(server)
    assert result.failure_class is FailureClass.TOO_LARGE
    assert "headers above 65536" in result.reason
    assert server.sent < 32 * MIB


async def test_headers_just_under_the_limits_pass_and_the_body_behind_them_too(client: HttpClient) -> None:
    headers = tuple((f"X-{n}", "v" * 200) for n in range(250))
    async with raw_server(replies(answer(b"b" * 100_000, headers=headers))) as server:
        fetched = await page(client, server.url())
    assert len(fetched.headers) == 251
    assert fetched.body == b"b" * 100_000


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BROKEN = {
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
    "signed length": b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
    "hexadecimal length": b"HTTP/1.1 200 OK\r\nContent-Length: 0x10\r\n\r\nhello",
    "length of 10^30": b"HTTP/1.1 200 OK\r\nContent-Length: 1" + b"0" * 30 + b"\r\n\r\nhello",
    "chunk of -1": CHUNKED + b"-1\r\nhello\r\n0\r\n\r\n",
    "chunk of 2^64": CHUNKED + b"10000000000000000\r\nhello\r\n0\r\n\r\n",
    "chunk not hexadecimal": CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n",
    "chunk without its end": CHUNKED + b"5\r\nhello0\r\n\r\n",
    "gzip as transfer encoding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "unknown transfer encoding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\nhello",
    "chunked twice": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "NUL in a header": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 5\r\n\r\nhello",
    "switching protocols": b"HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "status 000": b"HTTP/1.1 000 X\r\nContent-Length: 5\r\n\r\nhello",
    "no HTTP at all": b"<html>hello</html>",
    "RTSP": b"RTSP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP 2.0": b"HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
}
SLOPPY = {
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "chunks and length": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "list of lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
    "line feeds only": b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
    "folded header": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 5\r\n\r\nhello",
    "chunk size with a blank": CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("response", BROKEN.values(), ids=BROKEN.keys())
async def test_H07_H08_H10_H38_what_is_not_valid_HTTP_fails_and_ends_the_connection(
    client: HttpClient, response: bytes
) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(response if server.connections == 1 else OK)
        await peer.hang()

    async with raw_server(handler) as server:
        assert (await failure(client, server)).failure_class is FailureClass.PROTOCOL
        await page(client, server.url())
    assert server.connections == 2


@pytest.mark.parametrize("response", SLOPPY.values(), ids=SLOPPY.keys())
@pytest.mark.parametrize("piece", [1, 7, 4096])
async def test_what_is_read_leniently_ends_the_connection(
    client: HttpClient, response: bytes, piece: int
) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        if server.connections > 1:
            await peer.send(OK)
        for at in range(0, len(response), piece) if server.connections == 1 else ():
            await peer.send(response[at : at + piece])
            await asyncio.sleep(0)
        await peer.hang()

    async with raw_server(handler) as server:
        fetched = await page(client, server.url())
        assert (fetched.body, fetched.lenient) == (b"hello", True)
        assert not (await page(client, server.url())).lenient
    assert server.connections == 2


async def test_H38_a_part_of_a_page_that_was_not_asked_for_is_truncated(client: HttpClient) -> None:
    part = answer(b"part", status=206, headers=(("Content-Range", "bytes 0-3/9"),))
    async with raw_server(replies(part)) as server:
        assert (await failure(client, server)).failure_class is FailureClass.TRUNCATED


async def test_H10_an_endless_chunk_extension_is_a_protocol_failure(client: HttpClient) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + b"5;x=")
        await peer.send_for_ever(b"y" * 65536)

    async with raw_server(handler) as server:
        assert (await failure(client, server)).failure_class is FailureClass.PROTOCOL


async def test_H10_chunks_without_a_last_one_are_truncated(client: HttpClient) -> None:
    async with raw_server(once(CHUNKED + b"5\r\nhello\r\n")) as server:
        assert (await failure(client, server)).failure_class is FailureClass.TRUNCATED


@pytest.mark.parametrize("blank", [b"", b" "], ids=["strict", "lenient"])
async def test_a_body_in_one_byte_chunks_is_judged_by_its_bytes(client: HttpClient, blank: bytes) -> None:
    chunk = b"1" + blank + b"\r\nx\r\n"
    async with raw_server(once(CHUNKED + chunk * 50_000 + b"0\r\n\r\n")) as server:
        assert (await page(client, server.url())).body == b"x" * 50_000
    limits = replace(LIMITS, wire_bytes=200_000)
    async with raw_server(once(CHUNKED + chunk * 100_000 + b"0\r\n\r\n")) as server:
        assert (await failure(client, server, limits=limits)).failure_class is FailureClass.TOO_LARGE


@pytest.mark.parametrize("trailer", [b"X: y\r\n", b"y" * 4096], ids=["lines", "one line"])
async def test_H12_a_million_trailers_are_too_large(client: HttpClient, trailer: bytes) -> None:  # ★
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + b"5\r\nhello\r\n0\r\n")
        await peer.send(b"" if trailer.endswith(b"\n") else b"X: ")
        for _ in range(1_000):
            await peer.send(trailer * 1_000)

    async with raw_server(handler) as server:
        assert (await failure(client, server)).failure_class is FailureClass.TOO_LARGE


@pytest.mark.parametrize(("method", "status"), [("GET", 204), ("GET", 304), ("HEAD", 200)])
async def test_H13_a_body_where_none_may_be_is_ignored_with_its_connection(
    client: HttpClient, method: str, status: int
) -> None:
    async with raw_server(replies(answer(b"planted", status=status))) as server:
        fetched = await page(client, server.url(), method=method)
        assert (fetched.status, fetched.body) == (status, b"")
        await page(client, server.url(), method=method)
    assert server.connections == 2


async def test_a_range_that_was_asked_for_may_come(client: HttpClient) -> None:
    async with raw_server(replies(answer(b"part", status=206))) as server:
        assert (await page(client, server.url(), headers=(("Range", "bytes=0-3"),))).status == 206


async def test_an_announced_length_above_the_limit_is_not_even_read(client: HttpClient) -> None:
    async with raw_server(replies(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")) as server:
        result = await failure(client, server)
    assert result.failure_class is FailureClass.TOO_LARGE
    assert "announces" in result.reason


async def test_a_server_that_offers_an_upgrade_on_the_side_is_just_a_server(client: HttpClient) -> None:
    offer = answer(b"ok", headers=(("Upgrade", "h2,h2c"), ("Connection", "Upgrade, Keep-Alive")))
    async with raw_server(replies(offer)) as server:
        assert (await page(client, server.url())).body == b"ok"


# -- content encodings --------------------------------------------------------------------------------------


def zeros_as_gzip(size: int) -> bytes:
    """Compress zeros without going through all of them: one flushed block, repeated."""
    packer = zlib.compressobj(9, wbits=-15)
    block = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + block * (size // MIB) + b"\x03\0" + bytes(8)


ZEROS = bytes(64 * MIB)


def with_huge_window() -> bytes:
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    return packer.compress(b"x" * 1000) + packer.flush()


BOMBS: dict[str, tuple[int, str, Callable[[], bytes]]] = {
    "H30 gzip": (200, "gzip", lambda: zeros_as_gzip(10 * 1024 * MIB)),  # ★
    "H31 deflate": (200, "deflate", lambda: zlib.compress(ZEROS, 1)),
    "H31 br": (200, "br", lambda: brotli.compress(ZEROS, quality=1)),
    "H31 zstd": (200, "zstd", lambda: zstd.compress(ZEROS)),
    "H31 zstd with a huge window": (200, "zstd", with_huge_window),
    "H32 gzip in gzip": (200, "gzip, gzip", lambda: gzip.compress(zeros_as_gzip(1024 * MIB))),
    "H32 fifty times gzip": (200, ", ".join(["gzip"] * 50), lambda: gzip.compress(b"x")),
    "H34 in a 404": (404, "gzip", lambda: zeros_as_gzip(1024 * MIB)),
    "H34 in a 302": (302, "gzip", lambda: zeros_as_gzip(1024 * MIB)),
}


@pytest.mark.parametrize(("status", "encoding", "make"), BOMBS.values(), ids=BOMBS.keys())
async def test_H30_H31_H32_H34_bombs_are_caught_on_every_path(
    client: HttpClient, status: int, encoding: str, make: Callable[[], bytes]
) -> None:
    response = answer(make(), status=status, headers=(("Content-Encoding", encoding),))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with raw_server(replies(response)) as server:
        result = await failure(client, server, replace(LIMITS, wire_bytes=16 * MIB))
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (result.failure_class, result.status) == (FailureClass.BOMB, status)
    assert grown_kib < 128 * KIB  # decoded body, its copies on the wire and in the server


@pytest.mark.parametrize(
    "encoding", ["gzip", "deflate", "br", "zstd", "identity, gzip", "GZIP", "x-gzip", "gzip,br"]
)
async def test_every_encoding_we_advertise_is_undone(client: HttpClient, encoding: str) -> None:
    body = b"a page " * 1000
    packers = {
        "gzip": gzip.compress,
        "x-gzip": gzip.compress,
        "deflate": zlib.compress,
        "br": brotli.compress,
    }
    packed = body
    for name in encoding.lower().replace("identity, ", "").split(","):
        packed = zstd.compress(packed) if name == "zstd" else packers[name](packed)
    async with raw_server(replies(answer(packed, headers=(("Content-Encoding", encoding),)))) as server:
        fetched = await page(client, server.url())
    assert fetched.body == body
    assert fetched.wire == packed


# -- TLS ----------------------------------------------------------------------------------------------------

REFUSED_CERTIFICATES = {
    "T01 expired": lambda ca: ca.server("IP:127.0.0.1", end="20210101000000Z"),
    "T01 not yet valid": lambda ca: ca.server("IP:127.0.0.1", start="20800101000000Z"),
    "T02 another name": lambda ca: ca.server("DNS:other.test"),
    "T02 a wildcard for an address": lambda ca: ca.server("DNS:*.0.0.1"),
    "T03 self-signed": lambda ca: ca.self_signed(),
}


@pytest.mark.parametrize("make", REFUSED_CERTIFICATES.values(), ids=REFUSED_CERTIFICATES.keys())
async def test_T01_T02_T03_an_invalid_certificate_is_a_tls_failure(
    open_client: Open, authority: Authority, make: Callable[[Authority], object]
) -> None:
    async with (
        raw_server(replies(OK), tls=make(authority)) as server,  # type: ignore[arg-type]
        open_client(ca_file=authority.file) as client,
    ):
        result = await failure(client, server)
    assert result.failure_class is FailureClass.TLS
    assert not server.requests


async def test_T03_an_authority_can_be_trusted_by_file_and_by_no_other_means(
    open_client: Open, authority: Authority
) -> None:
    context = authority.server("IP:127.0.0.1,DNS:good.test")
    names = Names(good=("127.0.0.1",))
    async with raw_server(replies(OK), tls=context) as server:
        async with open_client(names, ca_file=authority.file) as client:
            assert (await page(client, server.url())).body == b"ok"
            assert (await page(client, server.url(host="good.test"))).body == b"ok"
        async with open_client() as client:
            assert (await failure(client, server)).failure_class is FailureClass.TLS


async def test_T04_plain_text_where_TLS_is_expected_is_a_tls_failure(client: HttpClient) -> None:
    async def handler(peer: Peer) -> None:
        await peer.reader.read(1)
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await peer.hang()

    async with raw_server(handler) as server:
        server.scheme = "https"
        assert (await failure(client, server)).failure_class is FailureClass.TLS


async def test_T04_TLS_where_plain_text_is_expected_is_a_protocol_failure(
    client: HttpClient, authority: Authority
) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"\x15\x03\x01\x00\x02\x02\x46")  # what a TLS server answers to "GET /"

    async with raw_server(handler) as server:
        assert (await failure(client, server)).failure_class is FailureClass.PROTOCOL


async def test_T05_a_handshake_that_stalls_times_out(client: HttpClient) -> None:
    async with raw_server(Peer.hang) as server:
        server.scheme = "https"
        result = await failure(client, server, QUICK)
        await gone(server)
    assert result.failure_class is FailureClass.TIMEOUT
    assert result.reason.startswith("TLS")


async def test_a_fetch_cancelled_in_its_handshake_leaves_nothing_open(client: HttpClient) -> None:
    async with raw_server(Peer.hang) as server:
        server.scheme = "https"
        task = asyncio.create_task(client.fetch(server.url(), limits=LIMITS))
        await eventually(lambda: server.open == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gone(server)


async def test_T09_a_bare_close_truncates_what_has_a_length_and_is_noted_where_there_is_none(
    open_client: Open, authority: Authority
) -> None:
    short = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    context = authority.server("IP:127.0.0.1")
    async with open_client(ca_file=authority.file) as client:
        with bare_closing_server(context, short) as server:
            assert (await failure(client, server)).failure_class is FailureClass.TRUNCATED
        with bare_closing_server(context, answer(b"whole?", length=False)) as server:
            fetched = await page(client, server.url())
        for body in (b"5\r\nwhole\r\n0\r\n", b"5\r\nwhole\r\n", b"5\r\nwho", b"5 \r\nwhole\r\n0\r\n"):
            with bare_closing_server(context, CHUNKED + body) as server:
                assert (await failure(client, server)).failure_class is FailureClass.TRUNCATED
        with bare_closing_server(context, CHUNKED + b"5\r\nwhole\r\n0\r\n\r\n") as server:
            ended = await page(client, server.url())
    assert fetched.body == b"whole?"
    assert fetched.unsealed
    # Chunks say where they end, so a close without close_notify cannot cut them unnoticed.
    assert (ended.body, ended.unsealed) == (b"whole", False)


async def test_HTTP_2_is_not_offered(open_client: Open, authority: Authority) -> None:
    context = authority.server("IP:127.0.0.1")
    context.set_alpn_protocols(["h2", "http/1.1"])
    chosen: list[str | None] = []

    async def handler(peer: Peer) -> None:
        chosen.append(peer.writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await peer.request()
        await peer.send(OK)

    async with raw_server(handler, tls=context) as server, open_client(ca_file=authority.file) as client:
        await page(client, server.url())
    assert chosen == ["http/1.1"]


# -- the connect guard --------------------------------------------------------------------------------------


async def test_U12_the_address_that_was_checked_is_the_one_connected_to(open_client: Open) -> None:
    names = Names(rebinding=("127.0.0.3",))
    async with raw_server(replies(OK), host="127.0.0.3") as server, open_client(names) as client:
        fetched = await page(client, server.url(host="rebinding.test"))
    assert fetched.address == "127.0.0.3"
    assert names.asked == ["rebinding.test"]  # once: there is no second look-up to answer differently
    assert f"Host: rebinding.test:{server.port}".encode() in server.requests[0]


@pytest.mark.parametrize("addresses", [("127.0.0.1",), ("93.184.216.34", "127.0.0.1"), ("::ffff:127.0.0.1",)])
async def test_a_name_with_one_forbidden_address_is_refused_without_a_connection(
    open_client: Open, addresses: tuple[str, ...]
) -> None:
    async with raw_server(replies(OK)) as server, open_client(Names(sly=addresses), guard=Guard()) as client:
        result = await client.fetch(server.url(host="sly.test"))
        assert isinstance(result, Failure)
        assert result.failure_class is FailureClass.REFUSED
    assert server.connections == 0


async def test_a_dead_address_is_followed_by_the_next(open_client: Open) -> None:
    names = Names(two=("127.0.0.9", "127.0.0.1"))
    async with raw_server(replies(OK)) as server, open_client(names) as client:
        assert (await page(client, server.url(host="two.test"))).address == "127.0.0.1"


async def test_a_name_that_does_not_resolve_fails_as_the_resolver_says(open_client: Open) -> None:
    unknown = Failure(FailureClass.DNS, "no such name")
    async with open_client(Names(unknown=unknown)) as client:
        assert await client.fetch("http://unknown.test/") is unknown


async def eventually(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - the other side is a socket, it sets no event
        await asyncio.sleep(0.01)


async def gone(server: RawServer) -> None:
    """Wait until no client is left."""
    await eventually(lambda: server.open == 0)


# -- several addresses --------------------------------------------------------------------------------------


async def test_an_address_that_swallows_packets_costs_a_moment_and_is_then_tried_last() -> None:
    with swallowing_server() as dead:  # on 127.0.0.1
        server = await asyncio.start_server(_respond, "127.0.0.2", dead.port)
        resolver = Names(both=("127.0.0.1", "127.0.0.2"))
        try:
            async with own_client(resolver) as client:
                url = f"http://both.test:{dead.port}/"
                for _ in range(5):
                    began = monotonic()
                    assert (await page(client, url, method="POST")).address == "127.0.0.2"
                    took = monotonic() - began
        finally:
            server.close()
    assert took < 2.0  # connecting may take 10 s


async def test_a_forbidden_ninth_address_refuses_the_name() -> None:
    resolver = Names(nine=(*(f"93.184.215.{n}" for n in range(8)), "169.254.169.254"))
    async with HttpClient(resolver, Guard()) as client:
        result = await client.fetch("http://nine.test/", limits=LIMITS)
    assert isinstance(result, Failure)
    assert result.failure_class is FailureClass.REFUSED


async def _respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(OK)
    await writer.drain()
    writer.close()
