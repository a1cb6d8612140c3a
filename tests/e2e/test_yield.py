"""Data that is worse than before does not replace it, in a folder and on a shared store."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.e2e.command import Ran, records, shoal
from tests.e2e.test_runs import Runs, Server, folder, site, store

__all__ = ["folder", "site", "store"]

PRODUCTS = 24
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


def shop(name: str = "price") -> Mapping[str, str]:
    """Return the pages of a shop whose prices have this class."""
    links = "".join(f'<a href="/p/{number}">{number}</a>' for number in range(PRODUCTS))
    product = '<h1>Product {0}</h1><b class="{1}">{0}.99</b>'
    return {"/": links, **{f"/p/{number}": product.format(number, name) for number in range(PRODUCTS)}}


def write_spider(folder: Path, site: Server, *, item: str = "") -> None:
    (folder / "shop.py").write_text(SPIDER.replace("START", site.start).replace("ITEM", item))


def test_a_renamed_class_replaces_good_data_only_when_it_is_accepted(
    store: str, folder: Path, site: Server
) -> None:
    runs, out = Runs(store, folder), folder / "items.jsonl"
    write_spider(folder, site)
    site.pages = dict(shop())
    command = ("shop.py", "--out", "items.jsonl", "--again")
    assert runs.crawl(*command).code == 0
    assert runs.crawl(*command).code == 0
    good = out.read_bytes()

    site.pages = dict(shop("cost"))
    broken = runs.crawl(*command)

    assert broken.code == 11, broken
    line = (
        f"handler product: price is filled in 0 of {PRODUCTS} items, before in {PRODUCTS} of {PRODUCTS};"
        f" the spider is the same: its pages differ; for example {site.start}p/"
    )
    assert line in broken.err, broken
    assert broken.err.splitlines()[-1].count(f"{site.start}p/") == 3, broken
    assert "shoal accept shop" in broken.out, broken
    assert out.read_bytes() == good
    assert {record["price"] for record in records(folder / "items.new.jsonl")} == {None}
    assert _alerts(store, folder) == ["yield_dropped"]
    assert runs.crawl("shop.py", "--out", "items.jsonl").code == 11  # the same command without --again

    accepted = shoal("accept", "shop", "--store", store, cwd=folder)

    assert accepted.code == 0, accepted
    assert {record["price"] for record in records(out)} == {None}
    assert not (folder / "items.new.jsonl").is_symlink()
    assert _alerts(store, folder) == []
    assert runs.crawl(*command).code == 0  # the range has it now
    assert shoal("accept", "shop", "--store", store, cwd=folder).code == 1
    assert shoal("verify", "--deep", "--store", store, cwd=folder).code == 0


def test_a_run_after_the_repair_replaces_the_output_and_clears_the_alert(
    store: str, folder: Path, site: Server
) -> None:
    runs = Runs(store, folder)
    write_spider(folder, site, item="item=Product")
    site.pages = dict(shop())
    command = ("shop.py", "--out", "items.jsonl", "--again")
    assert runs.crawl(*command).code == 0
    good = (folder / "items.jsonl").read_bytes()
    site.pages = dict(shop("cost"))
    dropped = runs.crawl(*command)
    assert dropped.code == 11, dropped
    assert f"all handlers: 0 items, before {PRODUCTS}" in dropped.err, dropped
    assert (folder / "items.jsonl").read_bytes() == good
    assert _alerts(store, folder) == ["yield_dropped"]

    site.pages = dict(shop())
    repaired = runs.crawl(*command)

    assert repaired.code == 0, repaired
    assert len(records(folder / "items.jsonl")) == PRODUCTS
    assert not (folder / "items.new.jsonl").is_symlink()
    assert _alerts(store, folder) == []


@pytest.mark.parametrize("declared", ["type", "--item"])
def test_a_first_run_without_one_declared_item_ends_with_a_code_and_a_sentence(
    declared: str, folder: Path, site: Server
) -> None:
    site.pages = dict(shop("cost"))
    if declared == "type":
        write_spider(folder, site, item="item=Product")
        ran = Runs("store", folder).crawl("shop.py", "--out", "items.jsonl")
        assert f"no item on {PRODUCTS + 1} pages: {PRODUCTS} items did not fit the declared type" in ran.err
    else:
        ran = Runs("store", folder).crawl(site.start, "--item", "price=.price", "--out", "items.jsonl")
        assert f"no item on {PRODUCTS + 1} pages, although the selectors of --item (price)" in ran.err

    assert ran.code == 10, ran


def _alerts(store: str, folder: Path) -> list[str]:
    ran: Ran = shoal("alerts", "--json", "--store", store, cwd=folder)
    assert ran.code == 0, ran
    return [alert["kind"] for alert in json.loads(ran.out)["active"]]
