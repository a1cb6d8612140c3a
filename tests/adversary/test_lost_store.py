"""A store that loses everything while a crawl runs: emptied, or restarted without its data."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.adversary.size import sized
from tests.e2e.command import shoal, start_logged
from tests.fleet_crawl import Fleet
from tests.graph_crawl import SPIDER, serving_graph
from tests.servers.redis import RedisServer, valkey
from tests.site.graph import Shape
from tests.site.server import ServedSite

SHAPE = Shape(seed=8, pages=sized(400, full=2000), hosts=4)
ENDS_WITHIN = 60.0


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with valkey(tmp_path / "server") as running:  # without persistence: a restart is a loss
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


async def empty(server: RedisServer) -> None:
    await server.ask("FLUSHALL")


async def restart(server: RedisServer) -> None:
    server.kill()
    await server.begin()


async def lose_record_and_queue(server: RedisServer) -> None:
    """Delete the list of crawls of the frontier, and leave the record: half of the store is lost."""
    await server.ask("DEL", "{shoal:00}:crawls")


LOSSES: list[Callable[[RedisServer], Awaitable[None]]] = [empty, restart, lose_record_and_queue]


@pytest.mark.parametrize("lose", LOSSES)
async def test_a_worker_until_done_does_not_call_a_lost_crawl_done(
    lose: Callable[[RedisServer], Awaitable[None]], server: RedisServer, folder: Path
) -> None:
    async with serving_graph(SHAPE) as (site, graph):
        with Fleet(server.dsn, folder) as fleet:
            assert fleet.submit(graph.start, "--per-host", "1").code == 0
            worker = fleet.start("--until-done")
            await fleet.until_served(site, 20)
            await lose(server)

            assert await fleet.ended(worker, within=ENDS_WITHIN) == 5, fleet.logs()
            assert "crawl 'graph' is lost" in fleet.logs()
            assert "crawl.lost" in fleet.logs()
            assert " error " in fleet.logs().lower()


async def _lose_during(command: list[str], server: RedisServer, folder: Path, site: ServedSite) -> str:
    """Run a command, empty the store when it has fetched some pages, and return what it printed."""
    process = start_logged(*command, cwd=folder, log=folder / "log")
    try:
        async with asyncio.timeout(ENDS_WITHIN):
            while await site.served() < 20:
                assert process.poll() is None, (folder / "log").read_text()
                await asyncio.sleep(0.05)
        await empty(server)
        code = await asyncio.to_thread(process.wait, ENDS_WITHIN)
    finally:
        process.kill()
    printed = (folder / "log").read_text()
    assert code == 5, printed
    return printed


@pytest.mark.parametrize("command", ["crawl", "fleet"])
async def test_a_command_that_runs_a_crawl_names_the_lost_crawl(
    command: str, server: RedisServer, folder: Path
) -> None:
    async with serving_graph(SHAPE) as (site, graph):
        options = ["--any-host", "--allow-private", "--rate", "0", "--per-host", "1", "--quiet"]
        target = [str(SPIDER), graph.start, "--store", server.dsn, *options]
        printed = await _lose_during([command, *target], server, folder, site)
    assert "crawl 'graph' is lost" in printed


async def test_deleting_a_crawl_is_not_a_loss(server: RedisServer, folder: Path) -> None:
    async with serving_graph(SHAPE) as (site, graph):
        with Fleet(server.dsn, folder) as fleet:
            fleet.submit(graph.start, "--per-host", "1")
            worker = fleet.start("--until-done")
            await fleet.until_served(site, 20)
            shoal("pause", "graph", cwd=folder, env=fleet.env)
            async with asyncio.timeout(ENDS_WITHIN):  # workers finish their pages first
                while (deleted := shoal("delete", "graph", "--yes", cwd=folder, env=fleet.env)).code:
                    assert deleted.code == 4, deleted.err
                    await asyncio.sleep(0.5)
            assert await fleet.ended(worker, within=ENDS_WITHIN) == 0, fleet.logs()
