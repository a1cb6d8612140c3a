"""Running crawlers in turns, and judging each run by the server's log and by the items."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.measure import run
from bench.peers import Crawler, Job
from bench.redis_server import RedisBeside
from bench.site import FIELDS
from bench.web_server import WebServer

SERVER_CORE, CRAWLER_CORE = 0, 1
TIMEOUT = 900.0  # seconds for one run


@dataclass(frozen=True, slots=True)
class Result:
    """One run of one crawler."""

    crawler: str
    is_ours: bool
    all_cores: bool
    pages: int  # different pages fetched
    fetches: int
    items: int  # different items written, with every field filled
    complete: bool  # every page of the site, or as many as the crawler was capped at
    wall_s: float
    cpu_s: float
    redis_cpu_s: float  # of the server, beside the crawler's own
    peak_bytes: int
    exit_code: int

    @property
    def pages_per_s(self) -> float:
        return self.pages / self.wall_s

    @property
    def cpu_ms_per_page(self) -> float:
        return 1000 * self.cpu_s / self.pages

    @property
    def exactly_once(self) -> bool:
        return self.complete and self.fetches == self.pages == self.items and self.exit_code == 0


@dataclass(frozen=True, slots=True)
class Course:
    """What crawlers are run against: a site of N pages, and a Redis for crawlers that need one."""

    server: WebServer
    redis: RedisBeside
    pages: int


def measure(crawler: Crawler, course: Course) -> Result:
    """Run a crawler once, from nothing."""
    course.server.take_log()
    course.redis.clear()
    before = course.redis.cpu_s()
    with tempfile.TemporaryDirectory(prefix="bench-run-") as name:
        folder = Path(name)
        job = Job(course.server.url, folder, course.redis.dsn if crawler.on_redis else "")
        cores = () if crawler.all_cores else (CRAWLER_CORE,)
        cost = run(crawler.command(job), folder=folder, cores=cores, env=crawler.env, timeout=TIMEOUT)
        records = map(json.loads, crawler.items(folder))
        items = {record["url"] for record in records if all(record[field] for field in FIELDS)}
    redis_cpu_s = course.redis.cpu_s() - before if crawler.on_redis else 0.0
    fetches = course.server.take_log()
    return Result(
        crawler=crawler.name,
        is_ours=crawler.is_ours,
        all_cores=crawler.all_cores,
        pages=len(fetches),
        fetches=fetches.total(),
        items=len(items),
        complete=len(fetches) >= (crawler.cap or course.pages),
        wall_s=cost.wall_s,
        cpu_s=cost.cpu_s,
        redis_cpu_s=redis_cpu_s,
        peak_bytes=cost.peak_bytes,
        exit_code=cost.exit_code,
    )


def interleaved(
    crawlers: Sequence[Crawler], reference: Crawler, course: Course, *, rounds: int
) -> Iterator[Result]:
    """Run each crawler `rounds` times, with a run of the reference before and after every one."""
    yield measure(reference, course)
    for _ in range(rounds):
        for crawler in crawlers:
            yield measure(crawler, course)
            yield measure(reference, course)
