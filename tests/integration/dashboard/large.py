"""A store with many URLs and hosts, filled through the interface of its frontier, and a fetch log to it."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from shoal.archive.fetch_log import FetchLogWriter, LoggedAttempt, open_parts
from shoal.archive.registry import open_segments
from shoal.frontier.contract import Frontier
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Done, Gone, Outcome, Settlement
from shoal.model.pace import Pace
from shoal.model.page import PageRecord, PageRef
from shoal.model.request import Link, Request
from shoal.model.settings import Settings
from shoal.spider.source import PlainSpider
from shoal.stores.contract.crawl_record import CrawlRecord
from shoal.stores.open import open_store

BATCH = 5_000
CRAWL = "big"
CLASSES = (FailureClass.TIMEOUT, FailureClass.TARGET_ERROR, FailureClass.IP_BLOCKED)


@dataclass(frozen=True)
class Size:
    urls: int
    hosts: int
    ended: int  # of the URLs: nine of ten done, the others dead or gone
    logged: int  # attempts

    def host(self, number: int) -> str:
        """Return one of the hosts; the first ones have most URLs, as on the web."""
        place = number % self.hosts
        return f"host-{place if number % 3 else place % 40}.example"

    def url(self, number: int) -> str:
        return f"http://{self.host(number)}/products/{number}.html"


async def fill(dsn: str, size: Size, archive: Path) -> None:
    """Fill a store, a folder or a server."""
    async with open_store(dsn, create=True) as store:
        if store.capabilities.shared:
            frontier: Frontier = store.fleet.frontier
            await _fill(frontier, size)
            settings = msgspec.to_builtins(Settings())
            settings["archive"]["location"] = str(archive)
            record = CrawlRecord(name=CRAWL, source=PlainSpider(CRAWL, (), {}), settings=settings)
            await store.fleet.crawls.submit(record)
        else:
            async with store.work() as owned:
                await _fill(owned.frontier, size)
                archive = owned.archive
    await asyncio.to_thread(write_log, archive, size)


async def _fill(frontier: Frontier, size: Size) -> None:
    await frontier.crawls.open(CRAWL, pace=Pace(interval=0.0, concurrency=1_000_000))
    for start in range(0, size.urls, BATCH):
        links = [Link.to(Request(url=size.url(n))) for n in range(start, min(start + BATCH, size.urls))]
        await frontier.add(CRAWL, links)
    ended = 0
    while ended < size.ended:
        grant = await frontier.lease(holder="anna", limit=min(1_000, size.ended - ended), ttl=600.0)
        assert grant.leases
        settled = [Settlement(lease, _outcome(ended + n)) for n, lease in enumerate(grant.leases)]
        await frontier.settle(settled)
        ended += len(settled)
    hosts = frontier.hosts
    await hosts.set("host-1.example", paused=True)
    await hosts.set("host-2.example", rest_until=time.time() + 3_600)
    await hosts.set("host-3.example", interval=2.0)


def _outcome(number: int) -> Outcome:
    if number % 10:
        ref = PageRef("big-20261118-00001.warc.gz", number * 1_000, 900)
        return Done(PageRecord(ref, 200, time.time(), items=1, links=3))
    if number % 20:
        return Gone(404)
    kind = CLASSES[number // 20 % len(CLASSES)]
    return Dead(Failure(kind, f"<img src=x onerror=alert({number})> took too long", 503))


def write_log(archive: Path, size: Size) -> None:
    """Write a fetch log as a worker does, with attempts of the last hour."""
    segments = open_parts(open_segments(str(archive), CRAWL))
    writer = FetchLogWriter(segments, CRAWL, writer="anna", part_bytes=8 << 20)
    for start in range(0, size.logged, BATCH):
        writer.write(list(_rows(start, min(start + BATCH, size.logged), size)))
    writer.finish()


def _rows(first: int, last: int, size: Size) -> Iterator[tuple[object, ...]]:
    began = time.time() - 3_600
    for number in range(first, last):
        failed = number % 13 == 0
        row = LoggedAttempt(
            started_at=int((began + 3_590 * number / size.logged) * 1e6),
            crawl=CRAWL,
            fingerprint=number + 1,
            found_on=number - number % 29 + 1 if number % 29 else 0,
            url=size.url(number),
            host=size.host(number),
            method="GET",
            status=503 if failed else 200,
            outcome="retry" if failed else "done",
            failure="target_error" if failed else "",
            reason="503 Service Unavailable" if failed else "",
            attempt=1,
            worker="anna",
            pool="http",
            level="plain",
            sent=1,
            total_ms=40.0 + number % 700,
            first_byte_ms=30.0 + number % 500,
            body_ms=10.0,
            wire_bytes=12_000 + number % 9_000,
            segment="" if failed else "big-20261118-00001.warc.gz",
            items=0 if failed else 1,
            version="" if failed else "v1",
        )
        yield msgspec.structs.astuple(row)
