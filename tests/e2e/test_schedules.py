"""Schedules in a folder and in a fleet: `shoal schedule` starts crawls when they are due."""

import asyncio
import json
import signal
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import HASTY, PAGES, PRIVATE, QUICK, shoal, started
from tests.servers.redis import valkey

from shoal.engine.plan import Stop
from shoal.model.alert import AlertKind
from shoal.model.configuration.crawl_definition import parse_command
from shoal.model.settings import CrawlSettings, Settings
from shoal.services.alerts.read import alerts
from shoal.services.alerts.scheduler import SchedulerAlerts
from shoal.services.schedules.manage import add_schedule, list_schedules
from shoal.services.schedules.rules import stamp_of
from shoal.services.schedules.serve import add_checked, launch_rules, open_schedules, serve_schedules
from shoal.stores.contract.schedules import Schedule, ScheduledRun
from shoal.stores.open import open_store

ENV = {**HASTY, **PRIVATE, "SHOAL_CRAWL_RATE": "0", "SHOAL_ALERTS_EVERY": "0.5"}
CLAIM = {"SHOAL_WORKER_SCHEDULE_CLAIM": "2"}  # after which the tick of a killed scheduler is started again


@pytest.fixture(params=["folder", "redis"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "folder":
        yield str(tmp_path / "data")
    else:
        async with valkey(tmp_path / "server") as server:
            yield server.dsn


def listed(store: str, cwd: Path) -> dict[str, dict[str, Any]]:
    ran = shoal("schedule", "list", "--json", "--store", store, cwd=cwd)
    assert ran.code == 0, ran.err
    return {one["name"]: one for one in ran.json["schedules"]}


def runs_of(store: str, name: str, cwd: Path) -> list[dict[str, Any]]:
    return list(listed(store, cwd)[name]["runs"])


async def test_a_tick_starts_one_crawl_although_two_schedulers_run_and_one_is_killed(
    store: str, shop: str, tmp_path: Path
) -> None:
    where = ("--store", store)
    target = ("--", shop, "--per-host", "16", "--out", "shop-{tick}.jsonl")
    added = shoal("schedule", "add", "shop", "--separate", "--every", "3s", *where, *target, cwd=tmp_path)
    assert added.code == 0, added.err
    env = {**ENV, **CLAIM, "SHOAL_STORE": store}
    run = ("schedule", "run", *where)
    with started(*run, cwd=tmp_path, env=env) as first, started(*run, cwd=tmp_path, env=env) as second:
        while not runs_of(store, "shop", tmp_path):  # noqa: ASYNC110
            await asyncio.sleep(0.3)
        first.kill()
        if "://" in store:
            with started("worker", *where, cwd=tmp_path, env=env):
                await until_done(store, tmp_path)
        else:
            await until_done(store, tmp_path)
        assert shoal("schedule", "pause", "shop", *where, cwd=tmp_path).code == 0
        second.send_signal(signal.SIGTERM)
        second.wait(60)

    outputs = lines_of_outputs(tmp_path)
    assert PAGES in map(len, outputs)
    assert all(len(set(lines)) == len(lines) for lines in outputs)
    assert listed(store, tmp_path)["shop"]["paused"]
    assert shoal("schedule", "remove", "shop", *where, cwd=tmp_path).code == 0
    assert listed(store, tmp_path) == {}


def lines_of_outputs(folder: Path) -> list[list[str]]:
    return [path.read_text().splitlines() for path in folder.glob("shop-*.jsonl")]


async def until_done(store: str, cwd: Path) -> None:
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        runs = runs_of(store, "shop", cwd)
        if any(run["state"] == "done" for run in runs):
            return
        assert not [run for run in runs if run["state"] == "failed"], runs
        await asyncio.sleep(0.5)
    raise AssertionError(json.dumps(runs))


def test_ticks_start_from_the_rows_of_a_query_and_then_from_the_fetch_log(shop: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE products (url TEXT, stale INTEGER)")
        database.executemany("INSERT INTO products VALUES (?, ?)", [(f"{shop}?{n}", n) for n in range(3)])
    where = ("--store", str(tmp_path / "data"))
    options = ("--depth", "0", "--out", "{tick}.jsonl")
    query = ("--seeds", "shop.db", "--query", "SELECT url FROM products WHERE stale")
    add = ("schedule", "add", "stale", "--every", "1s", *where)
    added = shoal(*add, "--", *query, *options, cwd=tmp_path, env=ENV)
    assert added.code == 0, added.err
    time.sleep(1.1)
    assert shoal("schedule", "run", "--once", *where, cwd=tmp_path, env=ENV).code == 0
    log = "SELECT url || '&again' FROM attempts WHERE url LIKE '%?1'"
    again = shoal("crawl", "--query", log, *where, *QUICK, "--depth", "0", "--crawl", "again", cwd=tmp_path)
    assert again.code == 0, again.err

    [output] = tmp_path.glob("*.jsonl")
    assert {json.loads(line)["url"] for line in output.read_text().splitlines()} == {f"{shop}?1", f"{shop}?2"}
    urls = shoal("urls", "--crawl", "again", "--json", *where, cwd=tmp_path)
    assert f"{shop}?1&again" in urls.out


SPIDER = """
import shoal
spider = shoal.Spider("shop", start={start!r})
@spider.page()
def page(page): yield {{"url": page.url}}
"""


@pytest.mark.slow("six crawls of two pages, by their commands")
async def test_a_schedule_replaces_its_output_keeps_one_run_and_reports_a_tick_that_fails(
    store: str, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick begins a generation of one crawl: a fixed output is replaced, one with the tick in its name is kept."""
    monkeypatch.chdir(tmp_path)
    for name, value in {**ENV, **PRIVATE, "SHOAL_STORE": store}.items():
        monkeypatch.setenv(name, value)
    spider, settings = tmp_path / "shop.py", Settings(store=store, crawl=CrawlSettings(allow_private=True))
    spider.write_text(SPIDER.format(start=shop))
    options = ["shop.py", "--depth", "0", "--out", "shop.jsonl", "--out", "shop-{tick}.jsonl"]
    schedule = Schedule(
        name="shop",
        folder=str(tmp_path),
        crawl=parse_command(options),
        every_s=1.0,
        created_at=float(int(time.time())),
        again=True,
        keep=1,
    )
    await add_checked(store, schedule, settings)

    async def until(state: str, number: int) -> list[ScheduledRun]:
        found: list[ScheduledRun] = []
        async with asyncio.timeout(80), SchedulerAlerts.open(settings) as watch:
            while len(found) < number:
                await serve_schedules(store, Stop(), launch_rules(settings), once=True, watch=watch)
                async with open_schedules(store) as records:
                    [known] = await list_schedules(records, time.time())
                found = [run for run in known.state.runs if run.state == state]
                await asyncio.sleep(0.2)
        return found

    def files() -> set[str]:
        return {path.name for path in tmp_path.iterdir() if path.name.startswith("shop-")}

    worker = started("worker", cwd=tmp_path, env={**ENV, "SHOAL_STORE": store})
    with worker if "://" in store else nullcontext():
        [first] = await until("done", 1)
        oldest = f"shop-{stamp_of(first.tick)}.jsonl"
        assert oldest in files()
        done = await until("done", 2)
        spider.rename(tmp_path / "gone.py")
        [failed, *_] = await until("failed", 1)
        async with asyncio.timeout(30):  # in a fleet, the worker evaluates alerts
            while not (raised := (await alerts(store)).active):  # noqa: ASYNC110 (another process raises it)
                await asyncio.sleep(0.2)
    assert {run.crawl for run in done} == {"shop"}
    [item] = (tmp_path / "shop.jsonl").read_text().splitlines()
    assert json.loads(item)["url"] == shop
    assert not {name for name in files() if name.startswith(oldest)}  # nor its .shoal and .lock
    assert "no such spider file" in failed.why
    assert [alert.about for alert in raised if alert.kind is AlertKind.SCHEDULE_FAILED] == ["shop"]


async def test_a_run_that_fails_leaves_no_empty_crawl(shop: str, tmp_path: Path) -> None:
    store, blocked = str(tmp_path / "data"), tmp_path / "blocked"
    blocked.write_text("a file")
    crawl = parse_command([shop, "--out", f"{blocked}/{{tick}}.jsonl"])
    schedule = Schedule(
        name="shop", folder=str(tmp_path), crawl=crawl, every_s=60.0, created_at=time.time() - 90
    )
    settings = Settings(store=store, crawl=CrawlSettings(allow_private=True))
    async with open_schedules(store) as records:
        await add_schedule(records, schedule)  # unchecked

        await serve_schedules(store, Stop(), launch_rules(settings), once=True)

        [known] = await list_schedules(records, time.time())
    assert [run.state for run in known.state.runs] == ["failed"]
    async with open_store(store) as opened:
        assert await opened.crawls.names() == []


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (("broken.py",), "broken.py:1: ZeroDivisionError: division by zero"),
        (
            ("https://a.example/", "--out", "own.jsonl"),
            "output own.jsonl: it already exists and was not written by",
        ),
        (("https://a.example/", "--out", "own.jsonl/a.jsonl"), "own.jsonl is not a folder"),
    ],
)
def test_what_would_fail_at_the_first_tick_is_refused_when_it_is_added(
    typed: tuple[str, ...], complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "own.jsonl").write_text("mine")
    (tmp_path / "broken.py").write_text("1 / 0")
    ran = shoal("schedule", "add", "x", "--every", "1h", "--", *typed, cwd=tmp_path)
    assert ran.code == 1
    assert complaint in ran.complaint
    assert listed("shoal-data", tmp_path) == {}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--cron", "61 * * * *"), "--cron '61 * * * *': Bad minute; five fields, as in '30 3 * * *'"),
        (("--every", "soon"), "--every 'soon': must be an age such as 90s, 15m, 2h, 7d or 1w"),
        (("--every", "1h", "--overlap", "wait"), "--overlap 'wait': must be one of skip, queue, replace"),
    ],
)
def test_a_schedule_that_cannot_work_is_refused(
    options: tuple[str, ...], complaint: str, tmp_path: Path
) -> None:
    ran = shoal("schedule", "add", "x", *options, "--", "a.py", cwd=tmp_path)

    assert (ran.code, ran.complaint) == (1, complaint)
