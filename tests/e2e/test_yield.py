"""Data that is worse than before does not replace it, in a folder and on a shared store."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.e2e.command import NO_RETRIES, QUICK, records, shoal
from tests.e2e.test_runs import Runs, Server, folder, site, store

__all__ = ["folder", "site", "store"]

PRODUCTS = 12
SPIDER = """
from dataclasses import dataclass

import shoal

spider = shoal.Spider("shop", start=["START"])


@dataclass
class Product:
    name: str
    price: str


@spider.page(r"/p/", ITEM)
def product(page):
    yield {"name": page.css("h1::text").get(), "price": page.css(".price::text").get()}


@spider.page()
def listing(page):
    yield from page.links("a")
"""
ONCE_MORE = ("shop.py", "--out", "items.jsonl")
AGAIN = (*ONCE_MORE, "--again")


def shop(name: str = "price") -> Mapping[str, str]:
    """Return the pages of a shop whose prices have this class."""
    links = "".join(f'<a href="/p/{number}">{number}</a>' for number in range(PRODUCTS))
    product = '<h1>Product {0}</h1><b class="{1}">{0}.99</b>'
    return {"/": links, **{f"/p/{number}": product.format(number, name) for number in range(PRODUCTS)}}


def write_spider(folder: Path, site: Server, *, item: str = "") -> None:
    (folder / "shop.py").write_text(SPIDER.replace("START", site.start).replace("ITEM", item))


@pytest.mark.slow("three generations of a crawl, and what the commands say about them")
def test_a_renamed_class_replaces_good_data_only_when_it_is_accepted(
    store: str, folder: Path, site: Server
) -> None:
    runs, out = Runs(store, folder), folder / "items.jsonl"
    write_spider(folder, site)
    site.pages = dict(shop())
    assert runs.crawl(*AGAIN).code == 0
    good = out.read_bytes()

    site.pages = dict(shop("cost"))
    broken = runs.crawl(*AGAIN)

    assert broken.code == 11, broken
    line = (
        f"handler product: price is filled in 0 of {PRODUCTS} items, before in {PRODUCTS} of {PRODUCTS};"
        f" the spider is the same: its pages differ; for example {site.start}p/"
    )
    assert line in broken.err.splitlines()[-1], broken
    assert broken.err.splitlines()[-1].count(f"{site.start}p/") == 3, broken
    assert "shoal accept shop" in broken.out, broken
    assert out.read_bytes() == good
    assert {record["price"] for record in records(folder / "items.new.jsonl")} == {None}
    assert _alerts(store, folder) == ["yield_dropped"]
    assert runs.crawl(*ONCE_MORE).code == 11  # nothing has changed

    accepted = shoal("accept", "shop", "--store", store, cwd=folder)

    assert accepted.code == 0, accepted
    assert {record["price"] for record in records(out)} == {None}
    assert not (folder / "items.new.jsonl").is_symlink()
    assert _alerts(store, folder) == []
    assert runs.crawl(*AGAIN).code == 0  # the range has it now
    assert shoal("accept", "shop", "--store", store, cwd=folder).code == 1
    assert shoal("verify", "--deep", "--store", store, cwd=folder).code == 0


@pytest.mark.slow("two generations of a fleet")
def test_a_fleet_of_this_machine_says_what_dropped_and_accepting_replaces_what_its_operator_allows(
    folder: Path, site: Server
) -> None:
    out, elsewhere = folder / "items.jsonl", folder / "elsewhere"
    write_spider(folder, site)
    elsewhere.mkdir()
    site.pages = dict(shop())
    command = ("fleet", *AGAIN, "-n", "1", "--store", "store", *QUICK)
    assert shoal(*command, cwd=folder, env=NO_RETRIES).code == 0
    good = out.read_bytes()
    site.pages = dict(shop("cost"))

    broken = shoal(*command, cwd=folder, env=NO_RETRIES)
    unchanged = shoal(*(flag for flag in command if flag != "--again"), cwd=folder, env=NO_RETRIES)

    for ran in (broken, unchanged):
        assert ran.code == 11, ran
        assert f"price is filled in 0 of {PRODUCTS} items" in ran.err, ran
        assert "shoal accept shop" in ran.out, ran
    assert f"{folder / 'items.new.jsonl'}" in broken.out, broken
    assert out.read_bytes() == good
    store = str(folder / "store")
    refused = shoal("accept", "shop", "--store", store, cwd=elsewhere)
    assert (refused.code, out.read_bytes()) == (1, good), refused
    assert "worker.allow_outputs =" in refused.err, refused
    assert shoal("accept", "shop", "--store", store, cwd=folder).code == 0
    assert {record["price"] for record in records(out)} == {None}


@pytest.mark.slow("three generations of a crawl")
def test_a_run_after_the_repair_replaces_the_output_and_ends_the_alert(folder: Path, site: Server) -> None:
    runs, out = Runs("store", folder), folder / "items.jsonl"
    write_spider(folder, site, item="item=Product")
    site.pages = dict(shop())
    assert runs.crawl(*AGAIN).code == 0
    good = out.read_bytes()
    site.pages = dict(shop("cost"))
    dropped = runs.crawl(*AGAIN)
    assert dropped.code == 11, dropped
    assert f"all handlers: 0 items, before {PRODUCTS}" in dropped.err, dropped
    assert out.read_bytes() == good

    site.pages = dict(shop())
    repaired = runs.crawl(*AGAIN)

    assert repaired.code == 0, repaired
    assert len(records(out)) == PRODUCTS
    assert not (folder / "items.new.jsonl").is_symlink()
    assert _alerts("store", folder) == []


@pytest.mark.slow("two generations of a crawl with a database")
def test_a_database_has_the_new_rows_and_the_code_and_the_alert_say_so(folder: Path, site: Server) -> None:
    runs = Runs("store", folder)
    write_spider(folder, site)
    site.pages = dict(shop())
    command = ("shop.py", "--out", "items.sqlite", "--again", "--json")
    assert runs.crawl(*command).code == 0
    site.pages = dict(shop("cost"))

    broken = runs.crawl(*command)

    assert (broken.code, broken.json["exit_code"]) == (11, 11), broken
    [drop] = broken.json["dropped"]
    assert (drop["kind"], drop["field"], drop["before"], drop["after"]) == ("field", "price", PRODUCTS, 0)
    assert broken.json["new_data"] == [str(folder / "items.new.sqlite")]


LOG_IN = """
import shoal

spider = shoal.Spider("members", start=["START"])


@spider.page(r"/answer")
def answer(page):
    yield from page.links("a")


@spider.page()
def form(page):
    yield page.form("form").fill(name="a", word="wrong")
"""


@pytest.mark.parametrize("way", ["declared type", "--item", "refused log-in", "failed log-in"])
def test_a_first_run_without_data_ends_with_a_code_and_says_why(way: str, folder: Path, site: Server) -> None:
    site.pages, runs = dict(shop("cost")), Runs("store", folder)
    match way:
        case "declared type":
            write_spider(folder, site, item="item=Product")
            ran = runs.crawl(*ONCE_MORE)
            why = f"no item on {PRODUCTS + 1} pages: {PRODUCTS} items did not fit the declared type"
        case "--item":
            ran = runs.crawl(site.start, "--item", "price=.price", "--out", "items.jsonl")
            why = f"no item on {PRODUCTS + 1} pages, although the selectors of --item (price) match nothing"
        case _:
            field = '<input name="word" type="password">'
            site.pages["/"] = f'<form method="post" action="/answer"><input name="name">{field}</form>'
            if way == "refused log-in":
                site.pages["/answer"] = f"<p>Wrong</p><form>{field}</form>"
                why = f"no item: the log-in has failed: {site.start}answer shows a log-in form again"
            else:
                why = f"no item: the request POST {site.start}answer has failed: "
            (folder / "shop.py").write_text(LOG_IN.replace("START", site.start))
            ran = runs.crawl(*ONCE_MORE)

    assert ran.code == 10, ran
    assert why in ran.err, ran


def _alerts(store: str, folder: Path) -> list[str]:
    ran = shoal("alerts", "--json", "--store", store, cwd=folder)
    assert ran.code == 0, ran
    return [alert["kind"] for alert in json.loads(ran.out)["active"]]
