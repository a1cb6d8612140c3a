"""Many pages in a row: neither the browsers nor the process that drives them grow.

The cut takes seconds; `make browser-soak` renders 1,000 pages.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.crash.browser_processes import processes, until_ended
from tests.integration.fetch.test_egress import open_egress
from tests.integration.fetch.test_exits import Names
from tests.site.raw import Peer, RawServer, answer, raw_server

from shoal.fetch.browser.client import BrowserClient
from shoal.fetch.browser.pool import BrowserPool
from shoal.fetch.browser.process_memory import private_memory
from shoal.fetch.http.guard import Guard
from shoal.model.configuration.address_ranges import address_ranges
from shoal.model.limits import FetchLimits
from shoal.model.page import Response
from shoal.model.rendering import Rendering
from shoal.model.settings import BrowserSettings

PAGES = int(os.environ.get("BROWSER_PAGES", "24"))
FULL = PAGES >= 1000
PER_BROWSER = (
    200 if FULL else 12
)  # the last one has rendered half of its pages, as the first when it is looked at
AT_ONCE = 4
# At full size the promise; in the cut, browsers are too young for their memory to have settled.
GROWTH = 1.05 if FULL else 1.25
BODY = "<title>page</title>" + "<p>text</p>" * 200 + "<script>document.body.append('rendered')</script>"


async def site(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(answer(BODY.encode(), headers=(("Content-Type", "text/html"),)))


@asynccontextmanager
async def browsers() -> AsyncIterator[tuple[BrowserClient, RawServer]]:
    guard = Guard(address_ranges(["127.0.0.1/32"]))
    settings = BrowserSettings(browser_pages=PER_BROWSER, context_pages=10, page_s=60.0)
    async with (
        raw_server(site, host="127.0.0.1") as server,
        BrowserPool.open(settings) as pool,
        open_egress(guard=guard, passes=pool.passes, within_s=3600.0) as egress,
        BrowserClient.open(pool, egress, Names(), guard, rendering=Rendering(idle_ms=0)) as client,
    ):
        yield client, server


async def render(client: BrowserClient, server: RawServer, count: int) -> None:
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            page = await client.fetch(server.url(f"/{number}"), limits=FetchLimits())
            assert isinstance(page, Response), page
            assert b"rendered</body>" in page.body

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())


async def at_rest(client: BrowserClient, profiles: Path) -> tuple[int, int]:
    """Return processes and memory of the browsers, once pages that were closed have ended.

    Only memory that they share with no other process: their share of the program itself is 77 MiB or 25, as the
    browsers of other tests run beside them or not.
    """
    sizes: list[tuple[int, int]] = []
    async with asyncio.timeout(120):
        while len(sizes) < 10 or len(set(sizes[-5:])) > 1:
            await asyncio.sleep(0.3)
            found = [one.pid for one in processes(profiles)]
            sizes.append((len(found), sum(map(private_memory, found)) >> 22))
            if len(sizes) > 40:
                break
    count, memory = min(sizes[-10:])
    return count, memory << 22


@pytest.mark.timeout(3600)
async def test_after_many_pages_a_browser_uses_what_it_used_at_first(
    profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared at the same age: a browser that has rendered half of its pages, the first and a later one."""
    monkeypatch.setattr(tempfile, "tempdir", str(profiles))
    async with browsers() as (client, server):
        await render(client, server, PER_BROWSER // 2)
        before = await at_rest(client, profiles)
        own_before = private_memory(os.getpid())
        await render(client, server, PAGES)
        after = await at_rest(client, profiles)
        own_after = private_memory(os.getpid())
        print(
            f"{PAGES} pages: processes {before[0]} -> {after[0]}, browsers {before[1] >> 20} -> {after[1] >> 20} MiB,"
            f" own {own_before >> 20} -> {own_after >> 20} MiB"
        )
        assert 0 < after[0] <= before[0] + (0 if FULL else 1)
        assert after[1] <= before[1] * GROWTH
        assert own_after <= own_before * GROWTH + (8 << 20)
    await until_ended(profiles)
