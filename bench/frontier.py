"""What the embedded frontier costs: `python -m bench.frontier [--urls N] [--hosts N ...]`.

For one host and for many: adding in batches of 1000, the life of a page (lease 64, settle them with one new
link each), the memory of a process that holds that many URLs, and opening the store again. CPU time is the
stable figure; wall-clock time on a shared machine is not.
"""

import argparse
import asyncio
import gc
import hashlib
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.outcome import Done, Settlement
from shoal.model.pace import Pace
from shoal.model.page import PageRecord, PageRef
from shoal.model.request import Link, Request

UNLIMITED = Pace(interval=0.0, burst=1, concurrency=1 << 30)
ADD, LEASE = 1000, 64
PAGE = PageRecord(
    PageRef("shoal-20260101000000-00001.warc.gz", 123_456_789, 4_321),
    status=200,
    fetched_at=1.7e9,
    items=1,
    links=30,
    etag='"5e8c-62a1b2c3d4e5f"',
    modified="Tue, 04 Feb 2025 09:12:33 GMT",
    digest="sha1:MJVBG3TPEJDQAQ4FJV5W7FZGCPTTLOIJ",
)

_pack = msgspec.msgpack.Encoder().encode


def links(hosts: int) -> Iterator[Link]:
    """Make links without end, spread over `hosts` in no order."""
    number = 0
    while True:
        digest = hashlib.blake2b(number.to_bytes(8, "big"), digest_size=16).digest()
        host = f"host-{int.from_bytes(digest[8:12], 'big') % hosts}.example"
        request = Request(url=f"https://{host}/catalogue/category/product-{number}/index.html", depth=3)
        yield Link(int.from_bytes(digest[:8], "big") >> 1, host, 5, "http", _pack(request))
        number += 1


def some(source: Iterator[Link], count: int) -> list[Link]:
    return [next(source) for _ in range(count)]


class Meter:
    """CPU time of the whole process, other threads included, per piece of work."""

    def __init__(self) -> None:
        self.wall = 0.0
        self.pieces = 0
        self._each: list[float] = []

    def start(self) -> None:
        self._cpu, self._began = time.process_time(), time.perf_counter()

    def stop(self, pieces: int) -> None:
        self._each.append((time.process_time() - self._cpu) / pieces)
        self.wall += time.perf_counter() - self._began
        self.pieces += pieces

    def __str__(self) -> str:
        middle, mean = 1e6 * statistics.median(self._each), 1e6 * statistics.fmean(self._each)
        return f"{mean:6.1f} us CPU each (median batch {middle:.1f}), {self.pieces / self.wall:9,.0f}/s"


async def lives(frontier: SqliteFrontier, source: Iterator[Link], batches: int) -> Meter:
    """Lease, settle as done with one new link each, again and again."""
    meter = Meter()
    for _ in range(batches):
        new = some(source, LEASE)
        meter.start()
        grant = await frontier.lease(holder="bench", limit=LEASE, ttl=60.0)
        await frontier.commit(
            [Settlement(lease, Done(PAGE), (link,)) for lease, link in zip(grant.leases, new, strict=True)],
            checkpoints={"items.jsonl": b"1234567"},
        )
        meter.stop(LEASE)
    return meter


async def run(urls: int, hosts: int, folder: Path) -> None:
    path = folder / "store.db"
    source = links(hosts)
    print(f"{urls:,} URLs on {hosts:,} host{'s' if hosts > 1 else ''}")
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("bench", pace=UNLIMITED)
        await frontier.add("bench", some(source, 10 * ADD))
        print(f"  page life, 10,000 queued      {await lives(frontier, source, 300)}")
        meter = Meter()
        for _ in range(urls // ADD - 10):
            new = some(source, ADD)
            meter.start()
            await frontier.add("bench", new)
            meter.stop(ADD)
        print(f"  add, {ADD} at a time           {meter}")
        print(f"  page life, {urls:,} queued   {await lives(frontier, source, 300)}")
        gc.collect()
        print(f"  memory of the process         {rss_mib():6.0f} MiB")
        print(f"  database                      {mib(path):6.0f} MiB")
        print(f"  its log                       {mib(path.with_name('store.db-wal')):6.0f} MiB")
    async with timed("opened again in"), SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("bench")
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("bench")
        print(f"  memory after that             {rss_mib():6.0f} MiB")
        async with timed("audit"):
            audit = await frontier.reader.audit("bench")
        print(f"  problems found by the audit   {len(audit.problems):6}")


@asynccontextmanager
async def timed(what: str) -> AsyncIterator[None]:
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(f"  {what:30}{wall:6.2f} s, {cpu:.2f} s CPU")


def mib(file: Path) -> float:
    return file.stat().st_size / 2**20


def rss_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--urls", type=int, default=2_000_000)
    parser.add_argument("--hosts", type=int, nargs="*", default=[1, 1000])
    arguments = parser.parse_args()
    for hosts in arguments.hosts:
        folder = Path(tempfile.mkdtemp(prefix="shoal-bench-"))
        try:
            asyncio.run(run(arguments.urls, hosts, folder))
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
