"""A fleet on a web whose answer is known: several workers, one store, every page and every item once."""

import asyncio
import signal
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import DONE, HASTY, PAGES, PRIVATE, QUICK, TIMEOUT, records, shoal
from tests.fleet_crawl import Fleet, assert_fleet_items
from tests.graph_crawl import assert_same, serving_graph
from tests.servers.process import free_port
from tests.servers.redis import SYNCED, RedisServer, valkey
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
    async with valkey(tmp_path / "server", *SYNCED) as running:
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
            await fleet.until_served(site, SHAPE.pages // 4)
            others = [fleet.start("--until-done") for _ in range(2)]
            await fleet.until_served(site, SHAPE.pages // 2)
            fleet.kill(first)
            codes = [await fleet.ended(worker) for worker in others]
            expected = graph.expected()
            asked = fetches(await site.hits())

            assert codes == [0, 0], fleet.logs()
            assert_same("fetched", set(asked), expected.fetched)
            assert asked.total() - len(expected.fetched) <= CONCURRENCY + GROUP_COMMIT
            assert_fleet_items(fleet, graph)


@pytest.mark.slow
async def test_stages_apart_survive_the_death_of_a_parser_and_of_the_store(
    server: RedisServer, folder: Path
) -> None:
    async with serving_graph(SHAPE) as (site, graph):
        with Fleet(server.dsn, folder) as fleet:
            fleet.submit(graph.start)
            parser = fleet.start("--roles", "parse", "--until-done")
            others = [fleet.start("--roles", roles, "--until-done") for roles in ("fetch", "parse,sink")]
            await fleet.until_served(site, SHAPE.pages // 4)
            server.kill()
            await server.begin()
            await fleet.until_served(site, SHAPE.pages // 2)
            fleet.kill(parser)
            codes = [await fleet.ended(worker) for worker in others]
            expected = graph.expected()

            assert codes == [0, 0], fleet.logs()
            assert_same("fetched", set(fetches(await site.hits())), expected.fetched)
            assert_fleet_items(fleet, graph)
            assert fleet.counts()["done"] == len(expected.fetched) - len(expected.gone)


@pytest.mark.slow
async def test_several_workers_stop_exactly_at_the_limit_of_pages(server: RedisServer, folder: Path) -> None:
    async with serving_graph(SHAPE) as (_, graph):
        with Fleet(server.dsn, folder) as fleet:
            fleet.submit(graph.start, "--max-pages", "150")
            workers = [
                *(fleet.start("--until-done") for _ in range(2)),
                fleet.start("--until-done", "--roles", "fetch"),
            ]
            codes = [await fleet.ended(worker) for worker in workers]
            counts = fleet.counts()

            assert codes == [0, 0, 0], fleet.logs()
            assert (counts["done"], counts["parsing"], counts["leased"]) == (150, 0, 0)


async def test_crawl_does_every_role_on_a_shared_store(server: RedisServer, folder: Path, shop: str) -> None:
    env = {"SHOAL_STORE": server.dsn, **PRIVATE, **HASTY}
    first = shoal("crawl", shop, *QUICK, "--out", "items.jsonl", "--json", cwd=folder, env=env)
    again = shoal("crawl", shop, *QUICK, "--out", "items.jsonl", cwd=folder, env=env)

    assert first.code == 0, first.err
    assert (first.json["ending"], first.json["counts"]["done"]) == ("finished", DONE)
    assert len(records(folder / "items.jsonl")) == PAGES
    assert again.code == 0, again.err
    assert again.out.startswith("Nothing to do: crawl 127.0.0.1:")
    assert len(records(folder / "items.jsonl")) == PAGES


async def test_an_output_that_cannot_be_written_ends_a_worker_that_runs_until_done(
    server: RedisServer, folder: Path, shop: str
) -> None:
    out = folder / "items.jsonl"
    out.write_text("of another program\n")
    env = {"SHOAL_STORE": server.dsn, **PRIVATE, **HASTY}
    crawl = ("crawl", shop, *QUICK, "--out", "items.jsonl", "--quiet")
    for command in (crawl, ("worker", "--until-done", "--quiet")):
        ran = shoal(*command, cwd=folder, env=env)
        assert ran.code == 1, ran.err
        assert "it already exists and was not written by this crawl" in ran.err.splitlines()[-1]
    assert out.read_text() == "of another program\n"

    out.unlink()
    assert shoal(*crawl, cwd=folder, env=env).code == 0
    assert len(records(out)) == PAGES


async def test_a_worker_says_what_it_has_done_for_programs(
    server: RedisServer, folder: Path, shop: str
) -> None:
    with Fleet(server.dsn, folder, settings=HASTY) as fleet:
        fleet.submit(shop, "--crawl", "shop", spider=None)
        ran = shoal("worker", "--until-done", "--json", cwd=folder, env=fleet.env)

    assert (ran.code, ran.err) == (0, "")
    assert (ran.json["ending"], ran.json["exit_code"]) == ("finished", 0)
    done = ran.json["crawls"]["shop"]
    assert (done["pages"], done["items"], done["handed_on"]) == (DONE, PAGES, 0)
    assert done["bytes"] > 0
    assert done["failures"] == {"target_error": 1}


async def test_a_worker_serves_every_crawl_until_it_is_asked_to_stop_and_is_seen_meanwhile(
    server: RedisServer, folder: Path, shop: str
) -> None:
    (folder / "urls.txt").write_text(f"# where to begin\n{shop}\nnowhere\n")
    listed = ("--seeds", "urls.txt", "--crawl", "listed", "--out", "listed.jsonl", *QUICK)
    with Fleet(server.dsn, folder, settings=HASTY) as fleet:
        assert fleet.submit(shop, "--crawl", "shop", spider=None).code == 0
        second = shoal("submit", *listed, cwd=folder, env=fleet.env)
        worker = fleet.start()
        while not (seen := fleet.status())["workers"] or not all_done(seen):
            assert worker.poll() is None, fleet.logs()
        worker.send_signal(signal.SIGTERM)

        assert await fleet.ended(worker) == 0, fleet.logs()
        assert (second.code, second.err.split(" ")[1]) == (6, "urls.txt:3:")
        [beaten] = seen["workers"]
        assert (beaten["pid"], beaten["roles"]) == (worker.pid, ["fetch", "parse", "sink"])
        assert fleet.status()["workers"] == []
        for output in ("items.jsonl", "listed.jsonl"):
            assert len(records(folder / output)) == PAGES


def all_done(status: Any) -> bool:
    return all(crawl["counts"]["done"] == DONE for crawl in status["crawls"])


async def test_what_cannot_be_submitted_is_refused_before_anything_is_written(
    server: RedisServer, folder: Path
) -> None:
    (folder / "broken.py").write_text("import shoal\nspider = shoal.Spider(")
    for target, option, complaint in (
        ("broken.py", "--quiet", "broken.py:2: SyntaxError"),
        ("https://a.test/", "--out=-", "a fleet has no standard output"),
        ("https://a.test/", "--store=folder", "pass --store redis://HOST"),
    ):
        ran = shoal("submit", target, option, cwd=folder, env={"SHOAL_STORE": server.dsn})
        assert ran.code == 1
        assert complaint in ran.complaint
    assert shoal("status", "--json", cwd=folder, env={"SHOAL_STORE": server.dsn}).json["crawls"] == []


@pytest.mark.slow
async def test_a_crawl_that_is_begun_afresh_while_workers_run_is_crawled_anew(
    server: RedisServer, folder: Path
) -> None:
    async with serving_graph(SHAPE) as (site, graph):
        with Fleet(server.dsn, folder) as fleet:
            fleet.submit(graph.start)
            first = fleet.start()
            await fleet.until_served(site, SHAPE.pages // 4)
            again = fleet.submit(graph.start, "--fresh")
            assert (again.code, again.json["resumed"]) == (0, False)
            last = fleet.start("--until-done")

            assert await fleet.ended(last) == 0, fleet.logs()
            first.send_signal(signal.SIGTERM)
            assert await fleet.ended(first) == 0, fleet.logs()
            assert_fleet_items(fleet, graph)
            assert fleet.counts()["done"] == len(graph.expected().pages | graph.expected().redirects)


@pytest.mark.slow
async def test_a_worker_waits_for_a_store_that_is_gone_and_no_request_leaves_meanwhile(
    server: RedisServer, folder: Path
) -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    async with serving_graph(SHAPE) as (site, graph):
        with Fleet(f"{server.dsn}?patience_s=1", folder) as fleet:
            fleet.submit(graph.start)
            worker = fleet.start("--metrics", endpoint)
            await fleet.until_served(site, SHAPE.pages // 4)
            server.kill()
            asked = len(await site.hits())
            await until_told(fleet, "store.unavailable")
            assert "shoal_store_up 0.0" in await asyncio.to_thread(metrics_of, endpoint)
            assert worker.poll() is None, fleet.logs()  # both took longer than the store's patience
            # What had been granted before may still have been on its way.
            assert len(await site.hits()) - asked <= CONCURRENCY + GROUP_COMMIT
            assert len(await site.hits()) < SHAPE.pages

            await server.begin()
            last = fleet.start("--until-done")
            assert await fleet.ended(last) == 0, fleet.logs()
            assert "store.recovered" in fleet.logs()
            worker.send_signal(signal.SIGTERM)
            assert await fleet.ended(worker) == 0, fleet.logs()
            assert_same("fetched", set(fetches(await site.hits())), graph.expected().fetched)
            assert_fleet_items(fleet, graph)


def metrics_of(endpoint: str) -> str:
    with urllib.request.urlopen(f"http://{endpoint}/metrics", timeout=TIMEOUT) as answer:
        text: str = answer.read().decode()
        return text


async def until_told(fleet: Fleet, event: str) -> None:
    async with asyncio.timeout(TIMEOUT):
        while event not in fleet.logs():  # noqa: ASYNC110 (another process writes it)
            await asyncio.sleep(0.05)


async def test_a_worker_that_is_to_end_does_not_wait_for_a_store_for_ever(
    server: RedisServer, folder: Path, shop: str
) -> None:
    with Fleet(f"{server.dsn}?patience_s=1", folder) as fleet:
        fleet.submit(shop, "--crawl", "shop", spider=None)
        assert shoal("pause", "shop", cwd=folder, env=fleet.env).code == 0
        worker = fleet.start()
        other = fleet.start("--until-done")
        while len(fleet.status()["workers"]) < 2:
            assert worker.poll() is other.poll() is None, fleet.logs()
        server.kill()

        assert await fleet.ended(other) == 4, fleet.logs()
        assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
        assert await fleet.ended(worker) == 4, fleet.logs()


async def test_a_store_that_cannot_be_asked_ends_a_command_with_4(folder: Path) -> None:
    unreachable = {"SHOAL_STORE": f"redis://:secret@127.0.0.1:{free_port()}?patience_s=0.2"}
    for command in (
        ("worker",),
        ("submit", "https://a.test/"),
        ("status",),
        ("reparse", "https://a.test/"),
        ("export", "--out", "items.csv"),
    ):
        ran = shoal(*command, cwd=folder, env=unreachable)
        assert ran.code == 4
        assert "cannot be reached" in ran.complaint
        assert "secret" not in ran.err
