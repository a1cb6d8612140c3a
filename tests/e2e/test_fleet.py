"""A fleet on a web whose answer is known: several workers, one store, every page and every item once."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.fleet_crawl import Fleet, assert_fleet_items, until_served
from tests.graph_crawl import assert_same, serving_graph
from tests.servers.redis import RedisServer, valkey
from tests.site.access_log import fetches
from tests.site.graph import Shape

SHAPE = Shape(
    seed=5,
    pages=600,
    hosts=12,
    chain=8,
    redirects=20,
    gone=10,
    disallowed=10,
    spellings=True,
    queries=True,
)
CONCURRENCY, GROUP_COMMIT = 16, 64


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with valkey(tmp_path / "server", "--appendonly", "yes") as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.mark.slow
async def test_three_workers_fetch_every_page_once(server: RedisServer, folder: Path) -> None:
    async with serving_graph(SHAPE) as (site, graph):
        with Fleet(server.dsn, folder) as fleet:
            submitted = fleet.submit(graph.start)
            assert submitted.code == 0, submitted.err
            workers = [fleet.start("--until-done") for _ in range(3)]
            codes = [await fleet.ended(worker) for worker in workers]
            expected = graph.expected()

            assert codes == [0, 0, 0], fleet.logs()
            assert_same("fetched", fetches(await site.hits()).elements(), expected.fetched)
            assert_same("archived", fleet.archived().elements(), expected.pages)
            assert_fleet_items(fleet, graph)
            counts = fleet.counts()
            assert counts["accepted"] == len(expected.fetched) + len(expected.disallowed)
            assert (counts["gone"], counts["filtered"], counts["dead"]) == (10, 10, 0)


@pytest.mark.slow
async def test_what_a_killed_worker_had_is_done_by_the_others(server: RedisServer, folder: Path) -> None:
    async with serving_graph(SHAPE) as (site, graph):
        with Fleet(server.dsn, folder) as fleet:
            fleet.submit(graph.start)
            first = fleet.start("--until-done")
            await until_served(site, SHAPE.pages // 4)
            others = [fleet.start("--until-done") for _ in range(2)]
            await until_served(site, SHAPE.pages // 2)
            fleet.kill(first)
            codes = [await fleet.ended(worker) for worker in others]
            expected = graph.expected()
            asked = fetches(await site.hits())

            assert codes == [0, 0], fleet.logs()
            assert_same("fetched", set(asked), expected.fetched)
            assert asked.total() - len(expected.fetched) <= CONCURRENCY + GROUP_COMMIT
            assert_fleet_items(fleet, graph)
