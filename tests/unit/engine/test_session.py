"""The wiring of a crawl on a folder: what is open while it runs, and what a plan that cannot work leaves behind."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from shoal.engine.embedded import Embedded, EmbeddedPageQuota
from shoal.engine.fetchers import PoolFetchers
from shoal.engine.plan import CrawlPlan, Stop
from shoal.engine.session import open_session
from shoal.engine.stations import Stations
from shoal.fetch.fetcher import HttpFetcher
from shoal.model.errors import Misconfigured
from shoal.model.settings import CrawlSettings, Settings
from shoal.spider.source import SpiderFile
from shoal.stores.open import open_store

SPIDER = """
import shoal

spider = shoal.Spider("shop", start=[{start}], concurrency=3)

@spider.page()
def page(page):
    yield {{"url": page.url}}
"""
SEED = '"http://a.test/"'


def plan(folder: Path, start: str = SEED, **crawl: object) -> CrawlPlan:
    path = folder / "shop.py"
    path.write_text(SPIDER.format(start=start))
    settings = Settings(store=str(folder / "store"), crawl=replace(CrawlSettings(procs=1), **crawl))  # type: ignore[arg-type]
    return CrawlPlan(SpiderFile(path=str(path)), settings)


@asynccontextmanager
async def session(planned: CrawlPlan) -> AsyncIterator[Stations]:
    async with (
        open_store(planned.settings.store, create=True) as store,
        open_session(Embedded(planned, store, Stop())) as stations,
    ):
        yield stations


async def test_a_session_opens_the_crawl_with_its_seeds_and_the_spiders_options(tmp_path: Path) -> None:
    async with session(plan(tmp_path)) as stations:
        assert (stations.crawl, stations.resumed, stations.version) == ("shop", False, 1)
        assert stations.settings.crawl.concurrency == 3
        assert stations.scope.hosts == frozenset({"a.test"})
        assert stations.share.pools.names[0] == "http"
        assert isinstance(stations.fetcher, HttpFetcher | PoolFetchers)  # with a browser, if one is installed
        assert stations.quota is None
        assert (await stations.frontier.reader.counts("shop")).waiting == 1
        assert stations.locations.outputs == (str(tmp_path / "store" / "items" / "shop.jsonl"),)

    async with session(plan(tmp_path)) as stations:
        assert stations.resumed
        assert (await stations.frontier.reader.counts("shop")).waiting == 1


async def test_options_of_the_user_beat_those_of_the_spider(tmp_path: Path) -> None:
    chosen = replace(plan(tmp_path, concurrency=7, max_pages=5), overrides=frozenset({"concurrency"}))
    async with session(chosen) as stations:
        assert stations.settings.crawl.concurrency == 7
        assert isinstance(stations.quota, EmbeddedPageQuota)


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ('shoal.Request(url="http://a.test/", pool="gopher")', "serves the pool 'gopher'"),
        ('"ftp://a.test/"', r"not an http"),
        ("", "has nowhere to start"),
    ],
)
async def test_a_plan_that_cannot_work_writes_nothing(tmp_path: Path, start: str, reason: str) -> None:
    with pytest.raises(Misconfigured, match=reason):
        async with session(plan(tmp_path, start)):
            pass

    assert not (tmp_path / "store").exists()


async def test_an_output_that_cannot_be_written_leaves_the_archive_untouched(tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text("not of this crawl\n")
    chosen = replace(plan(tmp_path), outputs=(str(tmp_path / "items.jsonl"),))

    with pytest.raises(Misconfigured):
        async with session(chosen):
            pass

    assert not list((tmp_path / "store").glob("archive/**/*.warc*"))
