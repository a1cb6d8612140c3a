"""What the fetch log costs, and how quick its views are.

python -m bench.fetch_log cost     the same crawl with the log and without it, in turns
python -m bench.fetch_log rows     CPU per attempt of each step, which the scatter of whole crawls hides
python -m bench.fetch_log views    the ready views over generated attempts, 5 million by default
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bench import site
from bench.measure import run as measured
from bench.peers import Job, shoal_command
from bench.rounds import CRAWLER_CORE, SERVER_CORE, TIMEOUT
from bench.web_server import WebServer, serving
from shoal.archive.fetch_log import Row
from shoal.archive.fetch_log.blocks import Block, blocks_in, encode_block
from shoal.archive.fetch_log.columns import DEFAULTS
from shoal.archive.fetch_log.parquet import write_parquet
from shoal.engine.fetch_log.rows import settlement_row
from shoal.model.outcome import Done, Lease, Settlement
from shoal.model.page import PageRecord, PageRef, ParseResult, Timing
from shoal.model.request import Link, Request
from shoal.services.analysis.query import VIEWS, open_database

PAGES, ROUNDS = 10_000, 5
ATTEMPTS = 5_000_000
PART_ROWS, BLOCK_ROWS = 250_000, 10_000
MICRO = 1_000_000
ROWS = 20_000
RESULT = ParseResult(1, cpu=0.001)
QUERIES = {
    "attempts": "SELECT outcome, count(*), avg(total_ms) FROM attempts GROUP BY outcome",
    "pages": "SELECT version, count(*), sum(items) FROM pages GROUP BY version",
    "items": "SELECT count(*), max(key) FROM items",
    "hosts": "SELECT * FROM hosts ORDER BY p95_ms DESC LIMIT 20",
    "failures": "SELECT * FROM failures LIMIT 20",
    "cost": "SELECT * FROM cost",
}
FATES = (
    (200, "done", ""),
    (503, "retry", "target_error"),
    (404, "gone", "gone"),
    (0, "retry", "timeout"),
    (500, "dead", "target_error"),
    (429, "retry", "rate_limited"),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fetch_log")
    parser.add_argument("task", choices=("cost", "rows", "views"))
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--attempts", type=int, default=ATTEMPTS)
    args = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120)
    if args.task == "cost":
        return compare_cost(console, pages=args.pages, rounds=args.rounds)
    if args.task == "rows":
        return time_rows(console)
    return time_views(console, attempts=args.attempts)


def compare_cost(console: Console, *, pages: int, rounds: int) -> int:
    """Crawl with and without the log in turns, the order reversed each round; print CPU time per page."""
    costs: dict[bool, list[float]] = {True: [], False: []}
    row_bytes = 0.0
    with serving(site.made(pages), core=SERVER_CORE) as server:
        for number in range(rounds):
            for logs in (True, False) if number % 2 else (False, True):
                cost, size = crawl(server, pages, logs=logs)
                costs[logs].append(1e6 * cost / pages)
                row_bytes = size / pages if logs else row_bytes
    table = Table(title=f"{pages:,} pages, one core", title_justify="left")
    for column in ("fetch log", "CPU µs/page (median)", "runs"):
        table.add_column(column, justify="right")
    for logs, found in costs.items():
        table.add_row(
            "on" if logs else "off", f"{median(found):.0f}", " ".join(f"{cost:.0f}" for cost in found)
        )
    console.print(table)
    ratios = [on / off for on, off in zip(costs[True], costs[False], strict=True)]
    console.print(
        f"on / off, median of pairs: {median(ratios):.3f}; {row_bytes:.0f} bytes per row", highlight=False
    )
    return 0


def time_rows(console: Console) -> int:
    """Print the CPU time per attempt: making its row, its share of a block, and of a Parquet part."""
    settlements = [finished(number) for number in range(ROWS)]

    def make() -> list[Row]:
        found = [settlement_row(one, RESULT, worker="node-1-4711-ab12", version="v1") for one in settlements]
        return [row for row in found if row is not None]

    rows = make()

    def encode() -> list[bytes]:
        return [encode_block(rows[start : start + 1_000]) for start in range(0, ROWS, 1_000)]

    blocks = encode()

    def convert() -> bytes:
        return write_parquet(block for data in blocks for block in blocks_in(data))

    table = Table(title=f"{ROWS:,} attempts, best of {ROUNDS}", title_justify="left")
    for column in ("step", "CPU µs per attempt"):
        table.add_column(column, justify="right")
    steps: dict[str, Callable[[], object]] = {"row": make, "block": encode, "Parquet": convert}
    for name, step in steps.items():
        table.add_row(name, f"{1e6 * min(cpu_of(step) for _ in range(ROUNDS)) / ROWS:.2f}")
    console.print(table)
    return 0


def cpu_of(step: Callable[[], object]) -> float:
    began = time.process_time()
    step()
    return time.process_time() - began


def finished(number: int) -> Settlement:
    """Return a page that is done, as a crawl settles it."""
    request = Request(url=f"https://shop.example/catalogue/product-{number}/index.html")
    fingerprint = Link.to(request).fingerprint
    lease = Lease("shop", fingerprint, number, "shop.example", request, 1, 0, 0, 60.0, 0.0, 1)
    ref = PageRef("shop-20261117-00001.warc.gz", 3_000 * number, 2_900)
    page = PageRecord(ref, 200, 1.0, items=1, links=30)
    began = 1_794_000_000.0 + number
    timing = Timing(started_at=began, total=0.3, first_byte=0.2, body=0.04, wire_bytes=9_000)
    return Settlement(lease, Done(page), timing=timing)


def crawl(server: WebServer, pages: int, *, logs: bool) -> tuple[float, int]:
    """Return the CPU seconds of a crawl, and the bytes of its log."""
    with tempfile.TemporaryDirectory(prefix="bench-log-") as folder:
        run = Path(folder)
        env = {"SHOAL_FETCH_LOG_ENABLED": "true" if logs else "false"}
        cost = measured(
            shoal_command(Job(server.url, run)), folder=run, cores=(CRAWLER_CORE,), env=env, timeout=TIMEOUT
        )
        assert cost.exit_code == 0, cost
        size = sum(path.stat().st_size for path in run.rglob("attempts/*") if path.is_file())
        assert bool(size) is logs
        return cost.cpu_s, size


def time_views(console: Console, *, attempts: int) -> int:
    """Generate attempts, then run a query on each view; print seconds."""
    folder = Path(tempfile.mkdtemp(prefix="bench-views-"))
    try:
        console.print(f"generating {attempts:,} attempts", highlight=False)
        parts = list(generate(folder, attempts))
        size = sum(part.stat().st_size for part in parts)
        table = Table(
            title=f"{attempts:,} attempts, {size / attempts:.0f} bytes per row", title_justify="left"
        )
        for column in ("view", "seconds", "CPU seconds"):
            table.add_column(column, justify="right")
        database = open_database(parts, folder)
        for view in VIEWS:
            began, began_cpu = time.perf_counter(), time.process_time()
            database.query(QUERIES[view])
            took, cpu = time.perf_counter() - began, time.process_time() - began_cpu
            table.add_row(view, f"{took:.2f}", f"{cpu:.2f}")
        console.print(table)
    finally:
        shutil.rmtree(folder)
    return 0


def generate(folder: Path, attempts: int) -> Iterator[Path]:
    """Write parts with attempts at 400 hosts, 7 % of which fail."""
    dice = random.Random(1)
    for number, first in enumerate(range(0, attempts, PART_ROWS)):
        part = folder / f"part-{number:05d}.parquet"
        part.write_bytes(write_parquet(_blocks(dice, first, min(PART_ROWS, attempts - first))))
        yield part


def _blocks(dice: random.Random, first: int, rows: int) -> Iterator[Block]:
    for start in range(first, first + rows, BLOCK_ROWS):
        end = min(start + BLOCK_ROWS, first + rows)
        yield from blocks_in(encode_block([attempt(dice, number) for number in range(start, end)]))


def attempt(dice: random.Random, number: int) -> Row:
    host = dice.randrange(400)
    status, outcome, failure = FATES[0] if dice.random() < 0.93 else dice.choice(FATES[1:])
    is_page = outcome == "done"
    values = {
        "started_at": 1_794_000_000 * MICRO + 700 * number,
        "crawl": "shop",
        "fingerprint": dice.getrandbits(63),
        "found_on": number // 30 * 977,
        "url": f"https://shop-{host}.example/catalogue/product-{dice.randrange(10**7)}/index.html",
        "host": f"shop-{host}.example",
        "method": "GET",
        "status": status,
        "outcome": outcome,
        "failure": failure,
        "reason": f"status {status}" if failure else "",
        "attempt": 1,
        "worker": f"node-{host % 8}-4711-ab12",
        "pool": "http",
        "level": "plain",
        "address": f"192.0.2.{host % 250}",
        "sent": 1,
        "total_ms": round(dice.expovariate(1 / 300), 1),
        "first_byte_ms": round(dice.expovariate(1 / 200), 1),
        "body_ms": round(dice.expovariate(1 / 40), 1),
        "parse_ms": round(dice.expovariate(1), 1),
        "wire_bytes": dice.randrange(8_000, 16_000),
        "body_bytes": dice.randrange(20_000, 60_000),
        "segment": "shop-20261117-00001.warc.gz" if is_page else "",
        "offset": 3_000 * number if is_page else 0,
        "length": dice.randrange(2_500, 5_000) if is_page else 0,
        "items": int(is_page),
        "links": dice.randrange(30) if is_page else 0,
        "version": "77aac568a1b6" if is_page else "",
    }
    return tuple({**DEFAULTS, **values}.values())


if __name__ == "__main__":
    sys.exit(main())
