"""A fleet whose number of workers follows its queue, on real processes."""

import asyncio
import re
from pathlib import Path

from tests.e2e.command import QUICK, shoal
from tests.fleet_crawl import Fleet
from tests.servers.redis import valkey
from tests.site.server import serving


async def test_a_fleet_grows_with_its_queue_and_says_why(tmp_path: Path) -> None:
    async with serving("tests.site.branches:build", "0.1", hosts=1) as site:  # 40 pages/s with 4 slots
        start = f"http://{site.authorities[0]}/a/400/"
        options = ("--max", "3", "--drain", "1s", "--concurrency", "4", "--per-host", "64")
        quick = ("--allow-private", "--rate", "0", "--out", "items.jsonl")
        ran = await asyncio.to_thread(shoal, "fleet", start, *options, *quick, cwd=tmp_path)

    assert ran.code == 0, ran.err
    assert re.search(r"[23] workers instead of 1: ", ran.err), ran.err
    assert len({line.split('"')[3] for line in (tmp_path / "items.jsonl").read_text().splitlines()}) == 400


async def test_a_fleet_that_the_pace_of_a_host_limits_stays_small_and_says_so(tmp_path: Path) -> None:
    async with serving("tests.site.branches:build", "", hosts=1) as site:
        start = f"http://{site.authorities[0]}/a/40/"
        options = ("--max", "4", "--drain", "1s", "--rate", "5", "--allow-private")
        ran = await asyncio.to_thread(shoal, "fleet", start, *options, cwd=tmp_path)

    assert ran.code == 0, ran.err
    assert "workers instead of" not in ran.err
    assert "1 worker: the pace of the hosts allows 5.0 requests per second together" in ran.err


async def test_the_command_names_a_number_for_each_stage_and_the_reason(tmp_path: Path) -> None:
    async with valkey(tmp_path) as server, serving("tests.site.branches:build", "", hosts=1) as site:
        start = f"http://{site.authorities[0]}/a/1000/"
        store = ("--store", server.dsn)
        submitted = await asyncio.to_thread(
            shoal, "submit", start, "--crawl", "c", *store, "--allow-private", "--rate", "2", cwd=tmp_path
        )
        assert submitted.code == 0, submitted.err
        fleet = Fleet(server.dsn, tmp_path)
        worker = fleet.start()
        try:
            async with asyncio.timeout(60):
                while (await asyncio.to_thread(waiting, server.dsn, tmp_path)) < 700:
                    pass
            ran = await asyncio.to_thread(shoal, "autoscale", *store, "--json", cwd=tmp_path)
            text = await asyncio.to_thread(shoal, "autoscale", *store, "--max", "5", cwd=tmp_path)
        finally:
            worker.kill()
            worker.wait()

    stages = {(stage["role"], stage["pool"]): stage for stage in ran.json}
    fetch = stages["fetch", "http"]
    assert (fetch["wanted"], fetch["limit"], fetch["workers"]) == (1, "politeness", 1)
    assert fetch["ceiling_per_s"] == 2.0
    assert {"parse", "sink"} < {role for role, _ in stages}
    assert "more would wait" in text.out


def waiting(dsn: str, folder: Path) -> int:
    [crawl] = shoal("status", "--store", dsn, "--json", cwd=folder).json["crawls"]
    return int(crawl["counts"]["waiting"])


def test_bounds_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for options, said in [
        (("fleet", "http://127.0.0.1:1/", "--min", "2"), "--min and --drain need --max"),
        (("fleet", "http://127.0.0.1:1/", "--min", "3", "--max", "2"), "--min 3 is more than --max 2"),
        (("autoscale", "--min", "30", "--max", "2"), "--min 30 is more than --max 2"),
        (("autoscale", "--drain", "soon"), "must be an age such as"),
    ]:
        ran = shoal(*options, *(QUICK if options[0] == "fleet" else ()), cwd=tmp_path)
        assert ran.code == 1, ran.err
        assert said in ran.err
    shoal("crawl", "http://127.0.0.1:1/", *QUICK, cwd=tmp_path)
    assert "is a folder, which one process crawls" in shoal("autoscale", cwd=tmp_path).err
