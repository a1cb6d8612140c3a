"""Every client through real proxies: the contract of clients, and what is owed to exits."""

import asyncio
import os
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.contract.test_client import LIMITS, Names, impersonating_client, own_client
from tests.hostile.exits import forwards
from tests.servers.proxies import Login, Make, Microsocks, ProxyServer, Squid, Tinyproxy, proxy_server
from tests.site.certificates import Authority, make_authority
from tests.site.raw import OK, Peer, raw_server, replies

from shoal.fetch.contract import Client
from shoal.fetch.exits.exit_pool import ExitPool
from shoal.fetch.http.exit_connections import ExitConnections
from shoal.fetch.http.guard import Guard
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.exits.exit import ChosenExit, ExitWish, parse_exit
from shoal.model.failure import Failure, FailureClass
from shoal.model.page import NotSent, Response
from shoal.model.settings import ProxySettings
from shoal.testing.contracts.client import ClientContract, OpenClient

GUARD = Guard(PRIVATE)
LOGIN = Login("shoal", "secret-of-the-exit")
PAGES = int(os.environ.get("EXIT_PAGES", "200"))
CLIENTS = ("own", "chrome", "plain")
PROXIES: dict[str, Make] = {"squid": Squid, "tinyproxy": Tinyproxy, "microsocks": Microsocks}

Open = Callable[..., AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def opened(which: str, guard: Guard = GUARD, ca_file: str | None = None) -> AsyncIterator[Client]:
    if which == "own":
        names = Names(localhost=("127.0.0.1",))
        async with own_client(names, guard=guard, ca_file=ca_file) as own:
            yield own
    else:
        async with impersonating_client(guard, profile=which, ca_file=ca_file) as client:
            yield client


def chosen(line: str, **options: Any) -> ChosenExit:
    exit = parse_exit(line)
    return ChosenExit(exit, exit.user, **options)


class Through:
    """A client all of whose requests leave through one exit."""

    def __init__(self, client: Client, via: ChosenExit) -> None:
        self._client = client
        self._via = via

    async def fetch(self, url: str, **options: Any) -> Response | Failure | NotSent:
        return await self._client.fetch(url, via=self._via, **options)


@pytest.mark.parametrize("which", ["own", "chrome"])
class TestClientsThroughAnExit(ClientContract):
    @pytest.fixture
    def open_client(self, which: str, tmp_path: Path) -> OpenClient:
        @asynccontextmanager
        async def open_client(guard: Guard) -> AsyncIterator[Client]:
            async with (
                proxy_server(Microsocks, tmp_path / "proxy") as proxy,
                opened(which, guard) as client,
            ):
                yield Through(client, chosen(proxy.line))

        return open_client


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(params=PROXIES)
async def proxy(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ProxyServer]:
    async with proxy_server(PROXIES[request.param], tmp_path / "proxy", LOGIN) as server:
        yield server


async def fetch(client: Client, url: str, via: ChosenExit) -> Response | Failure | NotSent:
    return await client.fetch(url, headers=(), limits=LIMITS, turn=None, via=via)


@pytest.mark.parametrize("which", CLIENTS)
async def test_pages_come_through_the_proxy_and_the_site_never_sees_the_password(
    which: str, proxy: ProxyServer, authority: Authority
) -> None:
    async with (
        raw_server(replies(OK)) as plain,
        raw_server(replies(OK), tls=authority.server("IP:127.0.0.1")) as secure,
        opened(which, ca_file=authority.file) as client,
    ):
        for server in (plain, secure):
            for _ in range(2):
                found = await fetch(client, server.url(), chosen(proxy.line))
                assert isinstance(found, Response), found
                assert (found.status, found.body, found.exit) == (200, b"ok", proxy.name)
    assert len(plain.requests) == len(secure.requests) == 2
    assert secure.connections == 1, "it was kept"
    assert proxy.log(), "it went through the proxy"
    seen = b"".join([*plain.requests, *secure.requests]).lower()
    assert b"proxy" not in seen
    secrets = (LOGIN.password, b64encode(f"{LOGIN.user}:{LOGIN.password}".encode()).decode())
    assert not any(secret.lower().encode() in seen for secret in secrets)


@pytest.mark.parametrize("which", CLIENTS)
async def test_a_wrong_password_and_a_proxy_that_is_gone_are_faults_of_the_exit(
    which: str, proxy: ProxyServer
) -> None:
    wrong = f"{proxy.scheme}://shoal:wrong@127.0.0.1:{proxy.port}"
    async with raw_server(replies(OK)) as server, opened(which) as client:
        refused = await fetch(client, server.url(), chosen(wrong))
        assert isinstance(refused, Failure), refused
        assert (refused.failure_class, refused.status) == (FailureClass.PROXY_ERROR, 407)
        proxy.kill()
        gone = await fetch(client, server.url(), chosen(proxy.line))
        assert isinstance(gone, Failure), gone
        assert gone.failure_class is FailureClass.PROXY_ERROR
    assert not server.requests
    assert "wrong" not in refused.reason + gone.reason


@pytest.mark.parametrize("which", CLIENTS)
async def test_an_exit_has_no_more_connections_than_it_may_have(which: str) -> None:
    async with raw_server(forwards()) as proxy, opened(which) as client:
        via = chosen(f"http://u:p@127.0.0.1:{proxy.port} connections=2")
        for number in range(5):
            async with raw_server(replies(OK), host=f"127.9.0.{number + 1}") as server:
                assert isinstance(await fetch(client, server.url(), via), Response)
                async with asyncio.timeout(10):
                    while proxy.open > 2:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)


@pytest.mark.parametrize("which", CLIENTS)
async def test_a_session_for_one_request_leaves_no_connection_behind(which: str) -> None:
    async with (
        raw_server(forwards()) as proxy,
        raw_server(replies(OK)) as server,
        opened(which) as client,
    ):
        for number in range(3):
            via = chosen(f"http://u{number}:p@127.0.0.1:{proxy.port} name=gate", keep=False)
            assert isinstance(await fetch(client, server.url(), via), Response)
        async with asyncio.timeout(10):
            while proxy.open:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert proxy.connections == 3


async def test_the_clients_of_a_worker_share_the_connections_that_an_exit_may_have(
    authority: Authority,
) -> None:
    connections = ExitConnections()
    async with (
        raw_server(forwards()) as proxy,
        own_client(ca_file=authority.file, connections=connections) as own,
        impersonating_client(
            GUARD, profile="chrome", ca_file=authority.file, connections=connections
        ) as chrome,
    ):
        via = chosen(f"http://u:p@127.0.0.1:{proxy.port} connections=2")
        for number in range(6):
            client: Client = own if number % 2 else chrome
            tls = authority.server(f"IP:127.9.1.{number + 1}")
            async with raw_server(replies(OK), host=f"127.9.1.{number + 1}", tls=tls) as server:
                assert isinstance(await fetch(client, server.url(), via), Response)
                async with asyncio.timeout(10):
                    while proxy.open > 2:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
    assert proxy.connections == 6


async def through(client: Client, pool: ExitPool, url: str) -> None:
    """Fetch a page as a crawl does."""
    found, _ = await pool.send(partial(fetch, client, url), host="a", wish=ExitWish(), url=url)
    assert isinstance(found, Response), found


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
@pytest.mark.parametrize(("which", "pages"), [("own", PAGES), ("chrome", PAGES // 4)])
async def test_with_rotation_request_every_page_has_another_address_of_a_gateway_without_sessions(
    which: str, pages: int, secure: bool, authority: Authority
) -> None:
    addresses = (f"127.77.{number // 250}.{number % 250 + 1}" for number in range(10_000))
    seen: Counter[str] = Counter()  # requests by address, as the site sees them

    async def serve(peer: Peer) -> None:
        while True:
            await peer.request()
            seen[peer.writer.get_extra_info("peername")[0]] += 1
            await peer.send(OK)

    tls = authority.server("IP:127.0.0.1") if secure else None
    async with (
        raw_server(serve, tls=tls) as site,
        raw_server(forwards(address=lambda: next(addresses))) as gateway,
        opened(which, ca_file=authority.file) as client,
    ):
        exit = parse_exit(f"http://u:p@127.0.0.1:{gateway.port} name=gate connections=4")
        pool = ExitPool([exit], ProxySettings(rotation="request"), worker="w")
        left = list(range(pages))

        async def crawl() -> None:
            while left:
                await through(client, pool, site.url(f"/{left.pop()}"))

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(crawl())
    assert len(seen) == seen.total() == gateway.connections == pages


async def test_in_absolute_form_every_page_has_another_connection_too() -> None:
    async def proxied(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(OK)

    async with raw_server(proxied) as gateway, opened("own") as client:
        exit = parse_exit(f"http://127.0.0.1:{gateway.port} inside=no")
        pool = ExitPool([exit], ProxySettings(rotation="request"), worker="w")
        for number in range(20):
            await through(client, pool, f"http://shop.example/{number}")
    assert gateway.connections == len(gateway.requests) == 20
