"""`python -m bench.fleet`: every figure of the frontier on Redis, as tables."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.fleet import cost, full, line, loops, memory

TASKS = ("cost", "memory", "line", "loops", "idle", "full")
console = Console(width=None if sys.stdout.isatty() else 120)


async def run(tasks: Sequence[str], *, quick: bool, server: str) -> None:
    if "cost" in tasks:
        sizes = [100_000] if quick else [1_000_000, 5_000_000]
        found = [one for hosts in (1_000, 100_000) for one in await cost.costs(hosts, sizes, server=server)]
        show(
            "CPU time of the server per URL (us), at so many queued",
            ("hosts", "queued", "add x100", "seen before", "lease x50 + settle", "turn x20", "one EXISTS"),
            [
                (
                    one.hosts,
                    one.queued,
                    one.add_us,
                    one.again_us,
                    one.life_us,
                    one.turn_us,
                    f"{one.exists_us:.2f}",
                )
                for one in found
            ],
        )
        show(
            "Memory per URL (bytes)",
            ("hosts", "queued", "all", "of that, seen"),
            [(one.hosts, one.queued, one.bytes_per_url, one.seen_bytes) for one in found],
        )
    if "memory" in tasks:
        kept = [await memory.spilled(100_000 if quick else 400_000, place) for place in memory.PLACES]
        show(
            "One host with a long queue (bytes per URL)",
            ("chunks", "URLs", "spilled", "server", "elsewhere", "back in order"),
            [
                (one.place, one.urls, one.spilled, one.server_bytes, one.chunk_bytes, one.in_order)
                for one in kept
            ],
        )
    if "line" in tasks:
        front, others = (20_000, 20) if quick else (200_000, 200)
        served = await line.compare(4.0 if quick else 8.0, front, others)
        show(
            f"One host in front of 999 others; {line.IDEAL:.0f} URLs/s are possible",
            ("design", "URLs/s", "of the best", "hosts", "too early", "of gaps", "calls/URL", "server CPU"),
            [
                (
                    one.design,
                    one.urls / one.seconds,
                    f"{one.urls / served[0].urls:.1%}",
                    len(one.starts),
                    one.too_early,
                    len(one.gaps),
                    one.calls / max(one.urls, 1),
                    f"{one.cpu / one.seconds:.1%}",
                )
                for one in served
            ],
        )
    if "loops" in tasks:
        crowd = await loops.crowd(1000, 1000, 10.0 if quick else 30.0)
        show(
            "A thousand loops that lease one URL at a time from a thousand hosts",
            (
                "URLs",
                "too early",
                "lease p50 ms",
                "p99 ms",
                "p99 at the server",
                "longest hunger s",
                "server CPU",
            ),
            [
                (
                    crowd.urls,
                    crowd.too_early,
                    1000 * crowd.p50,
                    1000 * crowd.p99,
                    1000 * crowd.script_p99,
                    max(crowd.hunger),
                    f"{crowd.cpu / crowd.seconds:.1%}",
                )
            ],
        )
    if "idle" in tasks:
        asked = await loops.idle(100, 10.0 if quick else 30.0)
        show("A hundred workers with nothing to do", ("calls per worker and second",), [(asked,)])
    if "full" in tasks:
        drained = await full.drained()
        show(
            "A server without memory left",
            ("accepted before", "adds refused", "ended", "left over", "problems"),
            [(drained.accepted, drained.refused, drained.ended, drained.left, drained.problems)],
        )


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*map(_text, row))
    console.print(table)


def _text(value: object) -> str:
    match value:
        case bool() | str():
            return str(value)
        case float():
            return f"{value:,.1f}"
        case _:
            return f"{value:,}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.fleet", description="Measure the frontier on Redis."
    )
    parser.add_argument("tasks", nargs="*", default=TASKS, metavar="TASK", help=f"out of {', '.join(TASKS)}")
    parser.add_argument(
        "--quick", action="store_true", help="100,000 URLs and short runs: a look, not a figure"
    )
    parser.add_argument(
        "--server", choices=("redis", "valkey"), default="redis", help="(default: %(default)s)"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.tasks) - set(TASKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    logging.getLogger("shoal").setLevel(logging.ERROR)  # that nothing is saved to a disk is meant to be so
    asyncio.run(run(arguments.tasks, quick=arguments.quick, server=arguments.server))


if __name__ == "__main__":
    main()
