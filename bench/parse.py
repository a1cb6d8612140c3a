"""What handing a page to a parse child costs the parent, and what the child spends on it.

python -m bench.parse [--pages 5000] [--procs 1] [--profile]
"""

import argparse
import asyncio
import cProfile
import pstats
import time
from collections.abc import Sequence

import psutil
import uvloop

from bench.site import FIELDS, page, path_of
from shoal.model.limits import ParseLimits
from shoal.model.page import ParseResult, ParseTask
from shoal.model.request import Request
from shoal.parse.pool import ParsePool, Poisoned
from shoal.spider.source import PlainSpider

SITE = 100_000  # pages that links may lead to: most links are new, as in the middle of a crawl
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
        links += len(answer.links)
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
    """Return a line of figures."""
    spider = PlainSpider("bench", (tasks[0].url,), dict(FIELDS))
    async with ParsePool.open(spider, procs=procs, limits=ParseLimits()) as pool:
        await feed(pool, tasks[:200], window)
        family = psutil.Process().children(recursive=True)
        parent, children, start = time.process_time(), cpu(family), time.perf_counter()
        if profile:
            profile.enable()
        links = await feed(pool, tasks[200:], window)
        if profile:
            profile.disable()
        elapsed = time.perf_counter() - start
        count = len(tasks) - 200
        mine, theirs = (time.process_time() - parent) / count, (cpu(family) - children) / count
    return (
        f"{window:4} in the pool:  parent {mine * 1e6:5.1f} µs a page   child {theirs * 1e6:6.1f} µs"
        f"   {count / elapsed:6.0f} pages/s   {links / count:.1f} links a page"
    )


def cpu(family: Sequence[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in family)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--pages", type=int, default=5000)
    options.add_argument("--procs", type=int, default=1)
    options.add_argument("--profile", action="store_true")
    chosen = options.parse_args()
    tasks = make_tasks(chosen.pages + 200)
    print(
        f"pages of {sum(len(task.body) for task in tasks) / len(tasks) / 1000:.1f} KB, {chosen.procs} procs"
    )
    for window in (256, 8, 1):
        profile = cProfile.Profile() if chosen.profile else None
        print(uvloop.run(measure(tasks, procs=chosen.procs, window=window, profile=profile)))
        if profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(15)


if __name__ == "__main__":
    main()
