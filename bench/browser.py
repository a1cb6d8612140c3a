"""What a page costs by level: plain, impersonating, and in a browser; and beside a bare loop over CDP.

    python -m bench.browser [--pages 40] [--rounds 3]

CPU time of everything that takes part: this process with its egress, which serves the pages as well, and all
processes of the browser. The page has a script that fills it from JSON, and images, which are not loaded. The
bare loop does the least that gives a DOM: one context, a page per URL, navigate, wait for the load event and
for a quiet network, read the DOM; no egress, no limits, no cookies, no archive.
"""

import argparse
import asyncio
import os
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
from rich.console import Console
from rich.table import Table
from tests.site.raw import Peer, answer, raw_server

from shoal.fetch.browser.chromium import Chromium, open_chromium
from shoal.fetch.browser.client import BrowserClient
from shoal.fetch.browser.pool import BrowserPool
from shoal.fetch.egress.egress import Egress
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import Answer
from shoal.fetch.http.guard import Guard
from shoal.fetch.impersonate.client import ImpersonatingClient
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.limits import FetchLimits
from shoal.model.page import Response
from shoal.model.rendering import Rendering
from shoal.model.settings import BrowserSettings

AT_ONCE = 4
IDLE_MS = 100
GUARD = Guard(PRIVATE)
LIMITS = FetchLimits()
PLAIN, IMPERSONATING, BROWSER, BARE = "plain", "impersonating", "browser", "bare CDP loop"
SCRIPT = "x" * 60_000
PAGE = f"""<title>shop</title><ul></ul><img src=/1.png><img src=/2.png><img src=/3.png>
<script>const padding = '{SCRIPT}';
fetch('/items.json').then((found) => found.json()).then((items) => {{
  document.querySelector('ul').innerHTML = items.map((one) => `<li>${{one}}</li>`).join('') }})</script>"""
ITEMS = "[" + ",".join(f'"item {n}"' for n in range(300)) + "]"
TICKS = os.sysconf("SC_CLK_TCK")

Fetch = Callable[[str], Awaitable[int]]
"""Fetches a URL and returns the size of what it got."""


class Figures(NamedTuple):
    own: float  # milliseconds of CPU per page, of this process
    browser: float  # of all processes of the browser
    pages_per_s: float

    @property
    def cpu(self) -> float:
        return self.own + self.browser


class OneAddress:
    async def resolve(self, host: str) -> Answer:
        return ("127.0.0.1",)


async def site(peer: Peer) -> None:
    while True:
        path = (await peer.request()).split(b" ", 2)[1]
        kind, body = (b"application/json", ITEMS) if path.endswith(b".json") else (b"text/html", PAGE)
        await peer.send(answer(body.encode(), headers=(("Content-Type", kind.decode()),)))


def cpu_of_browsers(roots: list[int]) -> float:
    """Return the CPU seconds of browsers, with those of their processes that have ended."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            values = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(values[3]) in roots:  # its session
            ticks += sum(map(int, values[11:15]))
    return ticks / TICKS


@asynccontextmanager
async def open_way(way: str) -> AsyncIterator[tuple[Fetch, Callable[[], list[int]]]]:
    """Open a client; yield how it fetches, and which browsers it runs, by session."""
    resolver = OneAddress()
    async with AsyncExitStack() as stack:
        if way == BARE:
            chromium = await stack.enter_async_context(open_chromium(BrowserSettings(network="shared")))
            loop = BareLoop(chromium)
            await loop.start()
            yield loop.fetch, lambda: [chromium.pid]
            return
        plain = await stack.enter_async_context(HttpClient(resolver, GUARD))
        client: Any = plain
        sessions: Callable[[], list[int]] = list
        if way == IMPERSONATING:
            egress = await stack.enter_async_context(Egress(resolver, GUARD, plain.exits).listen())
            client = ImpersonatingClient(egress, resolver, GUARD, profile="chrome")
            stack.callback(client.close)
        elif way == BROWSER:
            pool = await stack.enter_async_context(BrowserPool.open(BrowserSettings()))
            opened = Egress(resolver, GUARD, plain.exits, passes=pool.passes).listen()
            egress = await stack.enter_async_context(opened)
            rendering = Rendering(idle_ms=IDLE_MS)
            client = await stack.enter_async_context(
                BrowserClient.open(pool, egress, resolver, GUARD, rendering=rendering)
            )

            def sessions() -> list[int]:
                return [one.chromium.pid for one in pool.browsers]

        async def fetch(url: str) -> int:
            found = await client.fetch(url, headers=(), limits=LIMITS, turn=None)
            assert isinstance(found, Response), found
            return len(found.body)

        yield fetch, sessions


class BareLoop:
    def __init__(self, chromium: Chromium) -> None:
        self._chromium = chromium
        self._context = ""

    async def start(self) -> None:
        browser = self._chromium.connection.browser
        made = await browser.call("Target.createBrowserContext", proxyServer="direct://")
        self._context = made["browserContextId"]

    async def fetch(self, url: str) -> int:
        browser, connection = self._chromium.connection.browser, self._chromium.connection
        created = await browser.call("Target.createTarget", url="about:blank", browserContextId=self._context)
        attached = await browser.call("Target.attachToTarget", targetId=created["targetId"], flatten=True)
        session = connection.session(attached["sessionId"])
        loaded = asyncio.Event()
        open_requests: set[str] = set()
        quiet_since = time.monotonic()

        def ended(event: Mapping[str, Any]) -> None:
            nonlocal quiet_since
            open_requests.discard(event["requestId"])
            quiet_since = time.monotonic()

        session.on("Page.loadEventFired", lambda _: loaded.set())
        session.on("Network.requestWillBeSent", lambda event: open_requests.add(event["requestId"]))
        session.on("Network.loadingFinished", ended)
        session.on("Network.loadingFailed", ended)
        session.on(
            "Fetch.requestPaused",
            lambda event: session.post(
                "Fetch.failRequest", requestId=event["requestId"], errorReason="BlockedByClient"
            ),
        )
        patterns = [{"resourceType": kind} for kind in ("Image", "Font", "Media")]
        await session.call_all(
            [("Page.enable", {}), ("Network.enable", {}), ("Fetch.enable", {"patterns": patterns})]
        )
        await session.call("Page.navigate", url=url)
        await loaded.wait()
        while open_requests or time.monotonic() - quiet_since < IDLE_MS / 1000:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        root = (await session.call("DOM.getDocument", depth=0))["root"]["nodeId"]
        dom = await session.call("DOM.getOuterHTML", nodeId=root)
        browser.post("Target.closeTarget", targetId=created["targetId"])
        return len(dom["outerHTML"])


async def measure(way: str, base: str, pages: int) -> Figures:
    async with open_way(way) as (fetch, sessions):
        await fetch_all(fetch, base, AT_ONCE)
        browser, own, began = cpu_of_browsers(sessions()), time.process_time(), time.monotonic()
        await fetch_all(fetch, base, pages)
        took, own = time.monotonic() - began, time.process_time() - own
        browser = cpu_of_browsers(sessions()) - browser
    return Figures(own / pages * 1000, browser / pages * 1000, pages / took)


async def fetch_all(fetch: Fetch, base: str, pages: int) -> None:
    numbers = iter(range(pages))

    async def work() -> None:
        for number in numbers:
            assert await fetch(f"{base}/{number}") > 1000

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())


async def compare(pages: int, rounds: int) -> dict[str, Figures]:
    """Return the figures by way: the medians of rounds in which ways take turns."""
    found: dict[str, list[Figures]] = defaultdict(list)
    async with raw_server(site, host="127.0.0.1") as server:
        for _ in range(rounds):
            for way in (PLAIN, IMPERSONATING, BARE, BROWSER):
                count = pages if way in (BROWSER, BARE) else pages * 20
                found[way].append(await measure(way, server.url("").rstrip("/"), count))
    return {
        way: Figures(*map(statistics.median, zip(*several, strict=True))) for way, several in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.browser")
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found = uvloop.run(compare(options.pages, options.rounds))
    table = Table(
        title=f"CPU per page by level ({options.pages} pages in a browser, {options.rounds} rounds)"
    )
    for column in ("level", "CPU ms", "of it our process", "times plain", "pages/s"):
        table.add_column(column, justify="left" if column == "level" else "right")
    for way, figures in found.items():
        ratio = figures.cpu / found[PLAIN].cpu
        table.add_row(
            way, f"{figures.cpu:.2f}", f"{figures.own:.2f}", f"{ratio:,.0f}", f"{figures.pages_per_s:,.0f}"
        )
    console = Console()
    console.print(table)
    console.print(f"browser / bare CDP loop: {found[BROWSER].cpu / found[BARE].cpu:.2f}")


if __name__ == "__main__":
    main()
