"""A fleet that follows its load beside one of a fixed size, on real processes: `python -m bench.autoscale`.

The crawl is bursty: its index host asks for a minute between two pages, and each of them links to hundreds of
pages on many other hosts, which allow a few requests per second each. Between two bursts there is nothing to
do. Each way crawls the same site with the same settings. A worker-second is one worker process for a second.

    python -m bench.autoscale [--bursts 4] [--pages 1800] [--pause 60] [--workers 6]

The exit code is 1 if the fleet that follows its load uses as many worker-seconds as the fixed one, ends more
than 10 % later, changes its mind within a burst, or starts workers for a host that would not let them work.
"""

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec
import psutil
from tests.site.access_log import Hit
from tests.site.bursts import BurstSpec
from tests.site.server import serving

HOSTS = 60  # with pages
RATE = 4.0  # requests per second that the crawl sends to each host
SLOTS = 8  # requests at once of a worker
LATENCY_S = 0.4  # of a page: one worker does 20 pages per second
DRAIN_S = 15.0  # in which a burst should be fetched
SAMPLE_S = 0.25
LONGEST_S = 600.0
RESIZED = re.compile(r"(\d+) workers? instead of (\d+): ")


@dataclass(frozen=True, slots=True)
class FleetRun:
    """What one fleet did."""

    took_s: float  # from the start of the command to its end
    drains_s: tuple[float, ...]  # by burst: from its index page to its last page
    workers: tuple[tuple[float, int], ...]  # (seconds, processes) as sampled
    sizes: tuple[int, ...]  # that the command has announced
    printed: str
    is_exact: bool  # every page was asked for exactly once

    @property
    def worker_seconds(self) -> float:
        return worker_seconds(self.workers)

    @property
    def most_workers(self) -> int:
        return max((number for _, number in self.workers), default=0)


def worker_seconds(samples: Sequence[tuple[float, int]]) -> float:
    """Return the time that processes ran, all together."""
    return sum((later - at) * number for (at, number), (later, _) in pairwise(samples))


def reversals(sizes: Sequence[int]) -> int:
    """Count the changes of direction: 1, 3, 6, 1, 6 has two."""
    steps = [later > before for before, later in pairwise(sizes) if later != before]
    return sum(later != before for before, later in pairwise(steps))


async def run_fleet(spec: BurstSpec, hosts: int, flags: Sequence[str]) -> FleetRun:
    """Crawl the site with `shoal fleet`, and watch its processes."""
    site_spec = msgspec.json.encode(spec).decode()
    async with serving("tests.site.bursts:build", site_spec, hosts=hosts + 1) as site:
        with tempfile.TemporaryDirectory(prefix="bench-autoscale-") as folder:
            command = [sys.executable, "-m", "shoal", "fleet", f"http://{site.authorities[0]}/index/0"]
            command += ["--any-host", "--allow-private", "--rate", f"{RATE:g}", "--concurrency", str(SLOTS)]
            command += ["--out", "items.jsonl", *flags]
            began = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                *command, cwd=folder, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
            )
            samples: list[tuple[float, int]] = []
            watching = asyncio.create_task(watch(process.pid, began, samples))
            try:
                async with asyncio.timeout(LONGEST_S):
                    _, printed = await process.communicate()
            finally:
                watching.cancel()
                if process.returncode is None:
                    process.terminate()
                    await process.wait()
            took = time.monotonic() - began
            if process.returncode != 0:
                raise SystemExit(
                    f"shoal fleet ended with exit code {process.returncode}:\n{printed.decode()}"
                )
            lines = len((Path(folder) / "items.jsonl").read_text().splitlines())
        hits = [hit for hit in await site.hits() if hit.path != "/robots.txt"]
    text = printed.decode()
    expected = spec.bursts * (spec.pages + 1)
    is_exact = len(hits) == expected == lines and max(Counter((h.host, h.path) for h in hits).values()) == 1
    sizes = [int(found[2]) for found in RESIZED.finditer(text)][:1]
    sizes += [int(found[1]) for found in RESIZED.finditer(text)]
    return FleetRun(took, drains(hits, spec.bursts), tuple(samples), tuple(sizes), text, is_exact)


async def watch(pid: int, began: float, samples: list[tuple[float, int]]) -> None:
    """Count the workers of a fleet until cancelled."""
    while True:
        workers = 0
        for child in psutil.Process(pid).children():
            try:
                workers += "worker" in child.cmdline() and child.status() != psutil.STATUS_ZOMBIE
            except psutil.NoSuchProcess:
                continue
        samples.append((time.monotonic() - began, workers))
        await asyncio.sleep(SAMPLE_S)


def drains(hits: Sequence[Hit], bursts: int) -> tuple[float, ...]:
    """Return how long each burst took."""
    begins = {hit.path: hit.arrived for hit in hits}
    ends = dict.fromkeys(range(bursts), 0.0)
    for hit in hits:
        _, kind, burst, *_ = hit.path.split("/")
        if kind == "page":
            ends[int(burst)] = max(ends[int(burst)], hit.ended)
    return tuple(ends[number] - begins[f"/index/{number}"] for number in range(bursts))


def faults(fixed: FleetRun, scaled: FleetRun, limited: FleetRun, *, workers: int, bursts: int) -> list[str]:
    """Return what does not hold."""
    checks = {
        "a page was missed or asked for twice": all(run.is_exact for run in (fixed, scaled, limited)),
        "it used as many worker-seconds as the fixed fleet": scaled.worker_seconds < fixed.worker_seconds,
        "it ended more than 10 % later than the fixed fleet": scaled.took_s <= 1.1 * fixed.took_s,
        "it never grew to its maximum": scaled.most_workers == workers,
        "it changed its mind within a burst": reversals(scaled.sizes) <= 2 * bursts - 1,
        "it started workers for a host that is the limit": limited.most_workers == 1,
        "it did not say that the host is the limit": "more would wait" in limited.printed,
    }
    return [fault for fault, holds in checks.items() if not holds]


async def compare(spec: BurstSpec, workers: int) -> tuple[FleetRun, FleetRun, FleetRun]:
    scale = ("--min", "1", "--max", str(workers), "--drain", f"{DRAIN_S:g}s")
    fixed = await run_fleet(spec, HOSTS, ("--workers", str(workers)))
    scaled = await run_fleet(spec, HOSTS, scale)
    one_host = BurstSpec(bursts=2, pages=80, pause_s=10.0, latency_s=spec.latency_s)
    return fixed, scaled, await run_fleet(one_host, 1, scale)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--bursts", type=int, default=4)
    parser.add_argument("--pages", type=int, default=1_800, help="of a burst")
    parser.add_argument("--pause", type=float, default=60.0, help="seconds between two bursts")
    parser.add_argument("--workers", type=int, default=6, help="of the fixed fleet; the most of the other")
    given = parser.parse_args()
    spec = BurstSpec(given.bursts, given.pages, given.pause, LATENCY_S)
    fixed, scaled, limited = asyncio.run(compare(spec, given.workers))
    print(f"{'':18}{'took':>9}{'worker-seconds':>16}{'bursts took':>34}   sizes")
    for name, run in (("fixed", fixed), ("follows its load", scaled), ("one slow host", limited)):
        bursts = ", ".join(f"{seconds:.1f}" for seconds in run.drains_s)
        sizes = " ".join(map(str, run.sizes)) or str(run.most_workers)
        print(f"{name:18}{run.took_s:>7.1f} s{run.worker_seconds:>16.0f}{bursts:>32} s   {sizes}")
    print(
        f"worker-seconds: {scaled.worker_seconds / fixed.worker_seconds:.2f} of the fixed fleet's;", end=" "
    )
    print(f"time: {scaled.took_s / fixed.took_s:.2f} of its")
    found = faults(fixed, scaled, limited, workers=given.workers, bursts=given.bursts)
    for fault in found:
        print(f"does not hold: {fault}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
