"""Failures of what a fleet depends on: its archive, the files it writes, the network to its store."""

import asyncio
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.crash.fleet import dying_writer, judge
from tests.e2e.command import records
from tests.fleet_crawl import CONCURRENCY, Fleet
from tests.graph_crawl import serving_graph
from tests.servers.redis import SYNCED, valkey
from tests.servers.s3 import BUCKET
from tests.servers.shared import shared_s3
from tests.servers.weather import Sky, weather
from tests.site.graph import Shape

SHAPE = Shape(seed=5, pages=70, hosts=10)
LEASE = 3.0
ALL, FETCH, PARSE, SINK = (), ("--roles", "fetch"), ("--roles", "parse"), ("--roles", "sink")


@pytest.mark.slow
async def test_an_object_store_that_is_away_for_longer_than_leases_costs_no_page(tmp_path: Path) -> None:
    """Workers wait, and no page is blamed: with one crash allowed, an expired lease would end the page."""
    folder = tmp_path / "work"
    folder.mkdir()
    async with valkey(tmp_path / "server") as server, serving_graph(SHAPE) as (site, graph):
        with shared_s3() as s3, weather(int(s3.endpoint.rpartition(":")[2])) as between:
            settings = {
                **s3.environment,
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{between.port}",
                "SHOAL_ARCHIVE_LOCATION": f"s3://{BUCKET}/fleet",
                "SHOAL_CRAWL_MAX_CRASHES": "1",
            }
            with Fleet(server.dsn, folder, lease=LEASE, settings=settings) as fleet:
                assert fleet.submit(graph.start).code == 0
                workers = [fleet.start("--until-done", *roles) for roles in (FETCH, PARSE, SINK)]
                await fleet.until_served(site, 20)
                between.become(Sky.DOWN)
                await asyncio.sleep(2 * LEASE)
                between.become(Sky.FAIR)

                assert [await fleet.ended(worker) for worker in workers] == [0, 0, 0], fleet.logs()
                expected = graph.expected()
                judge.assert_fetched(await site.hits(), expected, blows=0, concurrency=CONCURRENCY)
                judge.assert_items("JSONL", records(folder / "items.jsonl"), expected.items)
                judge.assert_counted(fleet.counts(), expected)


@pytest.mark.slow
async def test_an_output_whose_writer_dies_at_the_very_end_is_finished_by_the_next_worker(
    tmp_path: Path,
) -> None:
    async with valkey(tmp_path / "server") as server, serving_graph(SHAPE) as (_, graph):
        with Fleet(server.dsn, tmp_path) as fleet:
            assert fleet.submit(graph.start, "--out", "items.parquet").code == 0
            dying = fleet.start("--until-done", program=(sys.executable, dying_writer.__file__))
            assert await fleet.ended(dying) == -9, fleet.logs()
            assert await fleet.ended(fleet.start("--until-done")) == 0, fleet.logs()

            rows = pq.read_table(tmp_path / "items.parquet").to_pylist()
            judge.assert_items("Parquet", rows, graph.expected().items)


@pytest.mark.slow
async def test_a_file_that_is_deleted_under_a_fleet_ends_it_with_the_reason(tmp_path: Path) -> None:
    async with valkey(tmp_path / "server") as server, serving_graph(SHAPE) as (site, graph):
        with Fleet(server.dsn, tmp_path) as fleet:
            assert fleet.submit(graph.start, "--rate", "10").code == 0
            worker = fleet.start("--until-done")
            await fleet.until_served(site, 30)
            while not (tmp_path / "items.jsonl.shoal").exists():  # noqa: ASYNC110 (another process makes it)
                await asyncio.sleep(0.05)
            (tmp_path / "items.jsonl").unlink()

            assert await fleet.ended(worker) == 1, fleet.logs()
            assert "items.jsonl: not as this crawl has left it" in fleet.logs()
            assert fleet.verify().code == 5


@pytest.mark.slow
async def test_a_store_that_is_full_is_worked_off_by_a_worker_that_joins(tmp_path: Path) -> None:
    async with valkey(tmp_path / "server") as server, serving_graph(SHAPE) as (_, graph):
        with Fleet(server.dsn, tmp_path) as fleet:
            assert fleet.submit(graph.start).code == 0
            await server.ask("CONFIG", "SET", "maxmemory", "1mb")
            workers = [fleet.start("--until-done", *roles) for roles in (FETCH, PARSE, SINK)]

            assert [await fleet.ended(worker) for worker in workers] == [0, 0, 0], fleet.logs()
            judge.assert_items("JSONL", records(tmp_path / "items.jsonl"), graph.expected().items)
            judge.assert_counted(fleet.counts(), graph.expected())
            assert fleet.verify().code == 0


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("roles_of_workers", [(ALL,) * 3, (FETCH, PARSE, PARSE, SINK)], ids=["all", "apart"])
async def test_a_network_that_loses_answers_of_the_store(
    roles_of_workers: tuple[tuple[str, ...], ...], tmp_path: Path
) -> None:
    """The store has executed each command, and the worker does not know: every call is repeated."""
    shape, rate = Shape(seed=6, pages=600, hosts=20), 4.0
    async with valkey(tmp_path / "server", *SYNCED) as server, serving_graph(shape) as served:
        site, graph = served
        with weather(server.port) as between:
            dsn = f"redis://127.0.0.1:{between.port}"
            with Fleet(dsn, tmp_path, lease=LEASE) as fleet:
                assert fleet.submit(graph.start, "--rate", str(rate)).code == 0
                workers = [fleet.start("--until-done", *roles) for roles in roles_of_workers]
                between.become(Sky.LOSSY)
                await fleet.until_served(site, 500)
                between.become(Sky.FAIR)

                assert [await fleet.ended(worker) for worker in workers] == [0] * len(roles_of_workers), (
                    fleet.logs()
                )
                hits, expected = await site.hits(), graph.expected()
                assert between.losses > 50
                judge.assert_items("JSONL", records(tmp_path / "items.jsonl"), expected.items)
                judge.assert_counted(fleet.counts(), expected)
                judge.assert_paced(hits, rate)
                assert fleet.verify().code == 0
