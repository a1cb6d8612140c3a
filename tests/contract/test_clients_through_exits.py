"""Every client through real proxies: the contract of clients, and what is owed to exits."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.contract.test_client import LIMITS, Names, impersonating_client, own_client
from tests.hostile.exits import forwards
from tests.servers.proxies import Login, Make, Microsocks, ProxyServer, Squid, Tinyproxy, proxy_server
from tests.site.certificates import Authority, make_authority
from tests.site.raw import OK, raw_server, replies

from shoal.fetch.contract import Client
from shoal.fetch.http.guard import Guard
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.exits.exit import ChosenExit, parse_exit
from shoal.model.failure import Failure, FailureClass
from shoal.model.page import NotSent, Response
from shoal.testing.contracts.client import ClientContract, OpenClient

GUARD = Guard(PRIVATE)
LOGIN = Login("shoal", "secret-of-the-exit")
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
