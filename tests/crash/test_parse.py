"""Real children, and spiders that do their worst to them: what a page does costs that page and nothing else."""

import asyncio
import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.unit.parse.tasks import task

from shoal.model.errors import Misconfigured
from shoal.model.limits import MIB, ParseLimits
from shoal.model.page import ParseResult
from shoal.model.sandbox import SandboxRules
from shoal.model.scope import Scope
from shoal.parse.channel import STALLED_S
from shoal.parse.page_memory import PageMemory
from shoal.parse.pool import IMPORT_RETRIES, ParsePool, Poisoned, describe
from shoal.parse.shared_parsers import SharedParsers
from shoal.parse.verdict import PoisonCause
from shoal.spider.source import PlainSpider, SpiderFile

NASTY = Path(__file__).parent / "nasty_spider.py"
LIMITS = ParseLimits(cpu=1, wall=60, memory_bytes=128 * MIB, output_bytes=MIB, items=5_000, crashes=2)
TIGHTER = {
    "sleep": replace(LIMITS, wall=1),
    "deaf": replace(LIMITS, wall=1),
    "block": replace(LIMITS, wall=1),
    "hold": replace(LIMITS, wall=1),
    "shout": replace(LIMITS, wall=1),
    "bloat": replace(LIMITS, output_bytes=MIB // 8),
}

Answer = ParseResult | Poisoned


@asynccontextmanager
async def opened(
    spider: Path = NASTY, *, procs: int = 2, limits: ParseLimits = LIMITS
) -> AsyncIterator[ParsePool]:
    async with ParsePool.open(SpiderFile(str(spider)), procs=procs, limits=limits) as pool:
        yield pool


async def parse(pool: ParsePool, deeds: Iterable[str]) -> list[Answer]:
    """Parse a page for each deed and return the answers in the same order."""
    answers: dict[int, Answer] = {}
    deeds = list(deeds)

    def note(answer: Answer) -> None:
        assert answer.id not in answers, "answered twice"
        answers[answer.id] = answer

    for number, deed in enumerate(deeds):
        pool.submit(task(number, deed), note)
    await pool.drain()
    assert answers.keys() == set(range(len(deeds)))
    return [answers[number] for number in range(len(deeds))]


def open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def family() -> list[psutil.Process]:
    """List the zygotes and all that came of them; the servers of other tests are no concern of ours."""
    ours = [
        child
        for child in psutil.Process().children()
        if child.status() == psutil.STATUS_ZOMBIE or "shoal.parse.zygote" in child.cmdline()
    ]
    return [process for child in ours for process in (child, *child.children(recursive=True))]


def items(answer: Answer) -> list[dict[str, Any]]:
    assert isinstance(answer, ParseResult)
    assert answer.fault is None, answer.fault
    return [json.loads(item.json) for item in answer.items]


async def parse_among_good(pool: ParsePool, deed: str) -> Answer:
    """Parse one page with well-behaved ones around it, which must come out untouched."""
    around = [f"good-{n}" for n in range(24)]
    answers = await parse(pool, [*around[:12], deed, *around[12:]])
    answer = answers.pop(12)
    assert [items(good) for good in answers] == [[{"before": good}, {"deed": good}] for good in around]
    return answer


@pytest.mark.parametrize(
    ("deed", "kind", "reason"),
    [
        ("segfault", PoisonCause.CRASH, "SIGSEGV"),
        ("abort", PoisonCause.CRASH, "SIGABRT"),
        ("quit", PoisonCause.CRASH, "status 0"),
        ("exit", PoisonCause.CRASH, "SystemExit"),
        ("interrupt", PoisonCause.CRASH, "SystemExit or the like"),
        ("pretend", PoisonCause.CRASH, "status 81"),
        ("regex", PoisonCause.TIMEOUT, "more than 1 s of CPU"),
        ("sleep", PoisonCause.TIMEOUT, "no result after 1 s"),
        ("deaf", PoisonCause.TIMEOUT, ""),
        ("block", PoisonCause.TIMEOUT, "no result after 1 s"),
        ("hold", PoisonCause.TIMEOUT, "no result after 1 s"),
        ("shout", PoisonCause.TIMEOUT, ""),
        ("allocate", PoisonCause.OOM, "more than 128 MiB"),
        ("bloat", PoisonCause.OUTPUT, "0.125 MiB of output"),
        ("endless", PoisonCause.OUTPUT, "more than 5000 items"),
        ("huge", PoisonCause.OUTPUT, "1 MiB of output"),
        ("junk", PoisonCause.INVALID_DATA, "wrote to"),
        ("close", PoisonCause.CRASH, ""),
        ("parricide", PoisonCause.CRASH, ""),
    ],
)
async def test_only_the_page_that_crashes_its_child_is_poisoned(
    deed: str, kind: PoisonCause, reason: str
) -> None:
    async with opened(limits=TIGHTER.get(deed, LIMITS)) as pool:
        answer = await parse_among_good(pool, deed)

    assert isinstance(answer, Poisoned)
    assert answer.cause == kind
    assert reason in answer.reason


@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("raise", "ValueError: no such price"),
        ("recurse", "RecursionError"),
        ("forks", "a spider may not start processes"),
        ("run", "a spider may not start processes"),
        ("connect", "a spider may not use the network"),
        ("files", "Too many open files"),
        ("write", "Permission denied"),
        ("shm", "Permission denied"),
        ("memfd", "Operation not permitted"),
    ],
)
async def test_what_a_child_survives_is_the_spiders_own_fault_on_that_page(deed: str, reason: str) -> None:
    async with opened() as pool:
        answer = await parse_among_good(pool, deed)

    assert isinstance(answer, ParseResult)
    assert answer.fault is not None
    assert reason in answer.fault.reason
    assert not answer.items, "all of a page or nothing"
    assert not (NASTY.parent / "written-by-a-spider").exists()


@pytest.mark.parametrize("deed", ["mute", "steal", "massacre", "stab"])
async def test_a_page_cannot_affect_other_pages(deed: str) -> None:
    async with opened() as pool:
        await parse_among_good(pool, deed)


async def test_shared_memory_counts_as_memory() -> None:
    async with opened() as pool:
        answer = await parse_among_good(pool, "map")

    assert isinstance(answer, ParseResult)
    assert answer.fault is not None
    assert "Cannot allocate memory" in answer.fault.reason


async def test_going_around_python_does_not_get_a_spider_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_SECRET", "hunter2")
    async with opened() as pool:
        forked, connected, environment, read = await parse(
            pool, ["cforks", "cconnect", "environment", "read"]
        )

    assert {"forked": -1} in items(forked)
    assert {"connected": False} in items(connected)
    assert "hunter2" not in str(items(environment))
    assert {"size": NASTY.stat().st_size} in items(read), "a spider may read the files beside it"


async def test_of_300_pages_exactly_the_100_that_crash_are_poisoned() -> None:
    deeds = [f"segfault-{n}" if n % 3 == 0 else f"good-{n}" for n in range(300)]
    async with opened() as pool:
        answers = await parse(pool, deeds)
        stats = pool.stats

    for deed, answer in zip(deeds, answers, strict=True):
        if deed.startswith("good"):
            assert items(answer) == [{"before": deed}, {"deed": deed}]
        else:
            assert isinstance(answer, Poisoned)
            assert answer.cause == PoisonCause.CRASH
    assert (stats.pages, stats.poisoned, stats.crashes) == (200, 100, 200)


async def test_nothing_queues_up_behind_a_page_that_hangs() -> None:
    async with opened(limits=ParseLimits(wall=60)) as pool:
        pool.submit(task(0, "sleep"), lambda _: None)
        await asyncio.sleep(2 * STALLED_S)
        others: asyncio.Queue[Answer] = asyncio.Queue()
        for number in range(1, 100):
            pool.submit(task(number, "good"), others.put_nowait)
        for _ in range(1, 100):
            assert items(await others.get())


async def test_a_child_that_has_grown_is_replaced_without_a_strike(tmp_path: Path) -> None:
    spider = tmp_path / "leaky.py"
    spider.write_text(
        "import shoal\nspider = shoal.Spider('leaky')\nheld = []\n"
        "@spider.page()\ndef page(page):\n    held.append(bytearray(1 << 20))\n    yield {'held': len(held)}\n"
    )
    async with opened(spider, procs=1) as pool:
        answers = await parse(pool, ["page"] * 150)

    assert all(len(items(answer)) == 1 for answer in answers)
    assert pool.stats.crashes == 0
    assert pool.stats.restarts > 0


async def test_the_scope_applies_to_pages_submitted_later(tmp_path: Path) -> None:
    links = b'<a href="/one">1</a> <a href="http://b.test/two">2</a>'
    counts: list[int] = []

    def count(answer: Answer) -> None:
        assert isinstance(answer, ParseResult)
        counts.append(len(answer.requests))

    async with ParsePool.open(PlainSpider("plain", ()), procs=1, limits=LIMITS) as pool:
        pool.submit(task(1, body=links), count)
        await pool.drain()
        pool.configure(Scope(hosts=frozenset({"a.test"})))
        pool.submit(task(2, body=links), count)
        await pool.drain()

    assert counts == [2, 1]


# --- the zygote ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("def broken(:\n", r"spider.py:1: SyntaxError"),
        ("import nothing_of_that_name\n", r"ModuleNotFoundError"),
        ("1 / 0\n", r"spider.py:1: ZeroDivisionError"),
        ("import sys; sys.exit(3)\n", r"calls sys.exit\(\) while it is imported"),
        ("import os; os._exit(3)\n", r"spider.py: importing it ended the process \(status 3\)"),
        ("import ctypes; ctypes.string_at(0)\n", r"spider.py: importing it ended the process \(status -11\)"),
        ("x = bytearray(10 << 30)\n", r"MemoryError"),
        (
            "import os\nfor fd in range(3, 99):\n  try: os.write(fd, bytes(99))\n  except OSError: pass\n",
            r"spider.py",
        ),
        (
            "import os, socket\nfor fd in range(3, 99):\n  try:\n    sock = socket.socket(fileno=os.dup(fd))\n"
            "    for _ in range(50): socket.send_fds(sock, [b'x'], [0] * 8)\n  except OSError: pass\n",
            r"spider.py",
        ),
        ("import time; time.sleep(60)\n", r"spider.py: importing it took more than 1 s"),
        ("x = 1\n", r"no spider in it"),
    ],
    ids=[
        "syntax",
        "import",
        "exception",
        "exit",
        "_exit",
        "segfault",
        "memory",
        "junk",
        "descriptors",
        "sleep",
        "empty",
    ],
)
async def test_a_spider_that_cannot_be_loaded_is_refused_and_leaves_nothing(
    code: str, complaint: str, tmp_path: Path
) -> None:
    spider = tmp_path / "spider.py"
    spider.write_text(code)
    before = open_files()

    with pytest.raises(Misconfigured, match=complaint):
        async with ParsePool.open(
            SpiderFile(str(spider)), procs=2, limits=LIMITS, import_timeout=1 if "sleep" in code else 60
        ):
            pass

    assert open_files() == before
    assert not family()


def test_a_description_needs_no_user_code_in_this_process() -> None:
    assert describe(SpiderFile(str(NASTY))).name == "nasty"
    assert not any("nasty" in name for name in sys.modules)


async def test_what_a_spider_prints_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spider = tmp_path / "chatty.py"
    spider.write_text(
        "import logging, sys, shoal\nprint('loading')\nspider = shoal.Spider('chatty')\n"
        "@spider.page()\ndef page(page):\n    print('parsing', file=sys.stderr)\n    print('parsed')\n"
        "    logging.getLogger('chatty.page').error('status %d', page.status)\n"
        "    logging.getLogger('chatty.page').debug('not shown')\n"
    )
    caplog.set_level(logging.INFO, "shoal.spider")
    async with opened(spider) as pool:
        await parse(pool, ["page"] * 2)

    printed = [vars(record)["line"] for record in caplog.records if record.message == "spider.output"]
    assert sorted(printed) == ["loading", "parsed", "parsed", "parsing", "parsing"]
    said = [record for record in caplog.records if record.message == "spider.log"]
    assert [(one.levelname, vars(one)["logger"], vars(one)["line"]) for one in said] == [
        ("ERROR", "chatty.page", "status 200")
    ] * 2


async def test_closing_does_not_wait_for_pages_and_leaves_nothing_behind() -> None:
    before = open_files()
    async with opened(limits=ParseLimits()) as pool:
        for number, deed in enumerate(["sleep", "spin", "shout", *["good"] * 50]):
            pool.submit(task(number, deed), lambda _: None)
        await asyncio.sleep(0)  # let the pages go out
        everybody = family()
        assert len(everybody) > 1

    assert open_files() == before
    assert not any(process.is_running() for process in everybody)


async def test_large_pages_wait_for_memory_that_dead_children_and_closed_pools_give_back() -> None:
    large, memory = b"<b>x</b>" * 100_000, PageMemory()
    answers: list[Answer] = []
    async with opened() as pool:
        pool._memory = memory
        for number, deed in enumerate(["segfault", "good", "segfault", "good", "good"]):
            pool.submit(task(number, deed, large), answers.append)
        for number in range(5, 25):
            pool.submit(task(number, "good"), answers.append)
        await pool.drain()
        assert memory.used == 0
        pool.submit(task(25, "good", large), answers.append)
        while not memory.used:  # noqa: ASYNC110
            await asyncio.sleep(0)

    assert memory.used == 0
    assert sorted(answer.id for answer in answers) == list(range(25))
    # Both may be in progress at once, each in its own child: which one dies first is not defined.
    assert {answer.id for answer in answers if isinstance(answer, Poisoned)} == {0, 2}


async def test_when_the_fork_server_is_killed_another_is_started() -> None:
    async with opened() as pool:
        assert items(*await parse(pool, ["good"]))
        zygote, *_ = family()
        zygote.kill()
        while psutil.pid_exists(zygote.pid):  # noqa: ASYNC110 (the pool takes note of it, and says nothing)
            await asyncio.sleep(0.01)
        answers = await parse(pool, [f"good-{n}" for n in range(50)])

    assert all(items(answer) for answer in answers)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("kills", "loaded"), [(1, True), (IMPORT_RETRIES + 1, False)])
async def test_an_import_that_is_killed_from_outside_is_tried_again(
    kills: int, tmp_path: Path, *, loaded: bool, shared: bool
) -> None:
    spider = tmp_path / "slow.py"
    spider.write_text(
        "import time, shoal\ntime.sleep(0.5)\nspider = shoal.Spider('plain')\nspider.page()(print)\n"
    )
    source, limits = SpiderFile(str(spider)), ParseLimits()

    async def load(opening: AbstractAsyncContextManager[ParsePool]) -> str:
        try:
            async with opening as pool:
                return pool.description.name
        except Misconfigured as error:
            return str(error)

    async def load_shared() -> str:
        async with SharedParsers.open(max_children=1, max_spiders=1) as parsers:
            return await load(parsers.pool(source, procs=1, limits=limits, sandbox=SandboxRules()))

    loading = asyncio.create_task(
        load_shared() if shared else load(ParsePool.open(source, procs=1, limits=limits))
    )
    killed = set[int]()
    while len(killed) < kills:
        for process in family()[:1]:
            if process.pid not in killed:
                killed.add(process.pid)
                process.kill()
        await asyncio.sleep(0.01)

    assert ("plain" if loaded else "status -9") in await loading


async def test_a_broken_pool_raises_for_every_caller(tmp_path: Path) -> None:
    spider = tmp_path / "spider.py"
    shutil.copy(NASTY, spider)
    async with opened(spider) as pool:
        os.unlink(spider)
        zygote, *_ = family()
        zygote.kill()

        with pytest.raises(Misconfigured, match="cannot be read"):
            await pool.watch()
        with pytest.raises(Misconfigured):
            pool.submit(task(1, "good"), lambda _: None)
        with pytest.raises(Misconfigured):
            await pool.drain()


async def test_an_exception_in_on_answer_breaks_the_pool() -> None:
    def choke(_: Answer) -> None:
        raise ZeroDivisionError

    async with opened() as pool:
        pool.submit(task(1, "good"), choke)
        with pytest.raises(ZeroDivisionError):
            await pool.drain()


PARENT = """
import asyncio, sys, psutil
from tests.crash.test_parse import opened, task
from shoal.model.limits import ParseLimits

async def main():
    async with opened(limits=ParseLimits()) as pool:
        for number, deed in enumerate(["sleep", "spin"]):
            pool.submit(task(number, deed), lambda _: None)
        await asyncio.sleep(0.3)
        print(*[process.pid for process in psutil.Process().children(recursive=True)], flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


def runs(pid: int) -> bool:
    """Return whether a process runs; a zombie has no memory and does not."""
    try:
        return bool(os.readlink(f"/proc/{pid}/exe"))
    except FileNotFoundError:
        return False


def test_when_the_parent_is_killed_no_descendant_survives() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        family = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(family) >= 3
        parent.kill()

    while any(map(runs, family)):
        time.sleep(0.01)


async def test_a_pool_serves_every_caller_that_wants_an_equal_one() -> None:
    items = PlainSpider("plain", (), {"title": "h1"})
    async with ParsePool.open(items, procs=1, limits=LIMITS) as pool:
        assert pool.serves(items, procs=1, limits=LIMITS)
        assert not pool.serves(PlainSpider("plain", ()), procs=1, limits=LIMITS)
        assert not pool.serves(items, procs=2, limits=LIMITS)
        assert not pool.serves(items, procs=1, limits=replace(LIMITS, wall=1))
