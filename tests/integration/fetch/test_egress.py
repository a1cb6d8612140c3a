"""The loopback proxy for clients that are not ours. Our own client plays them: it is given the egress as an exit."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.fetch.test_exits import LIMITS, Names, chosen
from tests.servers.proxies import Make, Microsocks, Tinyproxy, proxy_server
from tests.site.certificates import Authority, make_authority
from tests.site.raw import OK, Peer, RawServer, answer, raw_server, replies

from shoal.fetch.egress.egress import Egress
from shoal.fetch.egress.passes import EgressPass, Passes, PassLimits
from shoal.fetch.egress.proxy_request import ProxyRequest, closing_head, parse_request
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.exit_dial import ExitDialer
from shoal.fetch.http.guard import Guard
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.exits.exit import ChosenExit
from shoal.model.failure import Failure, FailureClass
from shoal.model.page import Response


@asynccontextmanager
async def open_egress(
    names: Names | None = None,
    guard: Guard | None = None,
    passes: Passes | None = None,
    within_s: float = 60.0,
) -> AsyncIterator[Egress]:
    resolver, guard = names or Names(), guard or Guard(PRIVATE)

    def no_tls() -> None:
        raise AssertionError("no exit here speaks TLS")

    exits = ExitDialer(resolver, guard, no_tls)  # type: ignore[arg-type]
    opened = Egress(resolver, guard, exits, limits=LIMITS, passes=passes)
    async with asyncio.timeout(within_s), opened.listen() as egress:
        yield egress


def through(egress: Egress, issued: EgressPass, *, absolute: bool = False) -> ChosenExit:
    """Return the egress as a client sees it: a proxy with a user name."""
    return chosen(f"http://{issued.proxy_user}:x@127.0.0.1:{egress.port}{' inside=no' if absolute else ''}")


@asynccontextmanager
async def open_client(**options: str) -> AsyncIterator[HttpClient]:
    async with HttpClient(Names(), Guard(PRIVATE), sweep=0.02, ca_file=options.get("ca_file")) as client:
        yield client


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"))


async def test_a_client_reaches_https_pages_and_every_byte_is_counted(
    authority: Authority, tmp_path: Path
) -> None:
    body = b"x" * 50_000
    counted: list[tuple[str, int]] = []
    async with (
        raw_server(replies(answer(body)), tls=authority.server("IP:127.0.0.1")) as site,
        proxy_server(Microsocks, tmp_path / "proxy") as proxy,
        open_egress() as egress,
    ):
        egress.on_traffic = lambda via, host, size: counted.append((host, size))
        issued = egress.issue(chosen(proxy.line))
        async with open_client(ca_file=authority.file) as client:
            for _ in range(2):
                found = await client.fetch(site.url(), limits=LIMITS, via=through(egress, issued))
                assert isinstance(found, Response), found
        await until(lambda: bool(counted))
        assert site.connections == 1
        assert 2 * len(body) < issued.down < 2 * len(body) + 10_000
        [(host, size)] = counted
        assert host == f"127.0.0.1:{site.port}"
        assert 0 < size - (issued.down + issued.up) < 200, "the handshake with the exit counts"
        assert issued.hosts == {f"127.0.0.1:{site.port}": 1}
        assert (issued.refused, issued.over) == ([], None)


@pytest.mark.parametrize("make", [Tinyproxy, Microsocks])
async def test_a_pass_leaves_through_its_exit(make: Make, tmp_path: Path) -> None:
    async with (
        proxy_server(make, tmp_path / "proxy") as proxy,
        raw_server(replies(OK)) as site,
        open_egress() as egress,
        open_client() as client,
    ):
        good, bad = egress.issue(chosen(proxy.line)), egress.issue(chosen(proxy.line.replace("secret", "no")))
        found = await client.fetch(site.url(), limits=LIMITS, via=through(egress, good))
        assert isinstance(found, Response), found
        lost = await client.fetch(site.url(), limits=LIMITS, via=through(egress, bad))
        assert isinstance(lost, Failure)
        assert bad.over is not None
        assert (bad.over.failure_class, bad.over.status) == (FailureClass.PROXY_ERROR, 407)
        assert b"secret" not in b"".join(site.requests)
        assert good.token.encode() not in b"".join(site.requests)


async def test_an_unknown_token_opens_nothing(authority: Authority) -> None:
    async with raw_server(replies(OK)) as site, open_egress() as egress, open_client() as client:
        closed = egress.issue()
        egress.close(closed)
        for via in (chosen(f"http://guess:x@127.0.0.1:{egress.port}"), through(egress, closed)):
            found = await client.fetch(site.url(), limits=LIMITS, via=via)
            assert isinstance(found, Failure)
            assert found.status == 407
        assert site.connections == 0


async def test_the_guard_judges_what_arrives() -> None:
    names = Names(evil="169.254.169.254", inside="127.0.0.1")
    async with raw_server(replies(OK)) as site, open_egress(names, Guard()) as egress:
        issued = egress.issue()
        for target in (
            f"127.0.0.1:{site.port}",
            f"inside.example:{site.port}",
            "evil.example:443",
            "[::ffff:127.0.0.1]:443",
            "0x7f000001:443",
            "shop.example:25",
        ):
            assert b" 403 " in await ask(egress, issued, f"CONNECT {target} HTTP/1.1\r\n"), target
            assert b" 403 " in await ask(egress, issued, f"GET http://{target}/ HTTP/1.1\r\n"), target
        assert len(issued.refused) == 12
        assert {failure.failure_class for failure in issued.refused} == {FailureClass.REFUSED}
        assert site.connections == 0


async def ask(egress: Egress, issued: EgressPass, head: str, rest: bytes = b"") -> bytes:
    """Send one request by hand, and return everything that comes back."""
    from base64 import b64encode

    token = b64encode(f"{issued.token}:x".encode()).decode()
    reader, writer = await asyncio.open_connection("127.0.0.1", egress.port)
    writer.write(f"{head}Proxy-Authorization: Basic {token}\r\n\r\n".encode() + rest)
    try:
        async with asyncio.timeout(10):
            return await reader.read(-1)
    finally:
        writer.transport.abort()


async def test_one_request_per_connection_in_absolute_form_and_the_next_goes_nowhere() -> None:
    async with raw_server(replies(OK)) as first, raw_server(replies(OK)) as other, open_egress() as egress:
        issued = egress.issue()
        head = f"GET {first.url('/a?b=1')} HTTP/1.1\r\nHost: x\r\nProxy-Connection: keep-alive\r\nCookie: a=1\r\n"
        found = await ask_until_answer(egress, issued, head)
        assert b"\r\nConnection: close\r\n" in found
        await until(lambda: first.open == 0)
        [request] = first.requests
        assert request == b"GET /a?b=1 HTTP/1.1\r\nHost: x\r\nCookie: a=1\r\nConnection: close\r\n\r\n"
        smuggled = f"GET {other.url()} HTTP/1.1\r\n\r\n".encode()
        await ask(egress, issued, head, smuggled)
        assert other.connections == 0
        assert all(b"HTTP/1.1\r\n\r\nGET" not in one for one in first.requests)


async def ask_until_answer(egress: Egress, issued: EgressPass, head: str) -> bytes:
    """Like `ask`, for a server that keeps its connection open: close when the answer is there."""
    from base64 import b64encode

    token = b64encode(f"{issued.token}:x".encode()).decode()
    reader, writer = await asyncio.open_connection("127.0.0.1", egress.port)
    writer.write(f"{head}Proxy-Authorization: Basic {token}\r\n\r\n".encode())
    found = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return found


async def silent(peer: Peer) -> None:
    await peer.hang()


async def opened(egress: Egress, issued: EgressPass, site: RawServer) -> asyncio.StreamWriter:
    from base64 import b64encode

    token = b64encode(f"{issued.token}:x".encode()).decode()
    reader, writer = await asyncio.open_connection("127.0.0.1", egress.port)
    connect = f"CONNECT 127.0.0.1:{site.port} HTTP/1.1\r\nProxy-Authorization: Basic {token}\r\n\r\n"
    writer.write(connect.encode())
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    return writer


async def test_a_client_that_closes_ends_the_connection_to_the_server() -> None:
    async with raw_server(silent) as site, open_egress() as egress:
        issued = egress.issue()
        writers = [await opened(egress, issued, site) for _ in range(5)]
        assert site.open == 5
        writers[0].write_eof()  # a half-close
        for writer in writers[1:]:
            writer.close()
        await until(lambda: site.open == 0)
        await until(lambda: not issued.open)
        writers[0].transport.abort()


async def test_a_pass_that_is_closed_ends_all_its_connections() -> None:
    async with raw_server(silent) as site, open_egress() as egress:
        issued, other = egress.issue(), egress.issue()
        writers = [await opened(egress, one, site) for one in (issued, issued, other)]
        egress.close(issued)
        await until(lambda: site.open == 1)
        for writer in writers:
            writer.transport.abort()


async def test_limits_end_an_endless_answer_and_too_many_connections() -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        await peer.send_for_ever(b"x" * 65_536)

    async with raw_server(endless) as site, open_egress() as egress:
        issued = egress.issue(limits=PassLimits(down_bytes=1_000_000, connections=1))
        got = await ask(egress, issued, f"GET {site.url()} HTTP/1.1\r\nHost: x\r\n")
        assert len(got) <= 1_000_000
        assert issued.over is not None
        assert issued.over.failure_class is FailureClass.TOO_LARGE
        assert issued.down < 1_400_000
        await until(lambda: site.open == 0)
    async with raw_server(silent) as site, open_egress() as egress:
        issued = egress.issue(limits=PassLimits(connections=1))
        writer = await opened(egress, issued, site)
        refused = await ask(egress, issued, f"CONNECT 127.0.0.1:{site.port} HTTP/1.1\r\n")
        assert b" 403 " in refused
        writer.transport.abort()


async def test_a_browser_learns_its_token_at_a_name_that_leads_nowhere() -> None:
    names = Names()
    async with open_egress(names) as egress:
        issued = egress.issue()
        assert b" 204 " in await ask(egress, issued, "GET http://egress.invalid/ HTTP/1.1\r\n")
        issued.token = "other"
        assert b" 407 " in await ask(egress, issued, "GET http://egress.invalid/ HTTP/1.1\r\n")
    assert names.asked == []


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1",
        b"GET ftp://h/ HTTP/1.1",
        b"CONNECT h HTTP/1.1",
        b"CONNECT a@h:1 HTTP/1.1",
        b"CONNECT h:1",
        b"GET http://h/ HTTP/1.1\r\n folded: x",
        b"GET http://h/ HTTP/1.1\r\nno colon",
        b"POST http://h/ HTTP/1.1\r\nTransfer-Encoding: chunked",
        b"POST http://h/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
        b"POST http://h/ HTTP/1.1\r\nContent-Length: -1",
        b"\x16\x03\x01",
    ],
)
def test_what_is_not_a_request_to_a_proxy_is_refused(head: bytes) -> None:
    assert parse_request(head) is None


def test_a_request_keeps_its_order_and_loses_what_is_for_the_proxy() -> None:
    head = (
        b"POST http://H:80/p HTTP/1.1\r\nB: 1\r\nProxy-Authorization: Basic dDp4\r\nA: 2\r\nContent-Length: 3"
    )
    assert parse_request(head) == ProxyRequest(
        "t",
        "http://h:80/",
        False,
        b"POST /p HTTP/1.1\r\nB: 1\r\nA: 2\r\nContent-Length: 3\r\nConnection: close\r\n\r\n",
        3,
    )
    assert closing_head(b"HTTP/1.1 200 OK\r\nKeep-Alive: x\r\nconnection: keep-alive\r\nA: 1") == (
        b"HTTP/1.1 200 OK\r\nA: 1\r\nConnection: close\r\n\r\n"
    )
