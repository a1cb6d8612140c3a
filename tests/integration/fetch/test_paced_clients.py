"""The pace of clients that write their requests themselves: a slow way to the server changes nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import cycle
from pathlib import Path

import pytest
from tests.contract.test_client import Turns, impersonating_client
from tests.integration.fetch.test_browser import open_browser
from tests.integration.fetch.test_exits import LIMITS, chosen
from tests.site.access_log import gaps
from tests.site.certificates import make_authority
from tests.site.raw import OK, Peer, RawServer, raw_server, replies
from tests.site.server import serving

from shoal.fetch.contract import Client
from shoal.fetch.gate import SendGate
from shoal.fetch.http.guard import Guard
from shoal.fetch.shared_gate import SharedGate
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.errors import Unavailable
from shoal.model.limits import FetchLimits
from shoal.model.pace import TurnAnswer, TurnRequest
from shoal.model.page import NotSent, Response

INTERVAL_S = 0.3
Open = Callable[[], AbstractAsyncContextManager[Client]]


def impersonating() -> AbstractAsyncContextManager[Client]:
    return impersonating_client(Guard(PRIVATE), profile="chrome")


def browser() -> AbstractAsyncContextManager[Client]:
    return open_browser(allowed="127.0.0.0/8")


@asynccontextmanager
async def slow_exit(*delays_s: float) -> AsyncIterator[str]:
    """Run a proxy that waits before it connects, for one of these times after the other."""
    delays = cycle(delays_s)

    async def tunnel(peer: Peer) -> None:
        head = await peer.reader.readuntil(b"\r\n\r\n")
        host, _, port = head.split(b" ")[1].decode().rpartition(":")
        await asyncio.sleep(next(delays))
        reader, writer = await asyncio.open_connection(host, int(port))
        peer.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(copy(peer.reader, writer))
            group.create_task(copy(reader, peer.writer))

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async with raw_server(tunnel) as server:
        yield f"http://127.0.0.1:{server.port} inside=yes"


@pytest.mark.parametrize("open_client", [impersonating, browser])
async def test_requests_of_two_workers_keep_their_distance_on_a_slow_way(
    open_client: Open, tmp_path: Path
) -> None:
    (tmp_path / "index.html").write_text("<title>page</title>")
    store, pages = SendGate(), 5

    def gate_of(worker: str) -> SharedGate:
        async def ask(request: TurnRequest) -> TurnAnswer:
            return store.grant(request, worker)

        return SharedGate(ask)

    async def work(client: Client, host: str, line: str, gate: SharedGate) -> None:
        fetched = 0
        while fetched < pages:
            turn = gate.turn(host, interval=INTERVAL_S)
            answer = await client.fetch(
                f"http://{host}/", headers=(), limits=FetchLimits(), turn=turn, via=chosen(line, keep=False)
            )
            assert isinstance(answer, Response | NotSent), answer
            fetched += isinstance(answer, Response)

    async with (
        asyncio.timeout(90),
        serving("bench.web_server:FolderSite", str(tmp_path), hosts=1) as site,
        slow_exit(0.0, 0.25, 0.1) as line,
        open_client() as one,
        open_client() as two,
    ):
        [host] = site.authorities
        async with asyncio.TaskGroup() as group:
            group.create_task(work(one, host, line, gate_of("one")))
            group.create_task(work(two, host, line, gate_of("two")))
        hits = [hit.arrived for hit in await site.hits() if hit.path == "/"]

    assert len(hits) == 2 * pages
    # The proxy runs in this process, and may pass a request on a little late.
    assert min(gaps(hits)) >= 0.8 * INTERVAL_S


async def test_the_turn_is_taken_after_the_handshake_and_before_the_request(tmp_path: Path) -> None:
    authority = make_authority(tmp_path)
    seen: list[int] = []

    class Looking(Turns):
        async def take(self, address: str = "") -> float:
            await asyncio.sleep(0.2)
            seen.append(len(site.requests))
            return await super().take(address)

    site: RawServer
    async with (
        raw_server(replies(OK, OK), tls=authority.server("IP:127.0.0.1")) as site,
        impersonating_client(Guard(PRIVATE), profile="chrome", ca_file=authority.file) as client,
    ):
        for number in range(2):
            turn = Looking()
            answer = await client.fetch(site.url(), limits=LIMITS, turn=turn)
            assert isinstance(answer, Response), answer
            assert (turn.taken, turn.sends, turn.answers) == (1, 1, 1)
            assert turn.timing.queue > 0.19
            assert (turn.timing.connect > 0, turn.timing.tls > 0) == (
                (True, True) if not number else (False, False)
            )
    assert seen == [0, 1], "the second request, on the same connection, is held too"
    assert site.connections == 1


@pytest.mark.parametrize("open_client", [impersonating, browser])
async def test_a_turn_that_is_too_far_away_sends_nothing(open_client: Open) -> None:
    async with raw_server(replies(OK)) as site, open_client() as client:
        turn = Turns(3.5)
        answer = await client.fetch(site.url(), headers=(), limits=FetchLimits(), turn=turn)
        assert answer == NotSent(3.5)
        assert (turn.taken, turn.sends, site.requests) == (1, 0, [])
        again = await client.fetch(site.url(), headers=(), limits=FetchLimits(), turn=Turns())
        assert isinstance(again, Response), "the next one is sent"


@pytest.mark.parametrize("open_client", [impersonating, browser])
async def test_a_store_that_cannot_be_asked_is_an_error_of_the_store(open_client: Open) -> None:
    class Away(Turns):
        async def take(self, address: str = "") -> float:
            raise Unavailable("the store is away")

    async with raw_server(replies(OK)) as site, open_client() as client:
        with pytest.raises(Unavailable):
            await client.fetch(site.url(), headers=(), limits=FetchLimits(), turn=Away())
        assert site.requests == []


async def test_a_request_that_never_left_has_used_no_turn(tmp_path: Path) -> None:
    async def handler(peer: Peer) -> None:
        await peer.reader.read(1)
        peer.reset()

    async with raw_server(handler) as server, impersonating() as client:
        turn = Turns()
        await client.fetch(f"https://127.0.0.1:{server.port}/", headers=(), limits=LIMITS, turn=turn)
        assert (turn.taken, turn.sends) == (0, 0)
        assert not client._turns, "what a host needed is gone with its last request"  # type: ignore[attr-defined]
