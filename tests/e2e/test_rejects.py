"""Items that do not fit their model, from the page to the reject file and the counts."""

from pathlib import Path

from tests.e2e.command import HASTY, QUICK, records, shoal

PRODUCTS = 40
SPIDER = """
from typing import Annotated

import msgspec
import shoal

spider = shoal.Spider("shop", start=["{shop}"], follow="/category/|/product/")


class Product(msgspec.Struct):
    sku: str
    stock: Annotated[int, msgspec.Meta(ge=20)]


@spider.page("/product/", item=Product, key="sku")
def product(page):
    stock = "".join(c for c in page.css(".stock::text").get() if c.isdigit())
    yield {{"sku": page.css("[data-sku]::attr(data-sku)").get(), "stock": stock or "0"}}
    yield page.links()


@spider.page()
def other(page):
    yield page.links()
"""


def test_every_item_is_kept_or_rejected_once_and_counted_over_several_runs(shop: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SPIDER.format(shop=shop))
    crawl = ("crawl", "shop.py", *QUICK, "--out", "items.jsonl")
    part = shoal(*crawl, "--max-pages", "20", "--json", cwd=tmp_path, env=HASTY)
    rest = shoal(*crawl, "--json", cwd=tmp_path, env=HASTY)

    assert part.code == rest.code == 0, part.err + rest.err
    kept = records(tmp_path / "items.jsonl")
    rejected = records(tmp_path / rest.json["rejects"])
    assert all(item["stock"] >= 20 for item in kept)
    assert {tuple(record) for record in rejected} == {("url", "reason", "item")}
    assert {record["reason"].split(":")[0] for record in rejected} == {"field stock"}
    skus = [item["sku"] for item in kept] + [record["item"]["sku"] for record in rejected]
    assert len(set(skus)) == len(skus) == PRODUCTS
    assert part.json["rejected"] + rest.json["rejected"] == len(rejected) > 0

    [status] = shoal("status", "--json", cwd=tmp_path).json["crawls"]
    assert status["rejected"] == len(rejected)
    assert status["links_filtered_by_rule"]["scope"] > 0
    assert "skipped in shop: scope" in shoal("status", cwd=tmp_path).out
    assert shoal("verify", cwd=tmp_path).code == 0
    file = tmp_path / rest.json["rejects"]
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    assert "rejected.jsonl" in shoal("verify", cwd=tmp_path).out


def test_starting_over_leaves_no_reject_file_of_the_time_before(shop: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SPIDER.format(shop=shop))
    crawl = ("crawl", "shop.py", *QUICK, "--out", "items.jsonl", "--json")
    before = shoal(*crawl, cwd=tmp_path, env=HASTY)
    (tmp_path / "shop.py").write_text(SPIDER.format(shop=shop).replace("item=Product, ", ""))

    after = shoal(*crawl, "--fresh", cwd=tmp_path, env=HASTY)

    assert before.code == after.code == 0, before.err + after.err
    assert (before.json["rejected"] > 0, after.json["rejected"], after.json["rejects"]) == (True, 0, "")
    assert not (tmp_path / before.json["rejects"]).exists()
    assert len(records(tmp_path / "items.jsonl")) == PRODUCTS
