"""Totals beside the frontier (links filtered, items rejected) are exact through kills and second runs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.adversary.size import sized
from tests.e2e.command import shoal
from tests.fleet_crawl import Fleet
from tests.graph_crawl import GraphCrawl, Moment, serving_graph
from tests.servers.redis import SYNCED, RedisServer, valkey
from tests.site.graph import Shape

SPIDER = """
import msgspec, shoal

class Page(msgspec.Struct):
    url: str
    even: int

spider = shoal.Spider("graph", follow=".*")

@spider.page(item=Page)
def page(page):
    yield {"url": page.url, "even": 2 if len(page.body) % 2 else "odd"}
    yield from page.links("a")
"""
SHAPE = Shape(seed=21, pages=sized(200, full=1500), hosts=3, gone=3)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with valkey(tmp_path / "server", *SYNCED) as running:
        yield running


def totals(crawl: dict[str, Any]) -> dict[str, object]:
    return {name: crawl[name] for name in ("links_filtered_by_rule", "rejected", "withheld", "hook_faults")}


OPTIONS = ("--same-host", "--rate", "30", "--per-host", "2")
SERVED = 20  # pages before the kill


async def test_a_fleet_counts_what_one_uninterrupted_run_counts(server: RedisServer, tmp_path: Path) -> None:
    spider = tmp_path / "graph.py"
    spider.write_text(SPIDER)
    for name in ("whole", "killed", "fleet"):
        (tmp_path / name).mkdir()
    async with serving_graph(SHAPE) as (_, graph):
        quiet = ("--allow-private", "--quiet", "--out", "items.jsonl")
        ran = shoal("crawl", str(spider), graph.start, *quiet, *OPTIONS, cwd=tmp_path / "whole")
        assert ran.code == 0, ran.err
        [whole] = shoal("status", "--json", cwd=tmp_path / "whole").json["crawls"]
        assert whole["links_filtered_by_rule"]["scope"] > 0
        assert 0 < whole["rejected"] < whole["counts"]["done"]

    async with serving_graph(SHAPE) as (site, graph):
        folder = GraphCrawl(graph.start, tmp_path / "killed", options=OPTIONS, spider=spider)
        assert await folder.run_and_kill(site, Moment(SERVED))
        assert folder.run().code == 0
        [killed] = shoal("status", "--store", "store", "--json", cwd=tmp_path / "killed").json["crawls"]

    async with serving_graph(SHAPE) as (site, graph):
        with Fleet(server.dsn, tmp_path / "fleet") as fleet:
            submitted = fleet.submit(graph.start, *OPTIONS, spider=spider)
            assert submitted.code == 0, submitted.err
            first = fleet.start("--until-done")
            await fleet.until_served(site, SERVED)
            fleet.kill(first)
            assert await fleet.ended(fleet.start("--until-done")) == 0, fleet.logs()
            [counted] = fleet.status()["crawls"]

    assert totals(killed) == totals(whole)
    assert totals(counted) == totals(whole)
