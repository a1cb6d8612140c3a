"""Generations of one crawl, in a folder and on a shared store: what has not changed is not parsed again."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import NO_RETRIES, PRIVATE, QUICK, TIMEOUT, Ran, records, shoal, started
from tests.servers.redis import valkey
from tests.site.changing import ChangingSite, serving_changes

SHORT = {"SHOAL_CRAWL_LEASE": "3"}
SPIDER = """
import time

import shoal

spider = shoal.Spider("shop", key="sku")

@spider.page()
def parse(page):
    for product in page.css(".product"):
        yield {
            "sku": product.css("[data-sku]::attr(data-sku)").get(),
            "price": product.css(".price::text").get(),
            "parsed": time.time(),
        }
    yield page.links()
"""


def product(sku: str, price: int) -> str:
    return f'<div class="product"><b data-sku="{sku}"></b><i class="price">{price}</i></div>'


def page(number: int, links: tuple[str, ...] = (), price: int = 100) -> str:
    menu = "".join(f'<a href="{path}">{path}</a>' for path in ("/", "/hub", *links))
    return f"<h1>{number}</h1><nav>{menu}</nav>{product(f'A{number}', price)}"


def shop(pages: int = 30) -> ChangingSite:
    """Return a shop: every third page has no validators, and all are linked from one hub."""
    paths = tuple(f"/p/{number}" for number in range(pages))
    found: dict[str, str | None] = {"/": page(1000), "/hub": page(1001, paths)}
    found |= {path: page(number, price=100 + number) for number, path in enumerate(paths)}
    return ChangingSite(found, validators=lambda path: path[-1] not in "036")


@pytest.fixture
def site() -> Iterator[ChangingSite]:
    with serving_changes(shop()) as served:
        yield served


@pytest.fixture(params=["folder", "redis"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "folder":
        yield "store"
        return
    async with valkey(tmp_path / "server") as running:
        yield running.dsn


class Shop:
    """Crawls of the shop, on one store and in one folder."""

    def __init__(self, site: ChangingSite, store: str, folder: Path) -> None:
        self.site, self.store = site, store
        self.folder = folder / "work"
        self.folder.mkdir()
        self.write(SPIDER)

    def write(self, spider: str) -> None:
        (self.folder / "shop.py").write_text(spider)

    def command(self, *flags: str) -> tuple[str, ...]:
        return (
            "crawl",
            "shop.py",
            self.site.start,
            "--out",
            "o.jsonl",
            *QUICK,
            "--store",
            self.store,
            *flags,
        )

    def crawl(self, *flags: str) -> dict[str, Any]:
        """Crawl, and return the items by SKU, each of which must be there once."""
        self.site.asked.clear()
        ran = self.run(*self.command(*flags))
        assert ran.code == 0, (ran.out, ran.err)
        return self.items()

    def run(self, *arguments: str) -> Ran:
        return shoal(*arguments, cwd=self.folder, env=NO_RETRIES)

    def items(self) -> dict[str, Any]:
        found = records(self.folder / "o.jsonl")
        by_sku = {item["sku"]: item for item in found}
        assert len(by_sku) == len(found)
        return by_sku


@pytest.fixture
def crawls(site: ChangingSite, store: str, tmp_path: Path) -> Shop:
    return Shop(site, store, tmp_path)


def test_only_what_has_changed_is_parsed_again(crawls: Shop, site: ChangingSite) -> None:
    first = crawls.crawl()
    assert len(first) == 32
    paths = (*(f"/p/{number}" for number in range(30) if number != 9), "/p/new")
    site.pages["/p/1"] = page(1, price=999)  # changed, with an ETag
    site.pages["/p/3"] = page(3, price=998)  # changed, without one
    site.pages["/p/5"] = None
    site.pages["/hub"] = page(1001, paths)  # links to /p/new, and to /p/9 no longer
    site.pages["/p/new"] = page(77)

    second = crawls.crawl("--again")

    changed = {"A1", "A3", "A1001", "A77"}
    expected = {sku: item for sku, item in first.items() if sku not in ("A5", "A9")}
    assert second.keys() == expected.keys() | {"A77"}
    assert {sku for sku in second if second[sku] != first.get(sku)} == changed
    assert (second["A1"]["price"], second["A3"]["price"]) == ("999", "998")
    asked = dict(site.asked)
    assert len(asked) == len(site.asked) == 32
    conditional = {path for path, status in asked.items() if status == 304}
    assert conditional == {
        path for path in asked if site.validators(path) and path not in ("/p/1", "/hub", "/p/new", "/p/5")
    }

    ran = crawls.run(*crawls.command("--again"))
    assert "unchanged  31 pages" in ran.out, ran
    assert crawls.items() == second
    assert site.statuses()[404] == 2
    assert crawls.run("verify", "--deep", "--store", crawls.store).code == 0


def test_a_changed_spider_parses_pages_that_have_not_changed(crawls: Shop, site: ChangingSite) -> None:
    first = crawls.crawl()
    crawls.write(SPIDER.replace('"price":', '"cost":'))

    second = crawls.crawl("--again")

    assert {sku: item["cost"] for sku, item in second.items()} == {
        sku: item["price"] for sku, item in first.items()
    }
    assert site.statuses()[304] > 15
    third = crawls.crawl("--again")
    assert third == second


def test_the_settings_turn_it_off(crawls: Shop, site: ChangingSite) -> None:
    crawls.crawl()
    (crawls.folder / "shoal.toml").write_text("[recrawl]\nskip_unchanged = false\n")
    second = crawls.crawl("--again")
    parsed_later = crawls.crawl("--again")
    assert all(parsed_later[sku]["parsed"] > second[sku]["parsed"] for sku in second)
    assert site.statuses()[304] > 15

    (crawls.folder / "shoal.toml").write_text("[recrawl]\nkeep = 0\n")
    crawls.crawl("--again")
    crawls.crawl("--again")
    assert site.statuses()[304] == 0


def test_a_killed_generation_is_resumed_and_is_exact(crawls: Shop, site: ChangingSite) -> None:
    first = crawls.crawl()
    site.pages["/p/2"] = page(2, price=555)
    site.asked.clear()
    with started(*crawls.command("--again", "--rate", "20"), cwd=crawls.folder, env=SHORT) as process:
        deadline = time.monotonic() + TIMEOUT
        while len(site.asked) < 12:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    second = crawls.crawl("--again")

    assert second.keys() == first.keys()
    assert {sku for sku in second if second[sku] != first[sku]} == {"A2"}
    assert crawls.crawl("--again") == second


def test_diff_names_exactly_what_has_changed(crawls: Shop, site: ChangingSite) -> None:
    crawls.write(SPIDER.replace('"parsed": time.time(),', ""))
    crawls.crawl()
    alone = crawls.run("diff", "--store", crawls.store)
    assert alone.code == 1, alone
    assert "nothing to compare" in alone.err
    paths = (*(f"/p/{number}" for number in range(30) if number != 9), "/p/new")
    site.pages["/p/1"] = page(1, price=999)
    site.pages["/p/5"] = None
    site.pages["/hub"] = page(1001, paths)  # its own item stays as it was
    site.pages["/p/new"] = page(77)
    crawls.crawl("--again")

    found = crawls.run("diff", "--store", crawls.store, "--json").json

    address = site.start.rstrip("/")
    assert [(one["key"], one["change"], one.get("fields"), one.get("item")) for one in found["items"]] == [
        ("A1", "changed", {"price": {"before": "101", "after": "999"}}, None),
        ("A5", "vanished", None, {"sku": "A5", "price": "105"}),
        ("A77", "appeared", None, {"sku": "A77", "price": "100"}),
        ("A9", "vanished", None, {"sku": "A9", "price": "109"}),
    ]
    assert {one["url"].removeprefix(address): (one["change"], one["status"]) for one in found["urls"]} == {
        "/p/1": ("changed", 200),
        "/hub": ("changed", 200),
        "/p/new": ("appeared", 200),
        "/p/5": ("gone", 404),
        "/p/9": ("no longer linked", 200),
    }
    assert (found["from"]["number"], found["to"]["number"]) == (1, 2)
    assert found["pages_unchanged"] == 28
    text = crawls.run("diff", "shop", "--store", crawls.store)
    assert "items: 1 appeared, 1 changed, 2 vanished" in text.out
    assert "price: 101 -> 999" in text.out
    assert f"gone (404)  {site.start}p/5" in text.out

    crawls.crawl("--again")
    later = crawls.run("diff", "--store", crawls.store, "--json").json
    assert (later["items"], later["urls"]) == ([], [])
    assert later["from"]["number"] == 2
    gone = crawls.run("diff", "--store", crawls.store, "--from", "1")
    assert "no generation 1" in gone.err


def test_a_tick_begins_one_generation_however_often_it_is_started(crawls: Shop, site: ChangingSite) -> None:
    first = crawls.crawl()
    tick = {"SHOAL_RECRAWL_AFTER": str(time.time()), **NO_RETRIES}
    asked = []
    for _ in range(2):
        site.asked.clear()
        ran = shoal(*crawls.command("--again", "--yes"), cwd=crawls.folder, env=tick)
        assert ran.code == 0, ran
        asked.append(len(site.asked))

    assert asked == [32, 0]
    assert crawls.items() == first


async def test_each_tick_of_a_schedule_is_a_generation_of_one_crawl(
    crawls: Shop, site: ChangingSite, store: str
) -> None:
    where = ("--store", store)
    target = ("--", "shop.py", site.start, "--per-host", "16", "--out", "o.jsonl")
    added = crawls.run("schedule", "add", "shop", "--every", "3s", "--again", *where, *target)
    assert added.code == 0, added.err
    env = {**NO_RETRIES, **PRIVATE, "SHOAL_CRAWL_RATE": "0", "SHOAL_STORE": store}
    with ExitStack() as stack:
        if "://" in store:
            stack.enter_context(started("worker", *where, cwd=crawls.folder, env=env))
        scheduler = stack.enter_context(started("schedule", "run", *where, cwd=crawls.folder, env=env))
        deadline = time.monotonic() + TIMEOUT
        runs: list[dict[str, Any]] = []
        while sum(run["state"] == "done" for run in runs) < 2:
            assert time.monotonic() < deadline, runs
            assert scheduler.poll() is None
            await asyncio.sleep(0.5)
            [listed] = crawls.run("schedule", "list", "--json", *where).json["schedules"]
            runs = listed["runs"]
        assert crawls.run("schedule", "pause", "shop", *where).code == 0

    assert {run["crawl"] for run in runs} == {"shop"}
    assert [one["crawl"] for one in crawls.run("status", "--json", *where).json["crawls"]] == ["shop"]
    assert site.statuses()[304] >= 15
    found = crawls.run("diff", "shop", *where, "--json").json
    assert found["to"]["number"] >= 2
    assert found["items"] == []


def test_an_adaptive_generation_asks_only_for_pages_that_are_due(crawls: Shop, site: ChangingSite) -> None:
    first = crawls.crawl()
    site.pages["/p/2"] = page(2, price=555)

    def again(**seconds: int) -> tuple[dict[str, Any], int]:
        settings = {f"SHOAL_RECRAWL_{name.upper()}": str(value) for name, value in seconds.items()}
        site.asked.clear()
        env = {**NO_RETRIES, "SHOAL_RECRAWL_ADAPTIVE": "1", **settings}
        ran = shoal(*crawls.command("--again"), cwd=crawls.folder, env=env)
        assert ran.code == 0, (ran.out, ran.err)
        return crawls.items(), len(site.asked)

    assert again() == (first, 0)  # all were asked for within the last day
    assert crawls.run("verify", "--store", crawls.store).code == 0
    time.sleep(6)
    second, asked = again(first_interval=1, shortest_interval=1)
    assert asked == 32
    assert {sku for sku in second if second[sku] != first[sku]} == {"A2"}
    time.sleep(1.2)
    # What has not changed in six seconds now waits for nine or more, and what has for one.
    third, asked = again(first_interval=1, shortest_interval=1)
    assert third == second
    assert [path for path, _ in site.asked] == ["/p/2"]
    found = crawls.run("diff", "--store", crawls.store, "--json").json
    assert (found["items"], found["urls"], found["pages_unchanged"]) == ([], [], 32)


def test_items_get_the_times_at_which_they_were_seen_and_changed(crawls: Shop, site: ChangingSite) -> None:
    crawls.write(SPIDER.replace('"parsed": time.time(),', ""))
    (crawls.folder / "shoal.toml").write_text("[recrawl]\nitem_times = true\n")
    first = crawls.crawl()
    assert {*first["A1"]} == {"sku", "price", "first_seen", "last_seen", "changed_at"}
    time.sleep(1.1)  # the times are whole seconds
    site.pages["/p/1"] = page(1, price=999)
    second = crawls.crawl("--again")

    for sku in ("A1", "A2", "A3"):  # changed; unchanged with and without an ETag
        assert second[sku]["first_seen"] == first[sku]["first_seen"]
        assert second[sku]["last_seen"] > first[sku]["last_seen"]
        assert (second[sku]["changed_at"] > first[sku]["changed_at"]) == (sku == "A1")
    found = crawls.run("diff", "--store", crawls.store, "--json").json
    assert [(one["key"], [*one["fields"]]) for one in found["items"]] == [("A1", ["price"])]
