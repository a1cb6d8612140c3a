"""A page in a real Chromium finds no way out but the egress: no connection, no datagram, no DNS query.

Observed by the kernel, in a network in which every address is this machine: each packet is recorded, a server
answers every name, and another one listens where the names lead. A browser without restrictions, on the same
page, shows that what is not seen would have been seen.
"""

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from tests.integration.fetch.test_egress import open_egress
from tests.integration.fetch.test_exits import Names
from tests.servers.private_network import answering_all_names, in_private_network, recording
from tests.servers.process import program
from tests.site.raw import Peer, answer, raw_server
from tests.site.ways_out import BOUNCE_PATH, WAYS, WORKER_PATH, service_worker, ways_out

from shoal.fetch.browser.client import BrowserClient
from shoal.fetch.browser.pool import BrowserPool
from shoal.fetch.http.guard import Guard
from shoal.model.configuration.address_ranges import address_ranges
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.page import Response
from shoal.model.rendering import Rendering
from shoal.model.settings import BrowserSettings

CANARY = "127.0.0.2"  # where all names lead; the guard allows 127.0.0.1 alone
PORT = 8443
SEEN_S = 60.0  # within which an unrestricted browser has used every way
HTML = (("Content-Type", "text/html"),)


def host(way: str) -> str:
    return f"{way}.out.test"


def url(way: str, scheme: str = "http") -> str:
    return f"{scheme}://{host(way)}:{PORT}/{way}"


PAGES = {
    "/": answer(b"<title>front</title>", headers=HTML),
    "/ways": answer(ways_out(url, lambda way: f"{host(way)}:{PORT}").encode(), headers=HTML),
    BOUNCE_PATH: answer(b"", status=302, headers=(("Location", url("bounced")),)),
    "/moved": answer(b"", status=302, headers=(("Location", url("moved")),)),
    "/script": answer(f"<script>location = '{url('script')}'</script>".encode(), headers=HTML),
    WORKER_PATH: answer(
        service_worker(url("service")).encode(), headers=(("Content-Type", "text/javascript"),)
    ),
}


async def site(peer: Peer) -> None:
    path = (await peer.request()).split(b" ", 2)[1].decode()
    await peer.send(PAGES.get(path, answer(b"", status=404)))


@dataclass(slots=True)
class Canary:
    """What reaches the address that all names lead to."""

    hits: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hits.append((await reader.read(100)).decode("latin-1"))
        writer.close()

    def paths(self) -> set[str]:
        return {hit.partition(" HTTP")[0] for hit in self.hits}


@asynccontextmanager
async def canary() -> AsyncIterator[Canary]:
    found = Canary()
    async with await asyncio.start_server(found.serve, CANARY, PORT):
        yield found


async def unrestricted(page: str, is_seen: Callable[[], bool]) -> None:
    """Open a page in a browser with no option of ours until it has been seen to use every way."""
    with tempfile.TemporaryDirectory() as profile:
        options = ("--no-sandbox", f"--user-data-dir={profile}", "--remote-debugging-port=0")
        browser = await asyncio.create_subprocess_exec(
            program("chromium-headless-shell", "chromium-headless-shell"),
            *options,
            page,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(SEEN_S):
                while not is_seen():  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        except TimeoutError:
            return  # what was not seen, the caller finds out
        finally:
            os.killpg(browser.pid, signal.SIGKILL)
            await browser.wait()


def test_an_unrestricted_browser_uses_every_way_and_is_seen() -> None:
    names = {host(way) for way in WAYS}
    kinds = {("udp", 53), ("tcp", PORT), ("udp", PORT)}

    async def look() -> None:
        async with (
            answering_all_names(CANARY) as asked,
            canary() as reached,
            raw_server(site, host="127.0.0.1") as server,
        ):
            with recording() as packets:

                def missed() -> list[object]:
                    packets.read()
                    sent = {(kind, port) for kind, address, port in packets.sent if address != "127.0.0.1"}
                    reached_by = len(reached.paths())
                    return [*(names - set(asked)), *(kinds - sent), *([] if reached_by > 9 else [reached_by])]

                await unrestricted(server.url("/ways"), lambda: not missed())
                assert missed() == []

    in_private_network(look)


@pytest.mark.parametrize("network", ["own", "shared"])
def test_no_page_finds_a_way_past_the_egress(network: str) -> None:
    """Also in the network of the worker, where nothing but the flags keeps it in."""
    program("chromium-headless-shell", "chromium-headless-shell")

    async def look() -> None:
        guard = Guard(address_ranges(["127.0.0.1/32"]))
        names = Names(**dict.fromkeys((*WAYS, "moved", "script"), CANARY))
        settings = BrowserSettings(page_s=20.0, network=network)
        async with (
            answering_all_names(CANARY) as asked,
            canary() as reached,
            raw_server(site, host="127.0.0.1") as server,
            BrowserPool.open(settings) as pool,
            open_egress(names, guard, pool.passes) as egress,
            BrowserClient.open(pool, egress, names, guard, rendering=Rendering(images=True)) as client,
        ):
            with recording() as around:
                assert isinstance(await client.fetch(server.url("/"), limits=FetchLimits()), Response)
                [browser] = pool.browsers
                with recording(browser.chromium.pid) as within:
                    for path in ("/ways", "/moved", "/script"):
                        page = await client.fetch(server.url(path), limits=FetchLimits())
                        assert isinstance(page, Response), page
                        assert b"candidate" not in page.body.partition(b"</title>")[0], (
                            "an address of this machine"
                        )
                    refused = await client.fetch(url("download"), limits=FetchLimits())
                    assert isinstance(refused, Failure)
                    assert refused.failure_class is FailureClass.REFUSED
                    await asyncio.sleep(1.0)  # what a browser does when it has time
                    within.read()
                around.read()
            inside = {("tcp", "127.0.0.1", browser.chromium.proxy_port or egress.port)}
            outside = {("tcp", "127.0.0.1", port) for port in (server.port, egress.port)}
        assert set(within.sent) <= inside | outside
        assert set(around.sent) <= outside
        assert within.sent, "the way through the egress was used"
        assert (asked, reached.hits) == ([], [])
        used = {way for way in WAYS if host(way) in names.asked}
        assert len(used) > len(WAYS) // 2, f"the page only tried {used}"

    in_private_network(look)
