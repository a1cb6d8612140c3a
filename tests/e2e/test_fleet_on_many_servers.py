"""Looking at a fleet whose store is several servers: sentinels with a master, and a cluster."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.e2e.command import HASTY, PAGES, QUICK, shoal
from tests.servers.process import until
from tests.servers.redis import RedisServer, cluster, sentinels

from shoal.redis_client import RedisClient
from shoal.services.inspect.verify import verify
from shoal.stores.contract.checks import Check
from shoal.stores.open import examine_store


def crawl(dsn: str, folder: Path, shop: str) -> None:
    folder.mkdir()
    options = (*QUICK, "--crawl", "shop", "--out", "items.jsonl", "--quiet")
    ran = shoal("crawl", shop, *options, cwd=folder, env={"SHOAL_STORE": dsn, **HASTY})
    assert ran.code == 0, ran.err


async def assert_sound(dsn: str) -> None:
    report = await verify(dsn, None, deep=False)
    assert report.problems == []
    [found] = report.crawls
    assert (found.items, list(found.outputs.values()), found.waiting) == (PAGES, [PAGES], 0)


async def assert_problems_are_found(dsn: str, shop: str) -> None:
    """Spoil a counter of the shard that has the shop, wherever that is."""
    async with RedisClient.open(dsn, advise=False) as store:
        tag = store.tag_of(shop.split("/")[2])
        await store.do(tag, "HINCRBY", f"{tag}:n:1", "done", 1)
        [problem, *_] = (await verify(dsn, None, deep=False)).problems
        [spoilt] = of((await examine_store(dsn)).checks, "store crawls")
    assert "1 requests more than were accepted" in problem
    assert (spoilt.grade, spoilt.fix) == ("fail", "shoal verify shows more, --repair repairs it")
    repaired = await verify(dsn, None, deep=False, repair=True)
    [line] = repaired.repaired or ()
    assert line.endswith("the counter of done was off by +1")
    assert repaired.problems == []


def of(checks: Sequence[Check], name: str) -> list[Check]:
    return [check for check in checks if check.name == name]


async def _has_no_replica(server: RedisServer) -> bool:
    return (await server.info())["connected_slaves"] == "0"


@pytest.mark.slow
async def test_verify_and_doctor_on_sentinels_before_and_after_a_failover(tmp_path: Path, shop: str) -> None:
    async with sentinels(tmp_path / "servers") as servers:
        crawl(servers.dsn, tmp_path / "work", shop)
        await assert_sound(servers.dsn)
        checks = (await examine_store(servers.dsn)).checks
        [replicas], [persistence] = of(checks, "store replicas"), of(checks, "store persistence")
        assert (replicas.grade, replicas.finding) == ("ok", "2")
        assert persistence.grade == "ok"
        assert "before 7.2" in persistence.finding  # what these servers are
        await assert_problems_are_found(servers.dsn, shop)

        lost = await servers.master()
        lost.kill()
        await assert_sound(servers.dsn)  # of the new master
        master = await servers.master()
        assert master is not lost
        [store] = of((await examine_store(servers.dsn)).checks, "store")
        assert store.finding.startswith(str(master.address))

        for server in servers.servers:
            if server is not master:
                server.kill()
        await until(_has_no_replica, master)
        [replicas] = of((await examine_store(servers.dsn)).checks, "store replicas")
        assert (replicas.grade, replicas.finding) == ("warn", "none")


@pytest.mark.slow
async def test_verify_and_doctor_on_a_cluster_before_and_after_a_master_is_lost(
    tmp_path: Path, shop: str
) -> None:
    async with cluster(tmp_path / "servers") as servers:
        crawl(servers.dsn, tmp_path / "work", shop)
        await assert_sound(servers.dsn)
        checks = (await examine_store(servers.dsn)).checks
        masters = {str(master.address) for master in await servers.masters()}
        assert {check.finding.rsplit(": ", 1)[0] for check in of(checks, "store replicas")} == masters
        assert {check.grade for check in of(checks, "store replicas")} == {"ok"}
        await assert_problems_are_found(servers.dsn, shop)

        (await servers.masters())[0].kill()
        await assert_sound(servers.dsn)  # its replica has taken over
        replicas = of((await examine_store(servers.dsn)).checks, "store replicas")
        assert sorted(check.grade for check in replicas) == ["ok", "ok", "warn"]
