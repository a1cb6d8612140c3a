"""A crawl of the test graph by the command line: how tests start it and read its results."""

import asyncio
import csv
import json
import os
import signal
import sqlite3
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet
from tests.e2e.command import Ran, shoal, start_logged
from tests.e2e.command_server import StartedCommand
from tests.site.graph import Graph, Shape
from tests.site.server import ServedSite, serving

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the package warns about itself when it is imported
    from fastwarc.warc import ArchiveIterator, WarcRecordType

SPIDER = Path(__file__).with_name("spiders") / "graph.py"
FORMATS = ("jsonl", "csv", "sqlite", "parquet")
LONGEST_RUN = 240.0  # seconds, on a machine that is busy with other things
POLL = 0.01  # seconds between looks at how far a crawl has come
FIELDS = ("url", "offer", "title", "price")


@asynccontextmanager
async def serving_graph(shape: Shape) -> AsyncIterator[tuple[ServedSite, Graph]]:
    """Serve the graph of `shape` from a separate process."""
    spec = msgspec.json.encode(shape).decode()
    async with serving("tests.site.graph_site:build", spec, hosts=shape.hosts) as site:
        yield site, Graph(shape, site.authorities)


@dataclass(frozen=True, slots=True)
class Moment:
    """When to kill a crawl: `later_s` after `served` pages were served in all."""

    served: int
    later_s: float = 0.0


@dataclass(frozen=True, slots=True)
class GraphCrawl:
    """One crawl: its start, the folder it writes to, and the flags it is always given."""

    start: str
    folder: Path
    options: tuple[str, ...] = ()
    spider: Path = SPIDER
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        outputs = [part for name in FORMATS for part in ("--out", f"items.{name}")]
        return [
            *("crawl", str(self.spider), self.start, "--store", "store", *outputs),
            *("--any-host", "--allow-private", "--quiet", *self.options),
        ]

    def run(self) -> Ran:
        """Run it to its end."""
        process = self._start_group()
        try:
            code = process.wait(LONGEST_RUN)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return Ran(code, "", (self.folder / "log").read_text())

    async def run_and_kill(self, site: ServedSite, moment: Moment) -> bool:
        """Run it in a new process group and send SIGKILL to that; return False if it ended before."""
        process = self._start_group()
        crawling = asyncio.ensure_future(asyncio.to_thread(process.wait))
        while await site.served() < moment.served and not crawling.done():
            await asyncio.wait([crawling], timeout=POLL)
        await asyncio.wait([crawling], timeout=moment.later_s)
        alive = not crawling.done()
        if alive:
            os.killpg(process.pid, signal.SIGKILL)
        await crawling
        return alive

    async def run_and_stop(self, site: ServedSite, served: Iterable[int], *, for_s: float) -> int:
        """Run it to its end, but stop all its processes for `for_s` at each number of pages served."""
        process = self._start_group()
        crawling = asyncio.ensure_future(asyncio.to_thread(process.wait))
        stops = 0
        for pages in served:
            while await site.served() < pages and not crawling.done():
                await asyncio.wait([crawling], timeout=POLL)
            if crawling.done():
                break
            os.killpg(process.pid, signal.SIGSTOP)
            await asyncio.sleep(for_s)
            os.killpg(process.pid, signal.SIGCONT)
            stops += 1
        assert await crawling == 0, (self.folder / "log").read_text()
        return stops

    def _start_group(self) -> StartedCommand:
        log = self.folder / "log"  # for a failed test
        return start_logged(*self.arguments, cwd=self.folder, log=log, env=self.env, session=True)

    def verify(self) -> Ran:
        return shoal("verify", "--store", "store", cwd=self.folder)

    def counts(self) -> Mapping[str, int]:
        """Return the number of requests in each state."""
        [crawl] = shoal("status", "--store", "store", "--json", cwd=self.folder).json["crawls"]
        return {"accepted": crawl["accepted"], **crawl["counts"]}

    def archived(self) -> Counter[str]:
        return archived_in(self.folder / "store")

    def items(self, name: str) -> list[dict[str, Any]]:
        """Read an output back; a torn line or an unreadable part raises."""
        path = self.folder / f"items.{name}"
        match name:
            case "jsonl":
                text = path.read_text()
                assert text.endswith("\n")
                return [json.loads(line) for line in text.split("\n")[:-1]]
            case "csv":
                with path.open(newline="") as file:
                    return list(csv.DictReader(file, strict=True))
            case "sqlite":
                with sqlite3.connect(path) as database:
                    database.row_factory = sqlite3.Row
                    rows = [dict(row) for row in database.execute("SELECT * FROM items")]
                database.close()
                return rows
            case "parquet":
                parts = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
                return [row for part in parts for row in pyarrow.parquet.read_table(part).to_pylist()]
        raise ValueError(name)


def archived_in(folder: Path) -> Counter[str]:
    """Count the archived answers with status 200, by URL."""
    urls: Counter[str] = Counter()
    for segment in sorted(folder.rglob("*.warc.gz")):
        with segment.open("rb") as stream:
            for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
                if record.http_headers.status_code == 200:
                    urls[record.headers["WARC-Target-URI"]] += 1
    return urls


def assert_same(what: str, found: Iterable[Any], expected: Iterable[Any]) -> None:
    """Compare two collections, counting repeats, and show a few of the differences rather than all."""
    have, want = Counter(found), Counter(expected)
    missing, extra = want - have, have - want
    assert not missing and not extra, (  # noqa: PT018
        f"{what}: {missing.total()} missing, such as {list(missing)[:3]}; "
        f"{extra.total()} too many, such as {list(extra)[:3]}"
    )


def assert_items(crawl: GraphCrawl, graph: Graph) -> None:
    """Every output holds exactly the items of the graph, each of them once."""
    expected = [tuple(item[field] for field in FIELDS) for item in graph.expected().items]
    for name in FORMATS:
        found = [tuple(row[field] for field in FIELDS) for row in crawl.items(name)]
        assert_same(f"items.{name}", found, expected)
