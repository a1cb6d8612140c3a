"""Schedules in a folder and in a fleet: `shoal schedule` starts crawls when they are due."""

import asyncio
import json
import signal
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import HASTY, PAGES, PRIVATE, QUICK, shoal, started
from tests.servers.redis import valkey

ENV = {**HASTY, **PRIVATE, "SHOAL_CRAWL_RATE": "0"}


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


@pytest.mark.timeout(300)  # the tick of the killed scheduler is started again when its claim has expired
async def test_a_tick_starts_one_crawl_although_two_schedulers_run_and_one_is_killed(
    store: str, shop: str, tmp_path: Path
) -> None:
    where = ("--store", store)
    target = ("--", shop, "--per-host", "16", "--out", "shop-{tick}.jsonl")
    added = shoal("schedule", "add", "shop", "--every", "4s", *where, *target, cwd=tmp_path)
    assert added.code == 0, added.err
    env = {**ENV, "SHOAL_STORE": store}
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


def test_a_crawl_that_cannot_start_is_recorded_with_the_reason(tmp_path: Path) -> None:
    where = ("--store", str(tmp_path / "data"))
    shoal("schedule", "add", "broken", "--every", "1s", *where, "--", "none.py", cwd=tmp_path)
    time.sleep(1.1)

    ran = shoal("schedule", "run", "--once", *where, cwd=tmp_path)

    assert ran.code == 0, ran.err
    reasons = {
        run["why"] for run in runs_of(str(tmp_path / "data"), "broken", tmp_path) if run["state"] == "failed"
    }
    assert reasons == {"shoal: no such spider file: none.py"}


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
