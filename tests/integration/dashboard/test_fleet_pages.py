"""The dashboard on a fleet: every page, and what it says when a part of the fleet fails."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.e2e.command import HASTY, PRIVATE, QUICK, shoal, started
from tests.integration.dashboard.large import Size, fill
from tests.integration.dashboard.measured import SLOWEST_S, MeasuredRequests
from tests.integration.dashboard.pages import PAGES, open_dashboard
from tests.servers.redis import RedisServer, valkey

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop

# The whole size takes minutes to fill: DASHBOARD_SIZE=1000000 (see `make dashboard`).
URLS = int(os.environ.get("DASHBOARD_SIZE", "20000"))
FILTERED = (
    *("hosts?state=resting", "hosts?search=host-1", "dead-letters?class=ip_blocked", "requests?failed=1"),
    *("dead-letters?match=nothing-like-this", "dead-letters?host=host-7.example"),
)
SIZE = Size(urls=URLS, hosts=max(URLS // 100, 50), ended=URLS // 20, logged=URLS)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with valkey(tmp_path / "valkey") as running:
        yield running


@pytest.mark.parametrize("kind", ["folder", "redis"])
async def test_every_page_of_a_large_store_opens_without_a_complaint(
    tmp_path: Path, server: RedisServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = server.dsn if kind == "redis" else str(tmp_path / "store")
    await fill(dsn, SIZE, tmp_path / "archive")
    measured = MeasuredRequests.install(monkeypatch)
    async with open_dashboard(tmp_path, dsn) as shown:
        await shown.page.until("document.querySelectorAll('.stage').length === 5")
        await shown.show("hosts")
        await shown.page.until("document.querySelectorAll('tbody tr').length >= 50")
        measured.clear()  # what comes after the server has read the store for the first time
        for path in (*PAGES, "crawls/big", "hosts/host-2.example", "hosts?sort=failures", *FILTERED):
            await shown.show(path)
        assert f"{SIZE.hosts:,} hosts" in await shown.show("hosts")
        assert "took too long" in await shown.show("dead-letters")
        url = SIZE.url(SIZE.urls - 1)
        await shown.show(f"requests?url={url}")
        await shown.page.until("document.querySelector('.timeline')")
        shown.check()
    print(f"\n{kind}, {SIZE.urls:,} URLs, {SIZE.hosts:,} hosts: {measured.report()}")
    if SIZE.urls >= 1_000_000:
        assert measured.slowest <= 10 * SLOWEST_S  # a busy machine; the printed figure is the finding


async def test_a_store_that_stops_answering_is_named_and_the_picture_returns(
    tmp_path: Path, server: RedisServer
) -> None:
    await fill(server.dsn, Size(urls=200, hosts=5, ended=20, logged=50), tmp_path / "archive")
    async with open_dashboard(tmp_path, server.dsn) as shown:
        await shown.page.until("document.querySelector('.verdict')")
        server.signal(signal.SIGSTOP)
        try:
            await shown.page.until("document.querySelector('.verdict.unavailable')")
            await shown.page.until("document.querySelector('.stage.culprit h3').innerText === 'Frontier'")
            await shown.page.until("document.body.innerText.includes('store unavailable')")
            assert "The store does not answer" in await shown.page.text()
        finally:
            server.signal(signal.SIGCONT)
        await shown.page.until("!document.querySelector('.verdict.unavailable')")
        await shown.page.until("!document.body.innerText.includes('store unavailable')")


async def test_parse_workers_that_are_gone_are_named_until_one_returns(
    tmp_path: Path, server: RedisServer
) -> None:
    env = {**HASTY, **PRIVATE, "SHOAL_STORE": server.dsn}
    with open_shop(Shop(categories=1), latency=0.001) as address:
        options = (*QUICK, "--crawl", "shop", "--out", "items.jsonl")
        ran = await asyncio.to_thread(shoal, "submit", address, *options, cwd=tmp_path, env=env)
        assert ran.code == 0, ran.err
        async with open_dashboard(tmp_path, server.dsn) as shown:
            await shown.page.until("document.body.innerText.includes('no worker is running')")
            with started("worker", "--roles", "fetch", cwd=tmp_path, env=env):
                await shown.page.until(
                    "document.querySelector('.stage.culprit h3').innerText === 'Parse'"
                    " && document.body.innerText.includes('waits for a worker with the role parse')"
                )
                with started("worker", "--roles", "parse,sink", cwd=tmp_path, env=env):
                    await shown.page.until(
                        "document.querySelector('.verdict').innerText === 'Every crawl is finished.'"
                    )
            assert not await shown.page.run("document.querySelector('.stage.culprit')")
            assert "worker" in await shown.show("workers")
