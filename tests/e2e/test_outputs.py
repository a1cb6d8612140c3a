"""One file per output, in a folder store and in a fleet: optional fields, a kill, and the files that are named."""

import csv
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.e2e.command import HASTY, QUICK, TIMEOUT, records, shoal, started
from tests.e2e.command_server import StartedCommand
from tests.servers.redis import valkey

OUTPUTS = ("items.jsonl", "items.csv", "items.parquet", "parts.parquet/")
OUTS = tuple(f"--out={name}" for name in OUTPUTS)
PRODUCTS = 40
# Every third product has a field of its kind, the last one a field that no other has.
SPIDER = """\
import shoal

spider = shoal.Spider("shop", key="sku")


@spider.page()
def listing(page):
    yield from page.links("a.category, a.next")
    yield from page.links("ul.products a.product", route="product")


@spider.page(name="product")
def product(page):
    sku = page.css("[data-sku]::attr(data-sku)").get()
    item = {"sku": sku, "title": page.css("h1::text").get()}
    if sum(map(ord, sku)) % 3 == 0:
        item["third"] = len(sku)
    if page.css("h1::text").get() == "Plain Cast Net":
        item["tags"] = ["a", "b"]
    yield item
"""


@pytest.fixture(params=["folder", "fleet"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "folder":
        yield "shoal-data"
        return
    async with valkey(tmp_path / "server") as server:
        yield server.dsn


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


def by_sku(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    assert len({item["sku"] for item in found}) == len(found) == PRODUCTS
    return {item["sku"]: item for item in found}


def without_null(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if value not in (None, "")}


async def test_each_output_is_one_file_with_every_item_after_a_kill(
    store: str, tmp_path: Path, shop: str
) -> None:
    at = tmp_path / "work"
    at.mkdir()
    (at / "shop.py").write_text(SPIDER)
    crawl = ("crawl", "shop.py", shop, *QUICK, "--store", store, *OUTS)
    slow = ("--per-host", "1", "--rate", "8", "--json")
    with started(*crawl[:3], "--allow-private", "--store", store, *OUTS, *slow, cwd=at, env=HASTY) as process:
        kill_when_written(process, at / "items.jsonl")
    ran = shoal(*crawl, cwd=at, env=HASTY)

    assert ran.code == 0, ran.err
    items = by_sku(records(at / "items.jsonl"))
    assert {name for item in items.values() for name in item} == {"sku", "title", "third", "tags"}
    assert sorted(name for name in os.listdir(at) if ".shoal" not in name and name != "shoal-data") == sorted(
        ["shop.py", *(name.rstrip("/") for name in OUTPUTS)]
    )
    for name in OUTPUTS:
        assert f"  items      {name}\n" in ran.out or f"  items      {at}/{name}\n" in ran.out
    for path in (at / "items.parquet", at / "parts.parquet"):
        table = by_sku(list(map(without_null, pq.read_table(path).to_pylist())))
        assert table == {sku: as_row(item) for sku, item in items.items()}
    cells = by_sku(list(map(without_null, rows(at / "items.csv"))))
    assert cells == {
        sku: {name: str(value) for name, value in as_row(item).items()} for sku, item in items.items()
    }
    verified = shoal("verify", "--store", store, cwd=at)
    assert verified.code == 0, verified.out


def as_row(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "tags": '["a","b"]'} if "tags" in item else item


def kill_when_written(process: StartedCommand, path: Path) -> None:
    until = time.monotonic() + TIMEOUT
    while not path.exists() or path.read_bytes().count(b"\n") < 5:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "no items were written"
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait(TIMEOUT)
