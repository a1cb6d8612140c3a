"""What parsing archived pages again costs: a changed spider over a made-up archive, and the difference named.

python bench/reparse.py [PAGES]

CPU seconds of all processes are counted, so that the figure is per core whatever else the machine does.
"""

import asyncio
import os
import random
import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from shoal.archive import ArchiveWriter, SegmentFolder, WriteRules
from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.outcome import Done, Lease, Settlement
from shoal.model.pace import Pace
from shoal.model.page import Item, PageRecord, Response
from shoal.model.request import Link, Request
from shoal.model.settings import Settings
from shoal.services.reprocess.reparse import Reparsed, ReparsePlan, reparse
from shoal.sinks import MultiSink
from shoal.spider.source import SpiderFile
from shoal.stores.contract.checkpoints import archive_key, sinks_key
from shoal.stores.folder.directory import StoreFolder

CRAWL = "bench"
PAGES = 20_000
BATCH = 256
SPIDER = """\
import shoal

spider = shoal.Spider("bench")


@spider.page()
def item(page):
    price = page.css(".price::text").get()
    yield {"url": page.url, "title": page.css("h1::text").get(), "cost": float(price[1:])}
    yield page.links()
"""


def make_body(number: int, words: list[str], rng: random.Random) -> bytes:
    """Make a page of about 12 KB with thirty links."""
    links = "".join(f'<li><a href="/item/{rng.randrange(PAGES)}">{rng.choice(words)}</a>' for _ in range(30))
    text = "".join(f"<p class=x>{' '.join(rng.choices(words, k=60))}</p>" for _ in range(27))
    return (
        f"<!doctype html><title>Item {number}</title><ul>{links}</ul><h1>Item {number}</h1>"
        f"<b class=price>£{number}.5</b>{text}"
    ).encode()


async def make_store(folder: StoreFolder, pages: int) -> None:
    """Create the store that a crawl of N pages would have left."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(2000)]
    with folder.owned():
        async with SqliteFrontier.open(folder.database) as frontier:
            await frontier.crawls.open(CRAWL, pace=Pace(0.0, BATCH, BATCH))
            archive = ArchiveWriter.open(SegmentFolder(folder.archive / CRAWL), None, WriteRules(CRAWL))
            sinks = MultiSink([str(folder.items / "bench.jsonl")])
            sinks.restore(None)
            requests = [Request(url=f"https://a.test/item/{number}", depth=1) for number in range(pages)]
            await frontier.add(CRAWL, [Link.to(request) for request in requests])
            while leases := (await frontier.lease(holder="bench", limit=BATCH, ttl=600.0)).leases:
                settled = [_settled(lease, archive, sinks, words, rng) for lease in leases]
                archive.flush()
                checkpoints = {sinks_key(CRAWL): sinks.flush(), archive_key(CRAWL): archive.checkpoint()}
                await frontier.commit(settled, checkpoints=checkpoints)
            archive.close()
            sinks.close()


def _settled(
    lease: Lease, archive: ArchiveWriter, sinks: MultiSink, words: list[str], rng: random.Random
) -> Settlement:
    url = lease.request.url
    number = int(url.rpartition("/")[2])
    body = make_body(number, words, rng)
    headers = (("content-type", "text/html; charset=utf-8"),)
    response = Response(url, 200, headers, body, body, time.time(), 0.1)
    ref, digest = archive.append(lease.request, (("Host", "a.test"),), response)
    before = {"url": url, "title": f"Item {number}", "price": f"£{number}.5"}
    sinks.write([Item(url, msgspec.json.encode(before))])
    return Settlement(lease, Done(PageRecord(ref, 200, response.fetched_at, items=1, digest=digest)))


def cpu_seconds() -> float:
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def check(report: Reparsed, pages: int) -> None:
    """Make sure that the difference is exactly the one that was made."""
    found = report.differences
    assert found is not None
    counts = {name: (one.added, one.removed, one.changed) for name, one in found.fields.items()}
    assert (report.pages, found.items_before, found.items_after) == (pages, pages, pages)
    assert counts == {"price": (0, pages, 0), "cost": (pages, 0, 0)}, counts


def main() -> None:
    import uvloop

    pages = int(sys.argv[1]) if len(sys.argv) > 1 else PAGES
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        asyncio.run(make_store(StoreFolder(folder / "store"), pages))
        (folder / "spider.py").write_text(SPIDER)
        plan = ReparsePlan(SpiderFile(str(folder / "spider.py")), Settings(store=str(folder / "store")))
        began, used = time.monotonic(), cpu_seconds()
        check(uvloop.run(reparse(plan)), pages)
        took, used = time.monotonic() - began, cpu_seconds() - used
    print(
        f"{pages:,} pages parsed again on {os.cpu_count()} cores in {took:.1f} s: {pages / took:,.0f} pages/s"
    )
    print(f"{used / pages * 1e6:,.0f} µs of CPU a page: {pages / used:,.0f} pages/s and core")


if __name__ == "__main__":
    main()
