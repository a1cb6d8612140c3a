"""Pools: requests go to the fetcher of their pool, on a folder and in a fleet, and none waits without notice."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import HASTY, QUICK, records, shoal
from tests.fleet_crawl import Fleet
from tests.plugins import install_plugin
from tests.servers.redis import SYNCED, RedisServer, valkey
from tests.site.server import ServedSite
from tests.site.written import Sheet, serving_written

SPIDER = """
import shoal

spider = shoal.Spider("pools")

@spider.page(r"/$")
def front(page):
    yield {{"url": page.url, "rendered": page.css("b::text").get()}}
    yield from page.links(".plain")
    yield from page.links(".other", pool={pool!r})

@spider.page()
def leaf(page):
    yield {{"url": page.url, "rendered": page.css("b::text").get()}}
"""

# A fetcher that "renders" a page: the built-in client, and a mark in the body.
BOTH_STORES = pytest.mark.parametrize("shared", [False, True], ids=["folder", "redis"])
FETCHER = """
from contextlib import asynccontextmanager

import msgspec


class RenderingClient:
    def __init__(self, client):
        self._client = client

    async def fetch(self, url, **options):
        answer = await self._client.fetch(url, **options)
        if hasattr(answer, "body"):
            body = answer.body + b"<b>rendered</b>"
            answer = msgspec.structs.replace(answer, body=body, wire=body)
        return answer


@asynccontextmanager
async def open_fetcher(context):
    yield context.fetcher(RenderingClient(context.client))
"""

FRONT = Sheet('<a class="plain" href="/plain">p</a><a class="other" href="/other">o</a>')


@pytest.fixture
async def site() -> AsyncIterator[ServedSite]:
    async with serving_written({"/": FRONT, "/plain": Sheet("<p>"), "/other": Sheet("<p>")}) as site:
        yield site


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with valkey(tmp_path / "server", *SYNCED) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def plugin(tmp_path: Path) -> dict[str, str]:
    """Install a fetcher for the pool `rendered`; return the environment of commands that should find it."""
    entry_points = {"shoal.fetchers": {"rendered": "renderer:open_fetcher"}}
    path = install_plugin(tmp_path / "plugin", "shoal-renderer", {"renderer.py": FETCHER}, entry_points)
    return {"PYTHONPATH": str(path)}


def spider(folder: Path, pool: str) -> Path:
    path = folder / "pools.py"
    path.write_text(SPIDER.format(pool=pool))
    return path


def crawl(folder: Path, site: ServedSite, pool: str, env: dict[str, str], *options: str) -> Any:
    arguments = ("crawl", str(spider(folder, pool)), f"http://{site.authorities[0]}/", *QUICK)
    return shoal(*arguments, "--out", "items.jsonl", "--json", *options, cwd=folder, env={**HASTY, **env})


def store_option(server: RedisServer, shared: bool) -> tuple[str, ...]:
    return ("--store", server.dsn) if shared else ()


def rendered(folder: Path) -> dict[str, str | None]:
    """Return the path of every item, and whether the plug-in has fetched it."""
    return {"/" + item["url"].rsplit("/", 1)[1]: item["rendered"] for item in records(folder / "items.jsonl")}


@BOTH_STORES
async def test_a_third_party_fetcher_serves_its_pool(
    shared: bool, server: RedisServer, folder: Path, site: ServedSite, plugin: dict[str, str]
) -> None:
    ran = crawl(folder, site, "rendered", plugin, *store_option(server, shared))

    assert ran.code == 0, ran.err
    assert rendered(folder) == {"/": None, "/plain": None, "/other": "rendered"}


@BOTH_STORES
async def test_a_user_made_http_pool_is_served_by_the_http_fetcher(
    shared: bool, server: RedisServer, folder: Path, site: ServedSite
) -> None:
    ran = crawl(folder, site, "http-eu", {}, *store_option(server, shared))

    assert ran.code == 0, ran.err
    assert rendered(folder) == {"/": None, "/plain": None, "/other": None}


@BOTH_STORES
async def test_a_page_that_asks_for_a_pool_without_a_fetcher_ends_as_a_parse_error(
    shared: bool, server: RedisServer, folder: Path, site: ServedSite
) -> None:
    ran = crawl(folder, site, "unknown", {}, "--max-dead", "0", *store_option(server, shared))

    assert ran.code == 2, ran.err
    assert ran.json["dead_by_class"] == {"parse_error": 1}
    letters = shoal("dlq", "list", *store_option(server, shared), cwd=folder).out
    assert (
        "spider 'pools': no fetcher on this machine serves the pool 'unknown'; known pools: http" in letters
    )


@BOTH_STORES
async def test_a_seed_of_a_pool_without_a_fetcher_is_refused_at_the_start(
    shared: bool, server: RedisServer, folder: Path
) -> None:
    path = folder / "seeds.py"
    path.write_text(
        "import shoal\n"
        'start = [shoal.Request(url="http://127.0.0.1:1/", pool="unknown")]\n'
        'spider = shoal.Spider("seeds", start=start)\n'
        "@spider.page()\n"
        "def page(page):\n"
        "    yield {}\n"
    )
    ran = shoal("crawl", str(path), *QUICK, "--quiet", *store_option(server, shared), cwd=folder)

    assert ran.code == 1
    assert "spider 'seeds': start: no fetcher on this machine serves the pool 'unknown'" in ran.complaint


@BOTH_STORES
async def test_a_queued_request_of_a_pool_without_a_fetcher_is_found_on_resume(
    shared: bool, server: RedisServer, folder: Path, site: ServedSite, plugin: dict[str, str]
) -> None:
    store = store_option(server, shared)
    cut_short = crawl(folder, site, "rendered", plugin, "--max-pages", "1", *store)
    assert cut_short.code == 0, cut_short.err

    ran = crawl(folder, site, "rendered", {}, *store)

    assert ran.code == 1
    assert "serves the pool 'rendered'; known pools: http" in ran.complaint
    assert ". Install the fetcher of that pool" in ran.complaint


async def test_a_worker_refuses_a_pool_that_it_cannot_serve(server: RedisServer, folder: Path) -> None:
    ran = shoal("worker", "--store", server.dsn, "--pools", "http,unknown", "--quiet", cwd=folder)

    assert ran.code == 1
    assert "no fetcher on this machine serves the pool 'unknown'; known: http" in ran.complaint
    assert "--pools http" in ran.complaint


async def test_a_fleet_reports_a_pool_that_no_worker_serves_until_one_does(
    server: RedisServer, folder: Path, site: ServedSite, plugin: dict[str, str]
) -> None:
    with Fleet(server.dsn, folder, settings=plugin) as fleet:
        submitted = fleet.submit(f"http://{site.authorities[0]}/", spider=spider(folder, "rendered"))
        assert submitted.code == 0, submitted.err
        plain = fleet.start("--until-done")
        async with asyncio.timeout(60):
            while "pool.unserved" not in fleet.logs():  # noqa: ASYNC110 (another process)
                await asyncio.sleep(0.2)
        status = fleet.status()
        assert [hold["kind"] for hold in status["bottlenecks"]] == ["pool"]
        assert "has 1 request in the pool rendered" in status["bottlenecks"][0]["text"]

        other = fleet.start("--until-done", "--pools", "rendered,http-eu")
        assert [await fleet.ended(worker) for worker in (plain, other)] == [0, 0], fleet.logs()

    assert fleet.logs().count("pool.unserved") == 1
    assert rendered(folder) == {"/": None, "/plain": None, "/other": "rendered"}
