"""`shoal crawl --every` and `shoal worker --roles schedule` on real processes."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.command import shoal, start_logged
from tests.fleet_crawl import Fleet
from tests.servers.redis import valkey
from tests.site.server import ServedSite, serving

LONGEST = 90.0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONGEST):
        while not await asyncio.to_thread(holds):  # noqa: ASYNC110 (other processes)
            await asyncio.sleep(0.1)


async def asked(site: ServedSite, path: str) -> int:
    return sum(hit.path == path for hit in await site.hits())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_crawl_is_repeated_until_it_is_asked_to_stop(number: signal.Signals, tmp_path: Path) -> None:
    async with serving("tests.site.branches:build", "", hosts=1) as site:
        start = f"http://{site.authorities[0]}/a/3/"
        options = ("--every", "1s", "--allow-private", "--rate", "0", "--out", "items.jsonl")
        printed = tmp_path / "log"
        process = start_logged("crawl", start, *options, cwd=tmp_path, log=printed)
        try:
            await until(lambda: printed.read_text().count("next run at") >= 2)
            process.send_signal(number)
            code = await asyncio.to_thread(process.wait, LONGEST)
        finally:
            process.kill()
        assert await asked(site, "/a/3/") >= 2

    assert code in (0, 3), printed.read_text()
    assert len((tmp_path / "items.jsonl").read_text().splitlines()) == 3  # of the latest generation alone


def test_options_that_exclude_each_other_are_refused(tmp_path: Path) -> None:
    for options in (("--dry-run",), ("--fresh",)):
        ran = shoal("crawl", "http://127.0.0.1:1/", "--every", "1h", *options, cwd=tmp_path)
        assert ran.code == 1
        assert "without --dry-run and --fresh" in ran.err


async def test_a_worker_with_the_role_schedule_starts_crawls_and_runs_them(tmp_path: Path) -> None:
    async with valkey(tmp_path) as server, serving("tests.site.branches:build", "", hosts=1) as site:
        start = f"http://{site.authorities[0]}/a/3/"
        options = ("--allow-private", "--rate", "0", "--out", str(tmp_path / "items-{tick}.jsonl"))
        added = await asyncio.to_thread(
            shoal,
            *("schedule", "add", "often", "--every", "2s", "--store", server.dsn, "--", start, *options),
            cwd=tmp_path,
        )
        assert added.code == 0, added.err
        fleet = Fleet(server.dsn, tmp_path)
        worker = fleet.start("--roles", "fetch,parse,sink,schedule")
        try:
            await until(lambda: sum(path.stat().st_size > 0 for path in tmp_path.glob("items-*.jsonl")) >= 2)
            status = await asyncio.to_thread(shoal, "status", "--store", server.dsn, "--json", cwd=tmp_path)
            worker.send_signal(signal.SIGTERM)
            code = await asyncio.to_thread(worker.wait, LONGEST)
        finally:
            worker.kill()

    assert code == 0, (tmp_path / "worker-0.log").read_text()[-2000:]
    assert [worker["roles"] for worker in status.json["workers"]] == [["fetch", "parse", "sink", "schedule"]]
