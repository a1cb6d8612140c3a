"""Does a page cost more when the frontier is fuller? The same crawl, with few and with many URLs waiting.

A store is made for each size: a first crawl finds enough real pages, then URLs of the last priority on other
hosts are added through the frontier itself. The measured run fetches more of the real pages. What opening
the store costs is measured by a run that has nothing left to do, and taken off.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bench import site
from bench.measure import Cost
from bench.measure import run as measured
from bench.peers import Job, shoal_command
from bench.rounds import CRAWLER_CORE, SERVER_CORE, TIMEOUT
from bench.web_server import WebServer, serving
from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.request import LAST, Link, Request
from shoal.stores.folder.directory import StoreFolder

PAGES = 3_000  # of each measured run
FIRST_PAGES = 1_000  # crawled beforehand: they lead to enough others
FEW = 10_000
SHOP_PAGES = 20_000
HOST_URLS = 100
BATCH = 1_000
CRAWL = "growth"


def main(console: Console, *, pages: int, queued: int, rounds: int) -> int:
    """Measure with `FEW` and with `queued` URLs waiting, in turns, and print what a page costs."""
    costs: dict[int, list[float]] = {FEW: [], queued: []}
    shop = site.made(SHOP_PAGES)
    with (
        tempfile.TemporaryDirectory(prefix="bench-growth-") as folder,
        serving(shop, core=SERVER_CORE) as server,
    ):
        run = Path(folder, "run")  # always the same one: a crawl knows its outputs by their path
        for size in costs:
            console.print(f"  making a store with {size:,} URLs waiting", highlight=False)
            _make(server, run, size)
            run.rename(Path(folder, str(size)))
        for _ in range(rounds):
            for size, found in costs.items():
                shutil.copytree(Path(folder, str(size)), run)
                opening = _crawl(server, run, pages=FIRST_PAGES)
                whole = _crawl(server, run, pages=FIRST_PAGES + pages)
                shutil.rmtree(run)
                found.append(1000 * (whole.cpu_s - opening.cpu_s) / pages)
    table = Table(title=f"Cost of {pages:,} pages", title_justify="left")
    for column in ("URLs waiting", "CPU ms/page (median)", "runs"):
        table.add_column(column, justify="right")
    for size, found in costs.items():
        table.add_row(f"{size:,}", f"{median(found):.3f}", " ".join(f"{cost:.3f}" for cost in found))
    console.print(table)
    console.print(f"ratio {median(costs[queued]) / median(costs[FEW]):.2f}", highlight=False)
    return 0


def _make(server: WebServer, folder: Path, size: int) -> None:
    """Make a store that has crawled a little and holds `size` URLs more."""
    folder.mkdir()
    _crawl(server, folder, pages=FIRST_PAGES)
    asyncio.run(_fill(folder / "store", size))


async def _fill(store: Path, size: int) -> None:
    with StoreFolder(store).owned() as owned:
        async with SqliteFrontier.open(owned.database) as frontier:
            await frontier.crawls.open(CRAWL)
            for first in range(0, size, BATCH):
                links = [
                    Link.to(Request(url=f"http://h{n // HOST_URLS}.queued.example/{n}", priority=LAST))
                    for n in range(first, min(first + BATCH, size))
                ]
                await frontier.add(CRAWL, links)


def _crawl(server: WebServer, folder: Path, *, pages: int) -> Cost:
    # More per host than at once: a host that is full would let those that only wait have a turn.
    limits = ("--max-pages", str(pages), "--per-host", "1000", "--crawl", CRAWL)
    command = [*shoal_command(Job(server.url, folder)), *limits]
    cost = measured(command, folder=folder, cores=(CRAWLER_CORE,), env={}, timeout=TIMEOUT)
    assert cost.exit_code == 0, cost
    return cost
