"""A crawl that has ended, and whose site is gone: whatever is read from it comes from the archive."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.command import HASTY, QUICK, Ran, shoal

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop

PRODUCTS = 40
SPIDER = """\
import shoal

spider = shoal.Spider("shop", key="sku")


@spider.page()
def listing(page):
    yield from page.links("a.category, a.next")
    yield from page.links("ul.products a.product", route="product", data={"list": page.css("h1::text").get()})


@spider.page(name="product")
def product(page):
    yield {
        "sku": page.css("[data-sku]::attr(data-sku)").get(),
        "title": page.css("h1::text").get(),
        "price": page.css(".price::text").get(),
        "list": page.data["list"],
        "depth": page.depth,
    }
"""


@dataclass(frozen=True, slots=True)
class Archived:
    """A folder with `shop.py`, `items.jsonl` and the store of its crawl."""

    folder: Path
    site: str

    def run(self, *arguments: str) -> Ran:
        return shoal(*arguments, cwd=self.folder)

    def spider(self, name: str, *changes: tuple[str, str]) -> str:
        """Write a version of the spider with some of its text replaced."""
        text = SPIDER
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        (self.folder / name).write_text(text)
        return name


def crawl_shop(folder: Path, *outputs: str) -> Archived:
    """Crawl a shop of one category to the end, then close it; `outputs`: instead of items.jsonl."""
    folder.mkdir()
    (folder / "shop.py").write_text(SPIDER)
    with open_shop(Shop(categories=1), latency=0.001) as site:
        outs = outputs or ("--out=items.jsonl",)
        ran = shoal("crawl", "shop.py", site, *QUICK, *outs, cwd=folder, env=HASTY)
    assert ran.code == 0, ran.err
    return Archived(folder, site)


def remade(archived: Archived) -> Archived:
    """Undo whatever a test has left: outputs are known by their path, so it has to be the same folder."""
    spare = archived.folder.with_name(f"{archived.folder.name}-spare")
    if spare.exists():
        shutil.rmtree(archived.folder)
        shutil.copytree(spare, archived.folder)
    else:
        shutil.copytree(archived.folder, spare)
    return archived
