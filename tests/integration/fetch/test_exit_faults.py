"""The table of what can go wrong on the way through an exit, line by line: real sockets, and who is charged."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from tests.contract.test_client import impersonating_client
from tests.hostile.exits import forwards, pretends, refuses, says
from tests.integration.fetch.test_exits import Names, open_client
from tests.site.certificates import Authority, make_authority
from tests.site.raw import OK, Handler, Peer, answer, raw_server, replies

from shoal.fetch.contract import Client
from shoal.fetch.exits.exit_pool import Answer, ExitPool
from shoal.fetch.exits.shared_health import exit_key, host_key_of
from shoal.fetch.http.dns import Answer as Resolved
from shoal.fetch.http.guard import Guard
from shoal.model.adaptive_delay import Signal
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.exits.exit import ChosenExit, ExitWish, parse_exit
from shoal.model.exits.faults import FAULTS, Fault, Party, fault_of
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.page import NotSent, Response
from shoal.model.settings import ProxySettings

ANY = ExitWish()
GUARD = Guard(PRIVATE)
OTHER = "other.example"
QUICK = FetchLimits(connect=0.3, tls=0.3, first_byte=0.3, idle=0.3, total=2.0)
TUNNEL = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"))


Opened = Callable[[Authority], AbstractAsyncContextManager[tuple[str, str]]]
"""Opens an exit, and perhaps a target: the line of the exit, and what to ask for."""


class Way:
    """A way to a target through one exit, and what the pool of a process makes of what comes."""

    def __init__(self, line: str, url: str, client: Client, **settings: float) -> None:
        self.url = url
        self.exit = parse_exit(line)
        self.now = 1_000_000.0
        self.pool = ExitPool([self.exit], ProxySettings(**settings), worker="w", clock=lambda: self.now)  # type: ignore[arg-type]
        self._client = client
        self.brought: Answer | None = None

    async def ask(self) -> Answer:
        async def call(via: ChosenExit) -> Answer:
            self.brought = await self._client.fetch(self.url, headers=(), limits=QUICK, turn=None, via=via)
            return self.brought

        found, via = await self.pool.send(call, host="a.example", wish=ANY, url=self.url)
        if isinstance(found, Response) and via is not None:
            self.pool.report(
                via, "a.example", ANY, Signal.FORBIDDEN if found.status == 403 else Signal.NORMAL
            )
        return found

    async def work_elsewhere(self) -> None:
        """Bring a page of another host through the exit."""

        async def call(via: ChosenExit) -> Answer:
            return Response(f"http://{OTHER}/", 200, (), b"", b"", 0.0, 0.0, exit=via.name)

        self.now += 1.0
        await self.pool.send(call, host=OTHER, wish=ANY, url=OTHER)

    @property
    def failures(self) -> tuple[int, int]:
        """Return those of the exit, and those of the exit at the host."""
        keys = exit_key(self.exit.name), host_key_of(self.exit.name, "a.example")
        found = [self.pool.health.get(key) for key in keys]
        first, second = (0 if one is None else one.total - one.successes for one in found)
        return first, second


def behind(handler: Handler, *, url: str = "https://127.0.0.1:8443/", options: str = "") -> Opened:
    @asynccontextmanager
    async def opened(authority: Authority) -> AsyncIterator[tuple[str, str]]:
        async with raw_server(handler) as exit:
            yield f"http://u:p@127.0.0.1:{exit.port} name=exit{options}", url

    return opened


def line(text: str) -> Opened:
    @asynccontextmanager
    async def opened(authority: Authority) -> AsyncIterator[tuple[str, str]]:
        yield text, "https://127.0.0.1:8443/"

    return opened


def to(handler: Handler, *, tls: str = "") -> Opened:
    """A good exit, and a target that does what the handler does."""

    @asynccontextmanager
    async def opened(authority: Authority) -> AsyncIterator[tuple[str, str]]:
        context = authority.server(tls) if tls else None
        async with raw_server(handler, tls=context) as site, raw_server(forwards()) as exit:
            yield f"http://u:p@127.0.0.1:{exit.port} name=exit", site.url()

    return opened


@asynccontextmanager
async def gone(authority: Authority) -> AsyncIterator[tuple[str, str]]:
    async with raw_server(replies(OK)) as server:
        pass
    yield f"http://127.0.0.1:{server.port} name=exit", "https://127.0.0.1:8443/"


@asynccontextmanager
async def unknown_authority(authority: Authority) -> AsyncIterator[tuple[str, str]]:
    async with raw_server(replies(OK), tls=authority.server("DNS:elsewhere.example")) as exit:
        yield f"https://127.0.0.1:{exit.port} name=exit", "https://127.0.0.1:8443/"


async def hangs(peer: Peer) -> None:
    await peer.hang()


async def silent_about_the_target(peer: Peer) -> None:
    if (await peer.request()).startswith(b"OPTIONS"):
        await peer.send(answer(b"", status=400))
    else:
        await peer.hang()


async def tunnel_then_nothing(peer: Peer) -> None:
    await peer.request()
    await peer.send(TUNNEL)
    await peer.hang()


async def tunnel_then_end(peer: Peer) -> None:
    await peer.request()
    await peer.send(TUNNEL)
    await peer.reader.read(1)


async def tunnel_then_garbage(peer: Peer) -> None:
    await peer.request()
    await peer.send(TUNNEL)
    await peer.reader.read(1)
    await peer.send(b"SSH-2.0-OpenSSH\r\n\r\n")
    await peer.hang()


PLAIN = "http://127.0.0.1:8099/"
WAYS: dict[str, tuple[Fault, Opened]] = {
    "no name": (Fault.NAME, line("http://gone.example:1 name=exit")),
    "metadata address": (Fault.ADDRESS, line("http://169.254.169.254:80 name=exit")),
    "refused connection": (Fault.CONNECTION, gone),
    "no TLS": (Fault.TLS, unknown_authority),
    "407": (Fault.LOGIN, behind(refuses(407))),
    "402": (Fault.ACCOUNT, behind(refuses(402))),
    "429": (Fault.ACCOUNT, behind(refuses(429))),
    "not a proxy": (Fault.NO_PROXY, behind(says(b"SSH-2.0-OpenSSH\r\n\r\n"))),
    "speaks first": (Fault.NO_PROXY, behind(says(b"HTTP/1.1 200 OK\r\n\r\nearly"))),
    "silent": (Fault.SILENT, behind(hangs)),
    "403": (Fault.RULES, behind(refuses(403))),
    "502": (Fault.UNREACHED, behind(refuses(502))),
    "silent about the target": (Fault.UNREACHED, behind(silent_about_the_target)),
    "garbage for TLS": (Fault.TUNNEL, behind(pretends)),
    "tunnel, then nothing": (Fault.TUNNEL, behind(tunnel_then_nothing)),
    "tunnel, then the end": (Fault.TUNNEL, behind(tunnel_then_end)),
    "plain tunnel, then nothing": (Fault.TUNNEL, behind(tunnel_then_nothing, url=PLAIN)),
    "plain tunnel, then the end": (Fault.TUNNEL, behind(tunnel_then_end, url=PLAIN)),
    "plain tunnel, then garbage": (Fault.TUNNEL, behind(tunnel_then_garbage, url=PLAIN)),
    "certificate of another host": (Fault.CERTIFICATE, to(replies(OK), tls="DNS:elsewhere.example")),
    "cut body": (
        Fault.BROKEN,
        to(replies(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"), tls="IP:127.0.0.1"),
    ),
    "blocked": (Fault.BLOCKED, to(replies(answer(b"no", status=403)))),
    "guard": (Fault.GUARD, behind(hangs, url="http://127.0.0.1:22/", options=" inside=no")),
}


class NoNames(Names):
    async def resolve(self, host: str) -> Resolved:
        if host == "gone.example":
            return Failure(FailureClass.DNS, "no such name")
        return await super().resolve(host)


async def check(way: Way, fault: Fault) -> None:
    """Assert that what the pool makes of a fault is what its row says."""
    party = FAULTS[fault].charged
    found = await way.ask()
    if fault is Fault.BLOCKED:
        assert isinstance(found, Response)
        assert way.failures == (0, 1), "counted at this host, and the URL is judged as without an exit"
        return
    assert isinstance(way.brought, Failure), way.brought
    assert fault_of(way.brought) is fault, way.brought
    match party:
        case Party.EXIT:
            assert isinstance(found, NotSent)
            assert way.failures == (1, 0)
        case Party.AT_HOST:
            assert found == way.brought
            assert way.failures == (0, 1)
        case Party.DOUBT:
            assert isinstance(found, NotSent)
            assert way.failures == (1, 0), "it has never worked"
            await way.work_elsewhere()
            again = await way.ask()
            assert again == way.brought, "it works, so the URL is charged"
            assert way.failures[0] == 1
        case _:
            assert found == way.brought
            assert way.failures[0] == 0


@pytest.mark.parametrize("name", WAYS)
async def test_each_line_of_the_table_charges_whom_it_says(name: str, authority: Authority) -> None:
    fault, opened = WAYS[name]
    async with opened(authority) as (text, url), open_client(NoNames(), ca_file=authority.file) as client:
        await check(Way(text, url, client), fault)


@pytest.mark.parametrize(
    "name", ["refused connection", "407", "502", "garbage for TLS", "tunnel, then the end"]
)
async def test_the_impersonating_client_charges_the_same(name: str, authority: Authority) -> None:
    fault, opened = WAYS[name]
    async with opened(authority) as (text, url), impersonating_client(GUARD, profile="chrome") as client:
        await check(Way(text, url, client), fault)


async def test_no_one_is_charged_while_exits_are_busy_or_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.fetch.exits.exit_pool.BUSY_WAIT_S", 0.01)
    asked = 0
    way = Way("http://127.0.0.1:9 name=exit connections=1", "http://a.example/", None)  # type: ignore[arg-type]

    async def call(via: ChosenExit) -> Answer:
        nonlocal asked
        asked += 1
        found, _ = await way.pool.send(call, host="a.example", wish=ANY)
        assert isinstance(found, NotSent)
        return Response("http://a.example/", 200, (), b"", b"", 0.0, 0.0)

    await way.pool.send(call, host="a.example", wish=ANY)
    way.pool.health.fail(exit_key("exit"), "gone", times=5)
    before = way.failures
    found, _ = await way.pool.send(call, host="a.example", wish=ANY)
    assert isinstance(found, NotSent)
    assert (asked, way.failures) == (1, before)


def test_every_line_of_the_table_is_tested() -> None:
    tested = {fault for fault, _ in WAYS.values()} | {Fault.BUSY, Fault.RESTING}
    assert tested == set(FAULTS) == set(Fault)
