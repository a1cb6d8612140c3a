"""Parse processes that many crawls share: bounded, fair, and one crawl in each."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.parse.tasks import task

from shoal.model.errors import Misconfigured
from shoal.model.limits import ParseLimits
from shoal.model.page import ParseResult
from shoal.model.sandbox import SandboxMode, SandboxRules
from shoal.parse import batch
from shoal.parse.page_memory import PageMemory, estimated_bytes
from shoal.parse.pool import Answer, Poisoned
from shoal.parse.shared_parsers import SharedParsers, SharedPool
from shoal.spider.source import SpiderFile

CODE = """
import os, time
import shoal

spider = shoal.Spider("shared", start="https://a.test/")
seen = []

@spider.page()
def page(page):
    seen.append(page.url)
    if b"crash" in page.body:
        os._exit(9)
    if b"slow" in page.body:
        time.sleep(0.05)
    yield {{"pid": os.getpid(), "parent": os.getppid(), "first": seen[0], "number": {number}}}
"""
RULES = SandboxRules(SandboxMode.OFF)


@asynccontextmanager
async def pool(
    shared: SharedParsers, folder: Path, number: int = 0, **options: Any
) -> AsyncIterator[SharedPool]:
    path = folder / f"spider{number}.py"
    path.write_text(options.pop("code", CODE).format(number=number))
    source, limits = SpiderFile(str(path)), ParseLimits(crashes=2)
    async with shared.pool(source, procs=2, limits=limits, sandbox=RULES, **options) as opened:
        yield opened


async def parse(pool: SharedPool, *bodies: str, name: str = "crawl") -> list[Answer]:
    answers: list[Answer] = []
    for number, body in enumerate(bodies):
        pool.submit(task(number, f"{name}/{number}", body.encode()), answers.append)
    await pool.drain()
    return answers


def items(answers: list[Answer]) -> list[dict[str, Any]]:
    return [
        msgspec.json.decode(item.json)
        for one in answers
        if isinstance(one, ParseResult)
        for item in one.items
    ]


async def test_crawls_with_the_same_spider_share_its_process_and_no_child(tmp_path: Path) -> None:
    async with SharedParsers.open(max_children=4, max_spiders=2) as shared, AsyncExitStack() as stack:
        pools = [await stack.enter_async_context(pool(shared, tmp_path)) for _ in range(4)]
        found = await asyncio.gather(*(parse(one, "a", "b", name=f"crawl{n}") for n, one in enumerate(pools)))

    of_child = defaultdict(set)
    for number, answers in enumerate(found):
        for item in items(answers):
            of_child[item["pid"]].add(number)
            assert item["first"].startswith(f"http://a.test/crawl{number}/")
    assert [len(crawls) for crawls in of_child.values()] == [1] * len(of_child)
    assert len({item["parent"] for answers in found for item in items(answers)}) == 1


async def test_more_crawls_and_spiders_than_processes_take_turns(tmp_path: Path) -> None:
    async with SharedParsers.open(max_children=2, max_spiders=2) as shared, AsyncExitStack() as stack:
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, shared.processes)
                await asyncio.sleep(0.01)

        watching = asyncio.create_task(watch())
        opened = [stack.enter_async_context(pool(shared, tmp_path, n % 3)) for n in range(9)]
        pools = await asyncio.gather(*opened)
        found = await asyncio.gather(*(parse(one, "a", "b", "c") for one in pools))
        watching.cancel()

    assert [len(items(answers)) for answers in found] == [3] * 9
    assert [{item["number"] for item in items(answers)} for answers in found] == [{n % 3} for n in range(9)]
    assert most <= 4


async def test_a_small_crawl_is_not_behind_a_big_one(tmp_path: Path) -> None:
    async with (
        SharedParsers.open(max_children=1, max_spiders=1) as shared,
        pool(shared, tmp_path) as big,
        pool(shared, tmp_path) as small,
    ):
        answers: list[Answer] = []
        for number in range(100):
            big.submit(task(number, body=b"slow"), answers.append)
        while not answers:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert len(items(await parse(small, "a", "b"))) == 2
        assert len(answers) < 100
        await big.drain()
        assert len(items(answers)) == 100


async def test_large_pages_of_a_crawl_are_parsed_while_another_never_runs_out_of_them(tmp_path: Path) -> None:
    large = b"a" * (batch.MAX_BYTES + 1)
    async with (
        SharedParsers.open(max_children=3, max_spiders=1) as shared,
        pool(shared, tmp_path) as busy,
        pool(shared, tmp_path) as other,
    ):
        shared.memory = busy._memory = other._memory = PageMemory(2 * estimated_bytes(large) - 1)
        submitted, found = 2, list[Answer]()

        def submit_next(_: Answer) -> None:
            nonlocal submitted
            if not found and submitted < 300:
                submitted += 1
                busy.submit(task(submitted, body=large), submit_next)

        for number in range(2):
            busy.submit(task(number, body=large), submit_next)
        for number in range(3):
            other.submit(task(number, body=large), found.append)
        await other.drain()
        await busy.drain()

    assert len(items(found)) == 3
    assert submitted < 300, "the other crawl had its turn"
    assert shared.memory.used == 0


async def test_pages_of_crawls_that_compete_are_gathered_for_one_child(tmp_path: Path) -> None:
    crawls, pages = 6, 6
    async with SharedParsers.open(max_children=1, max_spiders=1) as shared, AsyncExitStack() as stack:
        pools = [await stack.enter_async_context(pool(shared, tmp_path)) for _ in range(crawls)]
        answers: list[Answer] = []
        for number in range(pages):  # as they arrive if each crawl may send one request at a time
            for one in pools:
                one.submit(task(number, f"{number}", b"a"), answers.append)
            await asyncio.sleep(0.01)
        for one in pools:
            await one.drain()

    found = items(answers)
    assert len(found) == crawls * pages
    assert len({item["pid"] for item in found}) <= crawls * pages / 2


async def test_a_crash_costs_its_own_crawl_one_page(tmp_path: Path) -> None:
    async with (
        SharedParsers.open(max_children=2, max_spiders=1) as shared,
        pool(shared, tmp_path) as first,
        pool(shared, tmp_path) as second,
    ):
        crashed, sound = await asyncio.gather(parse(first, "a", "crash", "b"), parse(second, *"abcdef"))

    assert sum(isinstance(answer, Poisoned) for answer in crashed) == 1
    assert (len(items(crashed)), len(items(sound))) == (2, 6)


async def test_a_spider_that_cannot_be_loaded_is_refused_and_costs_no_place(tmp_path: Path) -> None:
    async with SharedParsers.open(max_children=1, max_spiders=1) as shared:
        with pytest.raises(Misconfigured, match="ZeroDivisionError"):
            async with pool(shared, tmp_path, 7, code="1 / 0"):
                pass
        async with pool(shared, tmp_path) as other:
            assert len(items(await parse(other, "a"))) == 1
