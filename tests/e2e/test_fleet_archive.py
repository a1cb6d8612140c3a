"""Pages of a fleet, read again from its archive when the site is gone."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.archived import PRODUCTS, SPIDER
from tests.e2e.command import DONE, HASTY, PRIVATE, QUICK, Ran, records, shoal
from tests.servers.redis import valkey
from tests.servers.s3 import BUCKET, SECRET
from tests.servers.shared import shared_s3
from warcio.archiveiterator import ArchiveIterator

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop

CHANGE = ('page.css(".price::text").get()', 'float(page.css(".price::text").get().strip("€$£ "))')


@dataclass(frozen=True, slots=True)
class FleetArchive:
    """A store whose crawl has ended, and another folder on another machine, so to say."""

    env: dict[str, str]
    crawled: Path
    elsewhere: Path

    def run(self, *arguments: str, code: int = 0, at: Path | None = None) -> Ran:
        ran = shoal(*arguments, cwd=at or self.elsewhere, env=self.env)
        assert ran.code == code, ran.err
        assert SECRET not in ran.out + ran.err
        return ran


@asynccontextmanager
async def crawled(folder: Path, settings: dict[str, str]) -> AsyncIterator[FleetArchive]:
    """Crawl a shop of one category on a fleet's store to the end, then close the shop."""
    here, elsewhere = folder / "here", folder / "elsewhere"
    for each in (here, elsewhere):
        each.mkdir()
    (here / "shop.py").write_text(SPIDER)
    (elsewhere / "fixed.py").write_text(SPIDER.replace(*CHANGE))
    async with valkey(folder / "valkey") as server:
        found = FleetArchive({"SHOAL_STORE": server.dsn, **PRIVATE, **HASTY, **settings}, here, elsewhere)
        with open_shop(Shop(categories=1), latency=0.001) as site:
            found.run("crawl", "shop.py", site, *QUICK, "--out", "items.jsonl", "--quiet", at=here)
        yield found


def urls_in(path: Path) -> list[str]:
    with path.open("rb") as file:
        return [
            record.rec_headers["WARC-Target-URI"]
            for record in ArchiveIterator(file, check_digests="raise")
            if record.rec_type == "response"
        ]


@pytest.mark.timeout(240)
async def test_pages_on_an_object_store_are_parsed_again_and_exported_on_any_machine(tmp_path: Path) -> None:
    with shared_s3() as server:
        place = {**server.environment, "SHOAL_ARCHIVE_LOCATION": f"s3://{BUCKET}/fleet"}
        async with crawled(tmp_path, place) as fleet:
            told = fleet.run("reparse", "fixed.py", "--json").json
            assert told["against"] == "the spider as it was submitted"
            assert told["differences"]["fields"]["price"]["changed"] == PRODUCTS
            assert list(told["differences"]["fields"]) == ["price"]
            assert (told["items"], told["unreadable"]) == (PRODUCTS, 0)

            fleet.run("reparse", "fixed.py", "--commit", "--out", "fixed.jsonl")
            again = records(fleet.elsewhere / "fixed.jsonl")
            before = {item["sku"]: item for item in records(fleet.crawled / "items.jsonl")}
            assert len(again) == PRODUCTS
            assert all({**item, "price": None} == {**before[item["sku"]], "price": None} for item in again)

            made = fleet.run("export", "--from", "archive", "--out", "again.csv", "--json").json
            assert (made["items"], made["lost"], made["failed"]) == (PRODUCTS, 0, 0)

            assert verified(fleet.run("verify", "--deep", "--json")) == (DONE, [])
            exported = fleet.run("export", "--out", "pages.warc.gz", "--json").json
            assert (exported["pages"], exported["unreadable"]) == (DONE, 0)
            urls = urls_in(fleet.elsewhere / "pages.warc.gz")
            assert len(urls) == len(set(urls)) == DONE
            some = fleet.run("export", "--match", "/product/", "--limit", "3", "--out", "some.warc.gz")
            assert some.out == "shop: 3 pages written to some.warc.gz\n"

            same = fleet.run("reparse", "fixed.py", "--against", "fixed.py")
            assert f"no difference in {PRODUCTS} items" in same.out


@pytest.mark.timeout(240)
async def test_what_an_archive_cannot_tell_is_said_and_nothing_counts_twice(tmp_path: Path) -> None:
    async with crawled(tmp_path, {}) as fleet:
        table = fleet.run("export", "--out", "items.csv", at=fleet.crawled)
        assert table.out == f"shop: {PRODUCTS} items written to items.csv\n"
        chosen = fleet.run("export", "--out", "x.csv", "--match", "/product/", code=1, at=fleet.crawled)
        assert "a fleet does not keep which page an item came from" in chosen.complaint
        own = fleet.run("export", "--out", "items.jsonl", code=1, at=fleet.crawled)
        assert "the crawl itself writes there" in own.complaint
        nothing = fleet.run("export", "--out", "x.warc.gz", code=1)
        assert "submitted without archive.location" in nothing.complaint
        other = fleet.run("reparse", "fixed.py", "--crawl", "other", code=1)
        assert "no crawl named 'other'; --crawl chooses one of: shop" in other.complaint

        [segment] = (fleet.crawled / "shoal-data" / "archive").rglob("*.warc.gz")
        twin = segment.with_name(segment.name.replace("shop.", "shop.killed-"))
        shutil.copyfile(segment, twin)  # what a worker leaves that was killed before it settled
        twice = pages(fleet.run("export", "--out", "twice.warc.gz", "--json", at=fleet.crawled))
        assert twice == (DONE, 0)
        twin.unlink()
        segment.write_bytes(segment.read_bytes()[: segment.stat().st_size // 2])
        deep = verified(fleet.run("verify", "--deep", "--json", at=fleet.crawled))
        found, missing = pages(fleet.run("export", "--out", "half.warc.gz", "--json", at=fleet.crawled))
        assert 0 < found < DONE
        assert found + missing == DONE
        assert (deep[0], len(deep[1])) == (found, 1)
        assert f"{missing} pages that are done are not in" in deep[1][0]
        whole = segment.read_bytes()
        segment.write_bytes(whole[:5_000] + b"\0" * 10 + whole[5_010:])
        hurt = fleet.run("verify", "--deep", code=5, at=fleet.crawled)
        assert "damaged" in hurt.out


def verified(ran: Ran) -> tuple[int, list[str]]:
    [crawl] = ran.json["crawls"]
    return crawl["pages"], [line for line in crawl["unchecked"] if "items.jsonl" not in line]


def pages(ran: Ran) -> tuple[int, int]:
    told: Any = ran.json
    return told["pages"], told["unreadable"]
