"""Crawls from a Python program: `shoal.run`, `shoal.arun` and `shoal.stream` in a test, on every kind of store."""

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import PAGES, shoal
from tests.servers.redis import valkey

from shoal import Page, Spider, arun, errors, run, stream

QUICK: dict[str, Any] = {"allow_private": True, "rate": 0.0, "per_host": 16}
HASTY = {"retry.base": 0.01}


@dataclass
class Titled:
    url: str
    title: str


def shop_spider(address: str) -> Spider:
    """Return a spider that only this function knows: no process could load it from a file."""
    spider = Spider("shop", start=address)

    @spider.page(item=Titled)
    def any_page(page: Page) -> Iterator[object]:
        yield {"url": page.url, "title": page.css("title::text").get()}
        yield page.links()

    return spider


SPIDER_FILE = """
import shoal

spider = shoal.Spider("shop", start={start!r})


@spider.page()
def any_page(page):
    yield {{"url": page.url, "title": page.css("title::text").get()}}
    yield page.links()
"""


def spider_for(store: str, address: str) -> Spider | str:
    """Return a spider of this program, or a file with the same one where the store is shared."""
    if not store.startswith("redis"):
        return shop_spider(address)
    Path("shop.py").write_text(SPIDER_FILE.format(start=address))
    return "shop.py"


@pytest.fixture(params=["folder", "redis"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    """Yield the address of a store that outlives a crawl."""
    monkeypatch.chdir(tmp_path)
    if request.param == "redis":
        async with valkey(tmp_path / "server") as server:
            yield server.dsn
    else:
        yield str(tmp_path / "data")


async def test_run_returns_every_item_once_also_while_a_loop_runs(store: str, shop: str) -> None:
    check_run(shop, store)


def test_run_in_memory_returns_every_item_once(shop: str) -> None:
    check_run(shop, "memory:")


def check_run(shop: str, store: str) -> None:
    result = run(spider_for(store, shop), store=store, settings=HASTY, **QUICK)

    assert len({item["url"] for item in result.items}) == len(result.items) == PAGES
    assert all(item["title"] for item in result.items)
    assert (result.finished, result.ending, result.counts["done"], result.why_empty) == (
        True,
        "finished",
        PAGES + 1,
        "",
    )
    assert result.failures == {"target_error": 1}  # one page fails the first time
    assert result.summary["items"] == PAGES


async def test_a_stream_that_was_left_continues_after_its_last_item(store: str, shop: str) -> None:
    urls = []
    async with aclosing(
        aiter(stream(spider_for(store, shop), store=store, settings=HASTY, **QUICK))
    ) as items:
        async for item in items:
            urls.append(item["url"])
            if len(urls) == 5:
                break
    rest = stream(spider_for(store, shop), store=store, settings=HASTY, **QUICK)
    urls += [item["url"] async for item in rest]

    assert len(set(urls)) == len(urls) == PAGES
    assert rest.result.finished


def test_a_stream_without_a_loop_has_the_same_items(shop: str) -> None:
    with stream(shop_spider(shop), settings=HASTY, **QUICK) as items:
        urls = [item["url"] for item in items]

    assert len(set(urls)) == len(urls) == PAGES
    assert items.result.counts["done"] == PAGES + 1
    with pytest.raises(errors.Misconfigured, match="read once"):
        next(iter(items))


async def test_a_consumer_that_stops_taking_items_stops_the_crawl(shop: str, tmp_path: Path) -> None:
    items = stream(
        shop_spider(shop), store=tmp_path / "data", buffer=3, concurrency=1, settings=HASTY, **QUICK
    )
    taken = aiter(items)
    await anext(taken)
    written = tmp_path / "data/items/shop.jsonl"
    lines = 0
    while (now := len(written.read_text().splitlines())) != lines:
        lines = now
        await asyncio.sleep(1.5)  # longer than the feed sleeps when it may not lease

    # One page at a time: what a batch of leases had begun is finished, and the rest waits.
    assert lines < PAGES
    assert 1 + len([item async for item in taken]) == PAGES


async def test_cancelling_stops_the_crawl_and_the_next_call_resumes_it(shop: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"store": tmp_path / "data", "settings": HASTY, "allow_private": True}
    running = asyncio.create_task(arun(shop_spider(shop), rate=10.0, **settings))
    log = tmp_path / "data/items/shop.jsonl"
    while not log.exists() or not log.read_text():  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert 0 < len(log.read_text().splitlines()) < PAGES

    result = await arun(shop_spider(shop), rate=0.0, per_host=16, **settings)

    assert result.summary["resumed"]
    assert len({item["url"] for item in result.items}) == len(result.items) == PAGES


async def test_a_shared_store_takes_spiders_from_files_only(shop: str, tmp_path: Path) -> None:
    """Loading a pickle runs code: what a store holds is never loaded so."""
    async with valkey(tmp_path / "server") as server:
        with pytest.raises(errors.Misconfigured, match=r"part of this program.*shoal\.run\('spider\.py'"):
            await arun(shop_spider(shop), store=server.dsn, **QUICK)
        assert shoal("status", "--store", server.dsn, "--json", cwd=tmp_path).json["crawls"] == []


def own_threads() -> set[threading.Thread]:
    """Return the threads of this process, but for one that pycares starts once and keeps."""
    return {thread for thread in threading.enumerate() if "_run_safe_shutdown_loop" not in thread.name}


def test_signals_logging_and_threads_are_the_callers(shop: str) -> None:
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    handlers = [*logging.getLogger().handlers], [*logging.getLogger("shoal").handlers]
    level = logging.getLogger("shoal").level
    threads = own_threads()

    run(shop_spider(shop), settings=HASTY, **QUICK)

    assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before
    assert ([*logging.getLogger().handlers], [*logging.getLogger("shoal").handlers]) == handlers
    assert (logging.getLogger("shoal").level, own_threads()) == (level, threads)


def test_items_become_tables(shop: str, tmp_path: Path) -> None:
    result = run(shop_spider(shop), out=tmp_path / "items.csv", settings=HASTY, **QUICK)

    assert result.to_pandas().shape == (PAGES, 2)
    assert result.to_polars().shape == (PAGES, 2)
    assert result.to_arrow().column_names == ["url", "title"]
    assert result.outputs == (str(tmp_path / "items.csv"),)
    assert len((tmp_path / "items.csv").read_text().splitlines()) == PAGES + 1


def test_a_crawl_without_a_page_says_why() -> None:
    result = run("http://127.0.0.1:9/", allow_private=True, settings={"retry.max_retries": 0})

    assert result.items == []
    assert result.why_empty.startswith("no page was fetched: http://127.0.0.1:9/: ")


def test_errors_say_what_to_change(tmp_path: Path) -> None:
    spider = Spider("broken", start="http://127.0.0.1:9/")
    opened = threading.Lock()

    @spider.page()
    def page(page: Page) -> Iterator[object]:
        yield {"locked": opened.locked()}

    for arguments, text in (
        ({"max_page": 3}, "unknown option 'max_page'; did you mean 'max_pages'?"),
        ({"settings": {"retry.max": 3}}, "settings: unknown key 'retry.max'"),
        ({"max_pages": "many"}, "max_pages: must be a whole number"),
        ({"start": "ftp://a.test/"}, "start: not an http"),
        ({}, "spider 'broken': handler 'page' uses something that cannot be sent to a parse process"),
    ):
        with pytest.raises(errors.Misconfigured, match=text.replace("?", r"\?")):
            run(spider, **arguments)
    with pytest.raises(errors.Misconfigured, match="no such spider file"):
        run(tmp_path / "none.py")
    with pytest.raises(errors.Misconfigured, match="has no handler"):
        run(Spider("empty"))
