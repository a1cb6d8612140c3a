"""Hooks for requests that fail: what they yield is stored with the request's end, once, whatever happens."""

from collections import Counter
from pathlib import Path

import pytest
from tests.e2e.command import QUICK, records, shoal
from tests.graph_crawl import GraphCrawl, Moment, assert_same
from tests.site.written import Sheet, serving_written

SPIDER = Path(__file__).parents[1] / "spiders" / "hooks.py"
PAIRS = 150


def linking(*paths: str) -> Sheet:
    return Sheet("".join(f'<a href="{path}">{path}</a>' for path in paths))


async def test_a_hook_is_told_what_failed_and_what_it_yields_is_kept(tmp_path: Path) -> None:
    sheets = {
        "/": linking("/teapot", "/missing", "/broken", "/fails"),
        "/teapot": Sheet(status=418),
        "/teapot/mirror": Sheet("the same, elsewhere"),
        "/broken": Sheet("a page that its handler cannot take"),
        "/fails": Sheet(status=500),
    }
    async with serving_written(sheets) as site:
        start = f"http://{site.authorities[0]}/"
        crawl = ("crawl", str(SPIDER), start, *QUICK, "--out", "items.jsonl", "--json")
        ran = shoal(*crawl, cwd=tmp_path, env={"SHOAL_RETRY_MAX_RETRIES": "1", "SHOAL_RETRY_BASE": "0.01"})

    assert ran.code == 0, ran.err
    items = {item["url"].removeprefix(start): item for item in records(tmp_path / "items.jsonl")}
    told = {
        path: (item["kind"], item["status"], item["attempts"], item["found_on"])
        for path, item in items.items()
        if item["kind"] != "page"
    }
    assert told == {
        "teapot": ("http_error", 418, 1, start),
        "missing": ("gone", 404, 1, start),
        "broken": ("parse_error", 200, 1, start),
        "fails": ("target_error", 500, 2, start),
    }
    assert items["broken"]["reason"].startswith("ValueError: no price")
    assert items["teapot/mirror"]["kind"] == "page"
    counts = ran.json["counts"]
    assert (counts["done"], counts["gone"], counts["dead"]) == (2, 1, 3)
    assert (ran.json["items"], ran.json["hook_faults"]) == (6, 0)
    verified = shoal("verify", cwd=tmp_path)
    assert verified.code == 0, verified.out
    refused = shoal("reparse", str(SPIDER), "--diff", cwd=tmp_path)
    assert "4 items of crawl 'hooks' were made by on_error hooks" in refused.complaint


async def test_a_hook_that_raises_or_hangs_loses_nothing(tmp_path: Path) -> None:
    sheets = {"/": linking("/raises", "/hangs", "/missing")}
    async with serving_written(sheets) as site:
        start = f"http://{site.authorities[0]}/"
        crawl = ("crawl", str(SPIDER), start, *QUICK, "--out", "items.jsonl")
        ran = shoal(*crawl, cwd=tmp_path, env={"SHOAL_PARSE_WALL": "1.5"})

    assert ran.code == 0, ran.err
    assert sorted(item["kind"] for item in records(tmp_path / "items.jsonl")) == ["gone", "page"]
    assert "on_error failed 2 times" in ran.out
    assert "hook.failed" in ran.err
    assert "a hook of mine" in ran.err
    [status] = shoal("status", "--json", cwd=tmp_path).json["crawls"]
    assert (status["counts"]["gone"], status["hook_faults"]) == (3, 2)
    assert "on_error hooks that failed in hooks: 2" in shoal("status", cwd=tmp_path).out


@pytest.mark.slow
async def test_after_kills_every_failed_request_has_its_hook_s_item_once(tmp_path: Path) -> None:
    sheets = {f"/{n}": linking(f"/{n + 1}", f"/{n}/teapot") for n in range(PAIRS)}
    sheets |= {f"/{n}/teapot": Sheet(status=418) for n in range(PAIRS)}
    sheets |= {f"/{n}/teapot/mirror": Sheet("found elsewhere") for n in range(PAIRS)}
    async with serving_written(sheets) as site:
        start = f"http://{site.authorities[0]}"
        crawl = GraphCrawl(f"{start}/0", tmp_path, ("--rate", "0", "--concurrency", "8"), SPIDER)
        kills = 0
        for served in (20, 80, 140, 200, 260):
            kills += await crawl.run_and_kill(site, Moment(served))

        last = crawl.run()

    assert kills >= 4
    assert last.code == 0, last.err
    expected = Counter({f"{start}/{PAIRS}": 1})
    for n in range(PAIRS):
        expected.update([f"{start}/{n}", f"{start}/{n}/teapot", f"{start}/{n}/teapot/mirror"])
    for name in ("jsonl", "sqlite"):
        assert_same(name, (item["url"] for item in crawl.items(name)), expected.elements())
    verified = crawl.verify()
    assert verified.code == 0, verified.out
