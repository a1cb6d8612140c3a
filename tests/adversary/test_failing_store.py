"""A store that stalls, refuses, resets connections and loses answers: nothing is lost, and the log says so."""

import asyncio
from pathlib import Path

import pytest
from tests.adversary.size import sized
from tests.fleet_crawl import Fleet, assert_fleet_items
from tests.graph_crawl import serving_graph
from tests.servers.redis import valkey
from tests.servers.weather import Sky, weather
from tests.site.access_log import by_host, violations
from tests.site.graph import Shape

RATE = 20.0
OUTAGE_S = sized(6.0, full=25.0)  # longer than the timeout of a call, shorter than a worker's patience
FAULTS: list[tuple[Sky, ...]] = sized(
    [(Sky.SILENT, Sky.DOWN)],
    full=[(Sky.SILENT,), (Sky.DOWN,), (Sky.LOSSY,), (Sky.SILENT, Sky.DOWN, Sky.LOSSY)],
)


@pytest.mark.parametrize("faults", FAULTS)
async def test_a_fleet_whose_store_fails_for_a_while_says_so_and_completes_its_crawl(
    faults: tuple[Sky, ...], tmp_path: Path
) -> None:
    pages = sized(150, full=600)
    async with (
        serving_graph(Shape(pages=pages, hosts=3, links=8)) as (site, graph),
        valkey(tmp_path) as server,
    ):
        with (
            weather(server.port) as between,
            Fleet(f"redis://127.0.0.1:{between.port}?patience_s=60", tmp_path) as fleet,
        ):
            assert fleet.submit(graph.start, "--rate", f"{RATE:g}").code == 0
            for _ in range(2):
                fleet.start("--until-done")
            for number, fault in enumerate(faults, 1):
                await fleet.until_served(site, number * pages // (len(faults) + 2))
                between.become(fault)
                await asyncio.sleep(OUTAGE_S / len(faults) if fault is not Sky.SILENT else OUTAGE_S)
                between.become(Sky.FAIR)
            for worker in fleet.workers:
                assert await fleet.ended(worker) == 0, fleet.logs()
            assert fleet.counts()["done"] == pages
            assert_fleet_items(fleet, graph)
            logs = fleet.logs()
            hits = by_host(await site.hits())
    for host, requests in hits.items():
        assert not violations([hit.arrived for hit in requests], rate=RATE, slack_s=0.001), host
    if Sky.SILENT in faults:
        [said, *_] = [line for line in logs.splitlines() if "store.unavailable" in line]
        assert " warning " in said
        assert str(between.port) in said
        assert "seconds=" in said
        assert "store.recovered" in logs


async def test_a_worker_whose_store_stays_away_ends_with_a_reason(tmp_path: Path) -> None:
    async with serving_graph(Shape(pages=60, hosts=2)) as (site, graph), valkey(tmp_path) as server:
        with (
            weather(server.port) as between,
            Fleet(f"redis://127.0.0.1:{between.port}?patience_s=3", tmp_path) as fleet,
        ):
            assert fleet.submit(graph.start, "--rate", "5").code == 0
            worker = fleet.start("--until-done")
            await fleet.until_served(site, 10)
            between.become(Sky.SILENT)
            assert await fleet.ended(worker, within=60.0) == 4, fleet.logs()
            logs = fleet.logs()
            assert str(between.port) in logs.splitlines()[-1], logs  # the last line names the store
            between.become(Sky.FAIR)
            again = fleet.start("--until-done")
            assert await fleet.ended(again) == 0, fleet.logs()
            assert_fleet_items(fleet, graph)
