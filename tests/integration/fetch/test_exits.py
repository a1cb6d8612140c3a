"""Our client through real proxies, and through some that misbehave."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.servers.process import deaf_port
from tests.servers.proxies import Login, Make, Microsocks, ProxyServer, Squid, Tinyproxy, proxy_server
from tests.site.certificates import Authority, make_authority
from tests.site.raw import OK, Handler, Peer, answer, raw_server, replies

from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import Answer
from shoal.fetch.http.guard import Guard
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.exits.exit import ChosenExit, ExitWish, login, parse_exit
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.page import Response

LIMITS = FetchLimits(connect=5.0, tls=5.0, first_byte=5.0, idle=5.0, total=20.0)
QUICK = FetchLimits(connect=0.3, tls=2.0, first_byte=2.0, idle=2.0, total=5.0)


DEAF = FetchLimits(connect=1.0, tls=2.0, first_byte=2.0, idle=2.0, total=10.0)


class Names:
    """Resolves addresses to themselves and the names of a test as it says, and records the queries."""

    def __init__(self, **names: str) -> None:
        self.names = names
        self.asked: list[str] = []

    async def resolve(self, host: str) -> Answer:
        self.asked.append(host)
        return (self.names.get(host.partition(".")[0], host),)


def chosen(line: str, *, keep: bool = True, session: str = "") -> ChosenExit:
    exit = parse_exit(line)
    return ChosenExit(exit, login(exit, ExitWish(), session=session), exit.kind, keep)


@asynccontextmanager
async def open_client(names: Names | None = None, **options: object) -> AsyncIterator[HttpClient]:
    guard = options.pop("guard", Guard(PRIVATE))
    async with asyncio.timeout(60), HttpClient(names or Names(), guard, sweep=0.02, **options) as client:  # type: ignore[arg-type]
        yield client


async def fetch(client: HttpClient, url: str, line: str, limits: FetchLimits = LIMITS) -> Response | Failure:
    found = await client.fetch(url, limits=limits, via=chosen(line))
    assert isinstance(found, Response | Failure)
    return found


async def failure(line: str, url: str = "http://127.0.0.1:8099/") -> Failure:
    async with open_client() as client:
        found = await fetch(client, url, line, QUICK)
    assert isinstance(found, Failure), found
    return found


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(params=[Squid, Tinyproxy, Microsocks], ids=["squid", "tinyproxy", "microsocks"])
async def proxy(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ProxyServer]:
    make: Make = request.param
    async with proxy_server(make, tmp_path / "proxy") as server:
        yield server


async def test_pages_come_through_a_real_proxy_with_a_password(
    proxy: ProxyServer, authority: Authority
) -> None:
    tls = authority.server("IP:127.0.0.1")
    async with (
        raw_server(replies(OK)) as plain,
        raw_server(replies(OK), tls=tls) as secure,
        open_client(ca_file=authority.file) as client,
    ):
        for site in (plain, secure):
            for _ in range(2):
                found = await fetch(client, site.url("/page"), proxy.line)
                assert isinstance(found, Response), found
                assert (found.body, found.exit) == (b"ok", proxy.name)
            assert site.connections == 1, "the tunnel is kept for the next request"
            assert b"secret" not in b"".join(site.requests)
            assert b"proxy-" not in b"".join(site.requests).lower()
    async with open_client() as client:
        wrong = await fetch(client, plain.url(), proxy.line.replace("secret", "wrong"))
    assert isinstance(wrong, Failure)
    assert (wrong.failure_class, wrong.status) == (FailureClass.PROXY_ERROR, 407)
    assert "wrong" not in wrong.reason


async def test_a_port_that_refuses_is_the_fault_of_the_target(proxy: ProxyServer) -> None:
    async with raw_server(replies(OK)) as closed:
        url = closed.url()
    async with open_client() as client:
        found = await fetch(client, url, proxy.line)
    assert isinstance(found, Failure)
    assert found.failure_class is FailureClass.CONNECT, found


async def test_a_target_that_does_not_accept_is_not_the_fault_of_the_exit(proxy: ProxyServer) -> None:
    with deaf_port() as port:
        url = f"http://127.0.0.1:{port}/"
        async with open_client() as client:
            for _ in range(2):
                found = await fetch(client, url, proxy.line, DEAF)
                assert isinstance(found, Failure)
                assert found.failure_class is FailureClass.CONNECT, found
            proxy.signal(signal.SIGSTOP)
            try:
                stopped = await fetch(client, url, f"{proxy.line} name=stopped", DEAF)
            finally:
                proxy.signal(signal.SIGCONT)
    assert isinstance(stopped, Failure)
    assert stopped.failure_class is FailureClass.PROXY_ERROR, stopped


@pytest.mark.parametrize("closes", [True, False])
async def test_an_exit_that_answers_about_itself_is_not_at_fault_for_a_target_it_is_silent_about(
    closes: bool,
) -> None:
    asked: list[bytes] = []

    async def proxy_of_one_target(peer: Peer) -> None:
        asked.append(await peer.request())
        if asked[-1].startswith(b"OPTIONS * HTTP/1.1\r\n"):
            await peer.send(answer(b"", status=400))
        elif not closes:
            await peer.hang()

    async with raw_server(proxy_of_one_target) as proxy, open_client() as client:
        for _ in range(3):
            found = await fetch(client, "https://127.0.0.1/", f"http://u:p@127.0.0.1:{proxy.port}", QUICK)
            assert isinstance(found, Failure)
            assert found.failure_class is FailureClass.CONNECT, found
    assert sum(request.startswith(b"OPTIONS") for request in asked) == 1, "it is known for a while"
    assert all(b"Proxy-Authorization: Basic dTpw" in request for request in asked)


async def test_an_https_proxy_has_tls_in_tls(tmp_path: Path, authority: Authority) -> None:
    certificate, key = authority.issue("IP:127.0.0.1")
    squid = Squid(tmp_path / "squid", Login(), (certificate, key))
    async with (
        proxy_server(lambda folder, login: squid, tmp_path / "squid"),
        raw_server(replies(OK), tls=authority.server("IP:127.0.0.1")) as site,
        open_client(ca_file=authority.file) as client,
    ):
        found = await fetch(client, site.url(), squid.https_line)
        assert isinstance(found, Response), found
    async with open_client() as client:  # that does not know the authority
        refused = await fetch(client, site.url(), squid.https_line)
    assert isinstance(refused, Failure)
    assert refused.failure_class is FailureClass.PROXY_ERROR


async def test_an_exit_inside_is_given_the_checked_address_and_never_the_name() -> None:
    names = Names(shop="127.0.0.1", evil="169.254.169.254")
    async with raw_server(replies(b"HTTP/1.1 502 X\r\n\r\n")) as proxy, open_client(names) as client:
        await fetch(client, "https://shop.example/", f"http://127.0.0.1:{proxy.port}")
        found = await fetch(client, "https://evil.example/", f"http://127.0.0.1:{proxy.port}")
    assert [request.split(b" ")[1] for request in proxy.requests] == [b"127.0.0.1:443"]
    assert isinstance(found, Failure)
    assert found.failure_class is FailureClass.REFUSED


class BothFamilies(Names):
    async def resolve(self, host: str) -> Answer:
        return ("::1", "127.0.0.1") if host == "both.example" else await super().resolve(host)


@pytest.mark.parametrize("refusal", [b"503 X", b"403 X"])
async def test_an_exit_inside_without_ipv6_is_given_the_other_address(refusal: bytes) -> None:
    async def without_ipv6(peer: Peer) -> None:
        target = (await peer.request()).split(b" ")[1]
        if target.startswith(b"["):
            await peer.send(b"HTTP/1.1 %b\r\nContent-Length: 0\r\n\r\n" % refusal)
            return
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        await peer.request()
        await peer.send(OK)

    async with raw_server(without_ipv6) as proxy, open_client(BothFamilies()) as client:
        found = await fetch(client, "http://both.example/", f"http://127.0.0.1:{proxy.port}")
    assert isinstance(found, Response), found
    assert found.address == "127.0.0.1"
    assert [request.split(b" ")[1] for request in proxy.requests] == [b"[::1]:80", b"127.0.0.1:80", b"/"]


async def test_an_exit_outside_gets_the_name_and_nothing_is_looked_up_here() -> None:
    names = Names()
    async with raw_server(replies(answer(b"page"))) as proxy, open_client(names) as client:
        line = f"http://u:p@127.0.0.1:{proxy.port} inside=no"
        page = await fetch(client, "http://shop.example:8080/a?b=1", line)
        assert isinstance(page, Response)
        await fetch(client, "https://shop.example/", line)
        for host in (
            "localhost",
            "printer",
            "x.internal",
            "10.0.0.1",
            "127.0.0.1",
            "x.local",
            "1.1.168.192.in-addr.arpa",
        ):
            refused = await fetch(client, f"http://{host}/", line)
            assert isinstance(refused, Failure)
            assert refused.failure_class is FailureClass.REFUSED, host
    assert names.asked == ["127.0.0.1"] * len(names.asked)
    plain, tunnel = proxy.requests
    assert plain.startswith(
        b"GET http://shop.example:8080/a?b=1 HTTP/1.1\r\nProxy-Authorization: Basic dTpw\r\n"
    )
    assert tunnel.startswith(b"CONNECT shop.example:443 HTTP/1.1\r\n")


async def test_an_address_that_serves_credentials_is_no_exit() -> None:
    for host in ("169.254.169.254", "[fd00:ec2::254]"):
        found = await failure(f"http://{host}:80")
        assert (found.failure_class, "not allowed" in found.reason) == (FailureClass.PROXY_ERROR, True)


def says(data: bytes) -> Handler:
    async def handler(peer: Peer) -> None:
        await peer.reader.read(1)
        await peer.send(data)
        await peer.hang()

    return handler


@pytest.mark.parametrize(
    ("reply", "failure_class", "status"),
    [
        (b"HTTP/1.1 407 Who\r\n\r\n", FailureClass.PROXY_ERROR, 407),
        (b"HTTP/1.0 401 Who\r\n\r\n", FailureClass.PROXY_ERROR, 407),
        (b"HTTP/1.1 403 No\r\n\r\n", FailureClass.PROXY_ERROR, 403),
        (b"HTTP/1.1 502 Bad\r\nContent-Length: 3\r\n\r\nbad", FailureClass.CONNECT, 502),
        (b"HTTP/1.1 500 Bad\r\n\r\n", FailureClass.CONNECT, 500),
        (b"HTTP/1.1 200 OK\r\n\r\nEARLY", FailureClass.PROXY_ERROR, 0),
        (b"SSH-2.0-OpenSSH\r\n\r\n", FailureClass.PROXY_ERROR, 0),
        (b"x" * 40_000, FailureClass.PROXY_ERROR, 0),
        (b"", FailureClass.PROXY_ERROR, 0),
    ],
)
async def test_the_answer_to_connect_says_whose_fault_it_is(
    reply: bytes, failure_class: FailureClass, status: int
) -> None:
    async with raw_server(says(reply)) as proxy:
        found = await failure(f"http://u:p@127.0.0.1:{proxy.port}")
    assert (found.failure_class, found.status) == (failure_class, status), found


@pytest.mark.parametrize(
    ("reply", "failure_class", "status"),
    [
        (b"\x05\xff", FailureClass.PROXY_ERROR, 407),
        (b"\x05\x02\x01\x01", FailureClass.PROXY_ERROR, 407),
        (b"\x05\x02\x01\x00\x05\x02\x00\x01\0\0\0\0\0\0", FailureClass.PROXY_ERROR, 403),
        (b"\x05\x02\x01\x00", FailureClass.CONNECT, 0),  # silent about the target alone
        (b"\x05\x02\x01\x00\x05\x05\x00\x01\0\0\0\0\0\0", FailureClass.CONNECT, 0),
        (b"\x05\x00\x05\x01\x00\x01\0\0\0\0\0\0", FailureClass.CONNECT, 0),
        (b"\x05\x00\x05\x00\x00\x09\0\0\0\0\0\0", FailureClass.PROXY_ERROR, 0),
        (b"HTTP/1.1 400 X\r\n\r\n", FailureClass.PROXY_ERROR, 0),
        (b"", FailureClass.PROXY_ERROR, 0),
    ],
)
async def test_a_socks_reply_says_whose_fault_it_is(
    reply: bytes, failure_class: FailureClass, status: int
) -> None:
    async with raw_server(says(reply)) as proxy:
        found = await failure(f"socks5://u:p@127.0.0.1:{proxy.port}")
    assert (found.failure_class, found.status) == (failure_class, status), found


async def test_a_proxy_that_is_gone_is_the_fault_of_the_exit() -> None:
    async with raw_server(replies(OK)) as gone:
        pass
    assert (await failure(f"http://127.0.0.1:{gone.port}")).failure_class is FailureClass.PROXY_ERROR


async def test_another_session_is_another_connection_and_bytes_are_counted_on_the_wire(
    tmp_path: Path,
) -> None:
    counted: list[tuple[str, str, int]] = []
    body = b"x" * 50_000
    async with (
        proxy_server(Tinyproxy, tmp_path / "proxy") as proxy,
        raw_server(replies(answer(body))) as site,
        open_client() as client,
    ):
        client.on_traffic = lambda via, host, size: counted.append((via.name, host, size))
        for via in (chosen(proxy.line), chosen(proxy.line), chosen(f"{proxy.line} name=two")):
            assert isinstance(await client.fetch(site.url(), limits=LIMITS, via=via), Response)
        await client.fetch(site.url(), limits=LIMITS, via=chosen(f"{proxy.line} name=three", keep=False))
    assert site.connections == 3
    assert [name for name, _, _ in counted] == [proxy.name, proxy.name, "two", "three"]
    assert {host for _, host, _ in counted} == {f"127.0.0.1:{site.port}"}
    first, again, *_ = (size for _, _, size in counted)
    assert len(body) < again < first < len(body) + 2_000


async def test_an_exit_never_has_more_connections_than_it_may_have() -> None:
    async def proxied(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(OK)

    async with raw_server(proxied) as proxy, open_client() as client:
        line = f"http://127.0.0.1:{proxy.port} inside=no connections=2"
        for number in range(6):
            found = await fetch(client, f"http://host{number}.example/", line)
            assert isinstance(found, Response)
        assert proxy.connections == 6
        async with asyncio.timeout(5):
            while proxy.open > 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert proxy.most <= 3


async def test_connections_that_are_being_opened_count_towards_the_limit_of_an_exit() -> None:
    may_answer = asyncio.Event()
    may_answer.set()

    async def proxied(peer: Peer) -> None:
        while True:
            await peer.request()
            await may_answer.wait()
            await peer.send(OK)

    async with raw_server(proxied) as proxy, open_client() as client:
        line = f"http://127.0.0.1:{proxy.port} inside=no connections=4"

        async def fetch_four(name: str) -> list[object]:
            return await asyncio.gather(
                *(fetch(client, f"http://{name}{number}.example/", line) for number in range(4))
            )

        await fetch_four("first")  # their connections are idle now
        may_answer.clear()
        second = asyncio.ensure_future(fetch_four("second"))
        async with asyncio.timeout(10):
            while proxy.connections < 8 or proxy.open > 4:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        may_answer.set()
        assert all(isinstance(found, Response) for found in await second)
