"""`shoal delete`: a crawl is deleted, its outputs and pages stay, and a crawl in progress is refused."""

import asyncio
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.e2e.command import (
    HASTY,
    NO_RETRIES,
    PAGES,
    PRIVATE,
    QUICK,
    TIMEOUT,
    Ran,
    ended,
    records,
    shoal,
    started,
)
from tests.servers.redis import SYNCED, RedisServer, valkey
from tests.servers.shared import shared_cluster

SHOP = ("--crawl", "shop", "--out", "shop.jsonl", "--quiet")


def test_a_crawl_of_a_folder_is_deleted(shop: str, tmp_path: Path) -> None:
    shoal("crawl", shop, *QUICK, *SHOP, cwd=tmp_path, env=NO_RETRIES)
    shoal("crawl", shop, *QUICK, "--crawl", "other", "--max-pages", "1", "--quiet", cwd=tmp_path)
    items, pages = records(tmp_path / "shop.jsonl"), sorted((tmp_path / "shoal-data/archive/shop").iterdir())
    assert items
    assert pages

    unknown = shoal("delete", "shpo", "--yes", cwd=tmp_path)
    assert (unknown.code, unknown.complaint) == (
        1,
        "the store has no crawl named 'shpo'; did you mean shop?",
    )
    unconfirmed = shoal("delete", "shop", cwd=tmp_path)
    assert unconfirmed.code == 1
    assert "delete crawl shop of shoal-data:" in unconfirmed.complaint
    assert "1 given up? Outputs and archived pages stay." in unconfirmed.complaint
    assert "pass --yes" in unconfirmed.complaint

    result = shoal("delete", "shop", "--yes", "--json", cwd=tmp_path).json
    assert (result["forgotten"], result["open"], result["dead"]) == ("shop", 0, 1)
    assert result["outputs"] == [str(tmp_path / "shop.jsonl")]
    assert result["archive"] == "shoal-data/archive/shop"
    assert records(tmp_path / "shop.jsonl") == items
    assert sorted((tmp_path / "shoal-data/archive/shop").iterdir()) == pages
    assert [one["crawl"] for one in shoal("status", "--json", cwd=tmp_path).json["crawls"]] == ["other"]
    assert shoal("delete", "shop", "--yes", cwd=tmp_path).code == 1
    assert shoal("verify", cwd=tmp_path).code == 0

    refused = shoal("crawl", shop, *QUICK, *SHOP, cwd=tmp_path, env=HASTY)  # the file belongs to no crawl now
    assert refused.code == 1
    again = shoal("crawl", shop, *QUICK, *SHOP, "--fresh", "--yes", cwd=tmp_path, env=NO_RETRIES)
    assert again.code == 0, again.err
    assert len(records(tmp_path / "shop.jsonl")) == PAGES
    assert shoal("verify", "--deep", cwd=tmp_path).code == 0


def test_a_running_crawl_is_not_deleted(shop: str, tmp_path: Path) -> None:
    with started("crawl", shop, "--allow-private", "--rate", "1", *SHOP, cwd=tmp_path) as crawl:
        while not (tmp_path / "shoal-data" / "control").exists():
            with suppress(subprocess.TimeoutExpired):
                assert crawl.wait(0.05) is None
        busy = shoal("delete", "shop", "--yes", cwd=tmp_path)
        assert busy.code == 4
        assert "shoal-data is in use by process" in busy.complaint
        crawl.send_signal(signal.SIGINT)
        assert ended(crawl).code == 3
    assert "not crawled yet" in shoal("delete", "shop", cwd=tmp_path).complaint
    printed = shoal("delete", "shop", "--yes", cwd=tmp_path).out
    assert printed.splitlines()[1:] == [
        f"stays: {tmp_path / 'shop.jsonl'}",
        "stays: shoal-data/archive/shop",
    ]


class Fleet:
    def __init__(self, dsn: str, masters: Sequence[RedisServer], folder: Path) -> None:
        self.env = {"SHOAL_STORE": dsn, **PRIVATE, **HASTY, **NO_RETRIES}
        self.folder = folder
        self._masters = masters

    def shoal(self, *arguments: str, code: int = 0) -> Ran:
        ran = shoal(*arguments, cwd=self.folder, env=self.env)
        assert ran.code == code, ran.err
        return ran

    async def keys(self) -> set[str]:
        """Return every key of the store, by SCAN."""
        found: set[str] = set()
        for master in self._masters:
            cursor = b"0"
            while True:
                cursor, names = await master.ask("SCAN", cursor, "COUNT", 1000)
                found |= {name.decode() for name in names}
                if cursor == b"0":
                    break
        return found

    async def of_crawl(self, number: int) -> set[str]:
        """Return the keys that carry the number of a crawl: `{shoal:07}:kind:number` and what may follow."""
        return {key for key in await self.keys() if key.split(":")[3:4] == [str(number)]}


@asynccontextmanager
async def on_valkey(folder: Path) -> AsyncIterator[tuple[str, Sequence[RedisServer]]]:
    async with valkey(folder, *SYNCED) as server:
        yield server.dsn, [server]


@asynccontextmanager
async def on_cluster(folder: Path) -> AsyncIterator[tuple[str, Sequence[RedisServer]]]:
    async with shared_cluster(folder) as servers:
        yield servers.dsn, await servers.masters()


@pytest.fixture(params=[on_valkey, on_cluster])
async def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Fleet]:
    folder = tmp_path / "work"
    folder.mkdir()
    async with request.param(tmp_path / "servers") as (dsn, masters):
        yield Fleet(dsn, masters, folder)


@pytest.mark.timeout(300)
async def test_a_crawl_of_a_fleet_leaves_no_key_behind(fleet: Fleet, shop: str) -> None:
    fleet.shoal("crawl", shop, *QUICK, *SHOP, "--max-pages", "30")  # which leaves some of each kind
    fleet.shoal("submit", shop, *QUICK, "--crawl", "other", "--quiet")
    items = records(fleet.folder / "shop.jsonl")
    assert len({key.split(":")[2] for key in await fleet.of_crawl(1)}) > 5
    others = await fleet.of_crawl(2)
    assert others

    unknown = fleet.shoal("delete", "shpo", "--yes", code=1)
    assert unknown.complaint.endswith("no crawl named 'shpo'; did you mean shop?")
    assert "pass --yes" in fleet.shoal("delete", "shop", code=1).complaint
    result = fleet.shoal("delete", "shop", "--yes", "--json").json
    assert (result["forgotten"], result["unwritten"], result["open"] > 0) == ("shop", 0, True)
    assert result["outputs"] == [str(fleet.folder / "shop.jsonl")]
    assert result["archive"] == "shoal-data/archive/shop"

    assert await fleet.of_crawl(1) == set()
    assert await fleet.of_crawl(2) == others
    assert [one["crawl"] for one in fleet.shoal("status", "--json").json["crawls"]] == ["other"]
    assert records(fleet.folder / "shop.jsonl") == items
    assert sorted((fleet.folder / "shoal-data/archive/shop").iterdir())
    fleet.shoal("worker", "--until-done", "--quiet")  # serves the other crawl
    fleet.shoal("verify")


@pytest.mark.parametrize("fleet", [on_valkey], indirect=True)
@pytest.mark.timeout(300)
async def test_workers_release_a_paused_crawl_that_is_deleted_and_keep_running(
    fleet: Fleet, shop: str
) -> None:
    slow = ("--allow-private", "--rate", "1", "--crawl", "shop", "--out", "shop.jsonl", "--quiet")
    fleet.shoal("submit", shop, *slow)
    with started("worker", "-v", cwd=fleet.folder, env=fleet.env) as worker:
        wait_for(fleet, lambda crawls: "shop" in crawls)
        busy = fleet.shoal("delete", "shop", "--yes", code=4)
        assert "crawl 'shop' is being worked on by 1 worker (" in busy.complaint
        assert "run shoal pause shop first, or stop them" in busy.complaint

        fleet.shoal("pause", "shop")
        until = time.monotonic() + TIMEOUT
        while (ran := shoal("delete", "shop", "--yes", cwd=fleet.folder, env=fleet.env)).code == 4:
            assert "wait until they have finished their pages" in ran.complaint
            assert time.monotonic() < until
            await asyncio.sleep(0.5)
        assert ran.code == 0, ran.err
        assert await fleet.of_crawl(1) == set()

        fleet.shoal("submit", shop, *QUICK, "--crawl", "next", "--out", "next.jsonl", "--quiet")
        until = time.monotonic() + TIMEOUT
        while fleet.shoal("status", "--json").json["crawls"][0]["counts"]["done"] < 40:
            assert time.monotonic() < until
            await asyncio.sleep(0.5)
        worker.send_signal(signal.SIGTERM)
        out = ended(worker)
    assert out.code == 0
    assert "crawl=shop" in out.err
    assert [line for line in out.err.splitlines() if line.split(" ")[1:2] == ["error"]] == []
    assert "Traceback" not in out.err
    assert await fleet.of_crawl(1) == set()
    assert [one["crawl"] for one in fleet.shoal("status", "--json").json["crawls"]] == ["next"]


def wait_for(fleet: Fleet, is_so: Callable[[set[str]], bool]) -> None:
    """Wait until the crawls that workers run satisfy a condition."""
    until = time.monotonic() + TIMEOUT
    while True:
        workers = fleet.shoal("status", "--json").json["workers"]
        if is_so({at["crawl"] for one in workers for at in one["crawls"]}):
            return
        assert time.monotonic() < until
        time.sleep(0.3)
