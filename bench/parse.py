"""What handing a page to a parse child costs the parent, and what the child spends on it.

python -m bench.parse [--pages 5000] [--procs 1] [--profile]
"""

import argparse
import asyncio
import cProfile
import pstats
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil
import uvloop

from bench.site import FIELDS, page, path_of
from shoal.model.limits import MIB, ParseLimits
from shoal.model.page import ParseResult, ParseTask
from shoal.model.request import Request
from shoal.parse.channel import Channel, PendingPage
from shoal.parse.pool import ParsePool, Poisoned
from shoal.spider.source import PlainSpider

SITE = 100_000  # pages that links may lead to: most links are new, as in the middle of a crawl
ROUND = 500  # pages
HEADERS = (("content-type", "text/html; charset=utf-8"), ("content-length", "12000"), ("server", "nginx"))


def make_tasks(count: int) -> list[ParseTask]:
    tasks = []
    for number in range(count):
        url = f"https://shop.example{path_of(number)}"
        body = page(number, SITE).encode()
        tasks.append(ParseTask(number, number, Request(url=url), url, 200, HEADERS, body, 1_763_239_200.5))
    return tasks


async def feed(pool: ParsePool, tasks: Sequence[ParseTask], window: int) -> int:
    """Parse all tasks, keeping `window` of them in the pool; return how many links they brought."""
    links = 0
    waiting = iter(tasks)
    done = asyncio.get_running_loop().create_future()
    left = len(tasks)

    def take(answer: ParseResult | Poisoned) -> None:
        nonlocal links, left
        assert isinstance(answer, ParseResult), answer
        assert answer.fault is None, answer.fault
        links += len(answer.requests)
        left -= 1
        if (task := next(waiting, None)) is not None:
            pool.submit(task, take)
        elif left == 0:
            done.set_result(None)

    for _, task in zip(range(window), waiting, strict=False):
        pool.submit(task, take)
    await done
    return links


async def measure(
    tasks: Sequence[ParseTask], *, procs: int, window: int, profile: cProfile.Profile | None
) -> str:
    """Return a line of figures: the best of some rounds, because the rest is the machine's noise."""
    spider = PlainSpider("bench", (tasks[0].url,), dict(FIELDS))
    parents, children, rates, links = [], [], [], 0
    async with ParsePool.open(spider, procs=procs, limits=ParseLimits()) as pool:
        await feed(pool, tasks[:ROUND], window)
        family = psutil.Process().children(recursive=True)
        for first in range(ROUND, len(tasks), ROUND):
            mine, theirs, start = time.process_time(), cpu(family), time.perf_counter()
            if profile:
                profile.enable()
            links += await feed(pool, tasks[first : first + ROUND], window)
            if profile:
                profile.disable()
            parents.append((time.process_time() - mine) / ROUND * 1e6)
            children.append((cpu(family) - theirs) / ROUND * 1e6)
            rates.append(ROUND / (time.perf_counter() - start))
    return (
        f"{window:4} in the pool:  parent {min(parents):5.1f} µs a page   child {min(children):6.1f} µs"
        f"   {max(rates):6.0f} pages/s   {links / (len(tasks) - ROUND):.1f} links a page"
    )


async def sending(tasks: Sequence[ParseTask]) -> str:
    """Return what encoding and sending costs the parent, a page, by the number of pages in a message."""
    figures = []
    for size in (1, 4, 16, 64):
        channel = Channel[ParseResult](1, asyncio.get_running_loop(), output_bytes=MIB)
        pending_pages = [PendingPage[ParseResult](task, print) for task in tasks[:size]]
        best = float("inf")
        with channel.open(lambda _: None) as child:
            child.setblocking(False)
            for _ in range(300):
                start = time.thread_time()
                channel.send(pending_pages)
                best = min(best, time.thread_time() - start)
                with suppress(BlockingIOError):
                    while child.recv(4 * MIB):  # noqa: ASYNC110 (the channel sends what did not fit at first)
                        await asyncio.sleep(0)
        channel.close()
        figures.append(f"{best / size * 1e6:.1f} µs ({size})")
    return "sending:  " + "   ".join(figures)


def cpu(family: Sequence[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in family)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--pages", type=int, default=5000)
    options.add_argument("--procs", type=int, default=1)
    options.add_argument("--profile", action="store_true")
    chosen = options.parse_args()
    tasks = make_tasks((1 + max(1, chosen.pages // ROUND)) * ROUND)
    print(
        f"pages of {sum(len(task.body) for task in tasks) / len(tasks) / 1000:.1f} KB, {chosen.procs} procs"
    )
    print(uvloop.run(sending(tasks)))
    for window in (256, 8, 1):
        profile = cProfile.Profile() if chosen.profile else None
        print(uvloop.run(measure(tasks, procs=chosen.procs, window=window, profile=profile)))
        if profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(15)


if __name__ == "__main__":
    main()
