"""`python -m bench`: the whole comparison in one run, as tables and, with --json, as numbers."""

import argparse
import dataclasses
import json
import os
import platform
import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from bench import figures, growth, peers, profile, site
from bench.redis_server import redis_beside
from bench.rounds import CRAWLER_CORE, SERVER_CORE, Course, Result, interleaved
from bench.web_server import serving

NAMES = ("shoal", "minimal", "scrapy", "redis")  # redis: Shoal and scrapy-redis, on one
console = Console(width=None if sys.stdout.isatty() else 120)


def main() -> int:
    args = _arguments()
    if args.task == "growth":
        pages = args.pages or growth.PAGES
        return growth.main(console, pages=pages, queued=args.queued, rounds=args.rounds)
    if (os.cpu_count() or 1) <= CRAWLER_CORE:
        sys.exit("bench: two cores are needed, one for the server and one for the crawler")
    pages = args.pages or (4_000 if args.quick else 20_000)
    with (
        serving(site.made(pages), core=SERVER_CORE) as server,
        redis_beside(core=SERVER_CORE) as redis,
    ):
        if args.profile:
            return profile.record(
                console, server.url, args.profile, redis="" if "shoal" in args.only else redis.dsn
            )
        console.print(f"{pages:,} pages from {server.name} on {platform.processor() or platform.machine()}")
        return _compare(args, Course(server, redis, pages))


def _compare(args: argparse.Namespace, course: Course) -> int:
    rounds, cap = (1, 300) if args.quick else (args.rounds, args.cap)
    chosen = []
    if "shoal" in args.only:
        chosen.append(peers.shoal())
    if "redis" in args.only:
        chosen += [peers.shoal(on_redis=True), peers.scrapy(cap=cap, on_redis=True)]
    if "scrapy" in args.only:
        chosen += [peers.scrapy(cap=cap), peers.scrapy(cap=cap, follow=False)]
    one_core = _told(interleaved(chosen, peers.minimal(), course, rounds=rounds))
    all_cores: list[Result] = []
    if "shoal" in args.only:
        whole, reference = peers.shoal(all_cores=True), peers.minimal(processes=2)
        all_cores = _told(interleaved([whole], reference, course, rounds=rounds))
    found = figures.figures(one_core, all_cores)
    figures.show(console, "One core for the crawler, another for the server", one_core)
    if all_cores:
        figures.show(console, "All cores, shared with the server", all_cores)
    if found:
        figures.show_verdict(console, found)
    if args.json:
        args.json.write_text(
            json.dumps(
                {
                    "pages": course.pages,
                    "server": course.server.name,
                    "one_core": [dataclasses.asdict(result) for result in one_core],
                    "all_cores": [dataclasses.asdict(result) for result in all_cores],
                    "figures": [dataclasses.asdict(figure) | {"reached": figure.verdict} for figure in found],
                },
                indent=1,
            )
        )
    # Speed is for people to judge; a crawl that loses or repeats something is wrong on any machine.
    ours = [result for result in (*one_core, *all_cores) if result.is_ours]
    return 0 if all(result.exactly_once for result in ours) else 1


def _told(results: Iterable[Result]) -> list[Result]:
    """Take the results one by one and say so: a run takes minutes."""
    taken = []
    for result in results:
        where = "all cores" if result.all_cores else "one core"
        speed = f"{result.pages_per_s:8,.0f} pages/s {result.cpu_ms_per_page:7.3f} ms CPU/page"
        console.print(f"  {result.crawler:13} {where:9} {speed}", highlight=False)
        taken.append(result)
    return taken


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Compare Shoal with its peers.")
    parser.add_argument("task", nargs="?", choices=("crawl", "growth"), default="crawl")
    parser.add_argument("--pages", type=int, default=0, help="size of the site (default: 20,000)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each crawler (default: %(default)s)")
    parser.add_argument("--cap", type=int, default=1_500, help="pages for Scrapy (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="one round on 4,000 pages: a look, not a figure")
    only = f"out of {', '.join(NAMES)}"
    parser.add_argument("--only", type=_names, default=NAMES, metavar="A,B", help=only)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all runs and figures there too")
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="profile Shoal's processes instead; with --only redis, those on Redis",
    )
    parser.add_argument("--queued", type=int, default=1_000_000, help="growth: URLs that already wait")
    return parser.parse_args()


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(NAMES):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
    return names


if __name__ == "__main__":
    sys.exit(main())
