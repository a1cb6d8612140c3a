"""What a crawl through an exit costs, beside the same crawl without one: the whole command, all pages.

    python -m bench.exits [--pages 5000] [--rounds 3]

The crawler has one core, the web server and the exit share the other. Exits are real proxies with a
password, with as many connections as the crawl has requests at once. Runs are interleaved; the median round
counts.
"""

import argparse
import asyncio
import statistics
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tests.servers.proxies import Microsocks, Squid, Tinyproxy, proxy_server

from bench import peers, site
from bench.measure import started_on
from bench.redis_server import redis_beside
from bench.rounds import SERVER_CORE, Course, Result, measure
from bench.web_server import serving

DIRECT = "direct"
MADE = {"tinyproxy": Tinyproxy, "microsocks": Microsocks, "squid": Squid}


def through(name: str, line: str) -> peers.Crawler:
    """Crawl as `peers.shoal` does, through an exit."""
    env = {"SHOAL_PROXY_LIST": f"{line} connections={peers.CONCURRENCY}"} if line else {}
    return peers.Crawler(name, peers.shoal_command, env, is_ours=True)


async def compare(course: Course, rounds: int) -> dict[str, list[Result]]:
    """Return the results of each round by way."""
    found: dict[str, list[Result]] = {}
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-exits-")))
        lines = {DIRECT: ""}
        with started_on([SERVER_CORE]):
            for name, make in MADE.items():
                proxy = await stack.enter_async_context(proxy_server(make, folder / name))
                lines[name] = proxy.line
        for _ in range(rounds):
            for name, line in lines.items():
                result = await asyncio.to_thread(measure, through(name, line), course)
                found.setdefault(name, []).append(result)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pages", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with serving(site.made(args.pages), core=SERVER_CORE) as server, redis_beside(core=SERVER_CORE) as redis:
        found = asyncio.run(compare(Course(server, redis, args.pages), args.rounds))
    columns = ("pages/s", "÷ direct", "CPU ms/page", "÷ direct", "every page exactly once")
    table = Table("", *columns, title=f"a crawl of {args.pages:,} pages of one host", title_justify="left")
    medians = {
        name: (
            statistics.median(result.pages_per_s for result in results),
            statistics.median(result.cpu_ms_per_page for result in results),
        )
        for name, results in found.items()
    }
    for name, (pace, cpu) in medians.items():
        own_pace, own_cpu = medians[DIRECT]
        once = "yes" if all(result.exactly_once for result in found[name]) else "NO"
        table.add_row(
            name, f"{pace:,.0f}", f"{pace / own_pace:.2f}", f"{cpu:.2f}", f"{cpu / own_cpu:.2f}", once
        )
    Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
