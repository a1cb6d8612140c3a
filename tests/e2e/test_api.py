"""A crawl from submission to deletion over HTTP, in a folder and in a fleet."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import DONE, HASTY, PAGES, PRIVATE, started
from tests.integration.server.running import RunningServer, running_server
from tests.servers.redis import valkey

from shoal.model.api.roles import Role
from shoal.model.settings import CrawlSettings, Settings

SPIDER = """
import shoal

spider = shoal.Spider("titles", start=["{shop}"], follow=".")


@spider.page()
def page(page):
    yield {{"url": page.url, "title": page.css("title::text").get()}}
    yield from page.links("a")
"""


@asynccontextmanager
async def in_folder(folder: Path) -> AsyncIterator[str]:
    yield str(folder / "store")


@asynccontextmanager
async def in_fleet(folder: Path) -> AsyncIterator[str]:
    async with valkey(folder / "valkey") as server:
        with started("worker", "--store", server.dsn, cwd=folder, env={**HASTY, **PRIVATE}):
            yield server.dsn


@pytest.fixture(params=[in_folder, in_fleet], ids=["folder", "fleet"])
async def server(
    request: pytest.FixtureRequest, tmp_path: Path, shop: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunningServer]:
    monkeypatch.setenv("SHOAL_RETRY_BASE", "0.01")
    monkeypatch.chdir(tmp_path)  # where the worker archives pages
    (tmp_path / "spiders").mkdir()
    (tmp_path / "spiders" / "titles.py").write_text(SPIDER.format(shop=shop))
    (tmp_path / "secret.py").write_text("raise SystemExit")
    async with request.param(tmp_path) as store:
        settings = Settings(store=store, crawl=CrawlSettings(allow_private=True))
        async with running_server(
            tmp_path, settings=settings, spiders=tmp_path / "spiders", outputs=str(tmp_path)
        ) as running:
            yield running


async def finished(server: RunningServer, crawl: str) -> dict[str, Any]:
    """Wait until a crawl has no work left."""
    async with asyncio.timeout(90):
        while True:
            found = (await server.send("GET", f"/api/v1/crawls/{crawl}")).json()
            counts, stages = found["counts"], found["stages"]
            left = sum(counts[state] for state in ("waiting", "delayed", "leased", "parsing"))
            unwritten = stages["sink"]["waiting"] if stages else 0
            owner = (await server.send("GET", "/api/v1/workers")).json()["owner"]
            if counts["done"] and not left and not unwritten and (stages or owner is None):
                return found  # type: ignore[no-any-return]
            await asyncio.sleep(0.1)


async def all_pages(server: RunningServer, path: str, name: str) -> list[Any]:
    """Follow the cursors of a list to its end."""
    found: list[Any] = []
    cursor = ""
    while True:
        reply = await server.send("GET", f"{path}{'&' if '?' in path else '?'}cursor={cursor}")
        assert reply.status == 200, reply.body
        found += reply.json()[name]
        cursor = reply.json()["next_cursor"]
        if cursor is None:
            return found


async def traced_states(server: RunningServer, url: str) -> list[str]:
    traces = (await server.send("GET", f"/api/v1/trace?url={url}")).json()["traces"]
    return [one["state"] for one in traces]


async def test_a_crawl_from_submission_to_deletion(server: RunningServer, shop: str) -> None:
    submission = {
        "urls": [shop, "not a url", shop, "http://[::1"],
        "name": "books",
        "rate": 0,
        "per_host": 16,
        "fields": {"title": "title"},
        "outputs": ["books.jsonl"],
    }
    key = {"Idempotency-Key": "submit-1"}
    reply = await server.send("POST", "/api/v1/crawls", role=Role.OPERATE, body=submission, headers=key)
    assert reply.status == 201, reply.body
    submitted = reply.json()
    assert (submitted["crawl"], submitted["accepted"], submitted["refused"]) == ("books", 1, 3)
    assert [one["accepted"] for one in submitted["verdicts"]] == [True, False, False, False]
    again = await server.send("POST", "/api/v1/crawls", role=Role.OPERATE, body=submission, headers=key)
    assert (again.status, again.json()) == (201, submitted)
    assert again.headers["idempotency-replayed"] == "true"
    other = {**submission, "rate": 1}
    reused = await server.send("POST", "/api/v1/crawls", role=Role.OPERATE, body=other, headers=key)
    assert reused.json()["code"] == "key_reused"

    done = await finished(server, "books")
    assert done["counts"]["done"] == DONE

    items = await all_pages(server, "/api/v1/crawls/books/items?limit=7", "items")
    assert len(items) == PAGES
    assert len({item["url"] for item in items}) == PAGES
    newest = await all_pages(server, "/api/v1/crawls/books/items?limit=7&newest=true", "items")
    assert newest == items[::-1]
    wanted = items[10]["url"]
    found = await all_pages(server, f"/api/v1/crawls/books/items?contains={wanted}&limit=50", "items")
    assert [item for item in items if wanted in item["url"]] == found
    download = await server.send("GET", "/api/v1/crawls/books/download")
    assert download.body.count(b"\n") == PAGES
    table = await server.send("GET", "/api/v1/crawls/books/download?format=csv")
    assert (table.status, table.body.splitlines()[0]) == (200, b"url,title")

    urls = await all_pages(server, "/api/v1/crawls/books/urls?state=done&limit=20", "urls")
    assert len(urls) == DONE
    async with asyncio.timeout(30):  # in a fleet, the worker writes its fetch log after the last page
        while (await traced_states(server, wanted)) != ["done"]:  # noqa: ASYNC110 - the server says when
            await asyncio.sleep(0.1)
    missing = await server.send("GET", "/api/v1/trace?url=http://127.0.0.1/nowhere")
    assert missing.status == 404

    verified = (await server.send("GET", "/api/v1/verify?crawl=books")).json()
    assert verified["verified"], verified
    forecast = (await server.send("GET", "/api/v1/plan?pages=7200&rate=2&hosts=1")).json()["plan"]
    assert forecast["drain_s"] == 3600.0

    compared = await server.send("GET", "/api/v1/crawls/books/diff")
    assert compared.status in (200, 422), compared.body  # it has one generation: nothing to compare with
    assert compared.status == 200 or "generation" in compared.json()["detail"]

    letters = await all_pages(server, "/api/v1/dead-letters?limit=1", "dead_letters")
    assert len(letters) == done["counts"]["dead"]
    if letters:
        one = await server.send("GET", f"/api/v1/dead-letters/{letters[0]['trace']}")
        assert one.json()["dead_letters"] == [letters[0]]

    deleted = await server.send("DELETE", "/api/v1/crawls/books")
    async with asyncio.timeout(60):
        while deleted.status in (409, 503):  # a process still works on it
            await asyncio.sleep(0.2)
            deleted = await server.send("DELETE", "/api/v1/crawls/books")
    assert deleted.status == 200, deleted.body
    assert deleted.json()["forgotten"] == "books"
    assert (await server.send("GET", "/api/v1/crawls/books")).status == 404


async def test_a_spider_is_submitted_by_name_and_nothing_else_is_run(server: RunningServer) -> None:
    for spider in ("missing.py", "../secret.py", "/etc/passwd", "titles", "titles.py:", "os:system"):
        reply = await server.send("POST", "/api/v1/crawls", body={"spider": spider})
        assert reply.status in (400, 422), spider
    reply = await server.send("POST", "/api/v1/crawls", body={"spider": "titles.py", "rate": 0})
    assert reply.status == 201, reply.body
    assert reply.json()["crawl"] == "titles"
    assert (await finished(server, "titles"))["counts"]["done"] > 10


async def test_a_running_crawl_is_steered(server: RunningServer, shop: str) -> None:
    host = shop.split("/")[2]
    reply = await server.send("POST", "/api/v1/crawls", body={"urls": [shop], "name": "slow", "rate": 0.5})
    assert reply.status == 201, reply.body
    paused = await server.send("POST", "/api/v1/crawls/slow/pause", role=Role.OPERATE)
    assert paused.json() == {"crawls": ["slow"], "paused": True}
    assert (await server.send("GET", "/api/v1/crawls/slow")).json()["paused"] is True
    changed = await server.send("PATCH", f"/api/v1/hosts/{host}", body={"rate": 100.0, "concurrency": 8})
    assert (changed.json()["interval"], changed.json()["concurrency"]) == (0.01, 8)
    seeds = [f"{shop}?seed={n}" for n in range(50)]
    added = await server.send("POST", "/api/v1/crawls/slow/seeds", body={"urls": [*seeds, "ftp://x/"]})
    assert added.status == 200, added.body
    assert (added.json()["accepted"], added.json()["added"], added.json()["refused"]) == (50, 50, 1)
    again = await server.send("POST", "/api/v1/crawls/slow/seeds", body={"urls": seeds})
    assert again.json()["added"] == 0
    busy = await server.send("POST", "/api/v1/scrape", body={"url": shop})
    assert (busy.status, busy.json()["code"]) == (409, "host_busy")
    refreshed = await server.send("POST", f"/api/v1/hosts/{host}/refresh-robots")
    assert refreshed.json() == {"host": host, "refreshed": True}
    level = f"/api/v1/hosts/{host}/level"
    assert (await server.send("PUT", level, body={"level": "plain"})).json()["set"] == "plain"
    assert (await server.send("GET", level)).json()["set"] == "plain"
    assert (await server.send("DELETE", level)).json() == {"set": None, "patterns": {}}
    held = await server.send("POST", "/api/v1/pause", role=Role.OPERATE)
    assert held.json() == {"crawls": ["slow"], "paused": True}
    assert (await server.send("POST", "/api/v1/resume")).json() == {"crawls": ["slow"], "paused": False}
    reset = await server.send("PATCH", f"/api/v1/hosts/{host}", body={"reset": True})
    assert reset.json()["interval"] == 2.0
    assert (await server.send("POST", "/api/v1/crawls/slow/resume")).json()["paused"] is False


async def test_schedules_and_exits(server: RunningServer, shop: str) -> None:
    schedule: dict[str, Any] = {
        "name": "nightly",
        "cron": "0 3 * * *",
        "crawl": {"urls": [shop], "max_pages": 5},
    }
    bad = {**schedule, "again": False, "adaptive": True}
    assert "needs --again" in (await server.send("POST", "/api/v1/schedules", body=bad)).json()["detail"]
    schedule |= {"again": True, "adaptive": True, "budget": 5000}
    assert (await server.send("POST", "/api/v1/schedules", body=schedule)).status == 201
    assert (await server.send("POST", "/api/v1/schedules", body=schedule)).status == 422
    [known] = (await server.send("GET", "/api/v1/schedules")).json()["schedules"]
    assert known["arguments"] == ["--max-pages=5", "--", shop]
    assert (known["again"], known["adaptive"], known["budget"]) == (True, True, 5000.0)
    paused = await server.send("POST", "/api/v1/schedules/nightly/pause", role=Role.OPERATE)
    assert paused.json()["paused"] is True
    assert (await server.send("DELETE", "/api/v1/schedules/nightly")).json()["removed"] is True
    assert (await server.send("GET", "/api/v1/schedules")).json() == {"schedules": []}
    assert (await server.send("GET", "/api/v1/exits")).json() == {"exits": []}
