"""A page that kills its worker: it is given up after the allowed crashes, and everything else succeeds."""

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.crash.fleet import judge, mortal_worker
from tests.e2e.command import records
from tests.fleet_crawl import Fleet
from tests.graph_crawl import assert_same, serving_graph
from tests.servers.redis import SYNCED, valkey
from tests.site.access_log import fetches
from tests.site.graph import Shape

from shoal.frontier.redis import RedisFrontier

SHAPE = Shape(seed=3, pages=120, hosts=10)
CRASHES = 6  # that are allowed, by default
LEASE = 3.0  # seconds; each death costs one


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deed", "workers_roles"),
    [
        ("fetch", (("--roles", "fetch,parse"), ("--roles", "fetch,parse"), ("--roles", "sink"))),
        ("parse", (("--roles", "fetch,sink"), ("--roles", "parse"), ("--roles", "parse"))),
    ],
)
async def test_a_page_that_kills_its_worker_is_given_up_and_its_neighbours_are_not(
    deed: str, workers_roles: tuple[tuple[str, ...], ...], tmp_path: Path
) -> None:
    async with (
        valkey(tmp_path / "server", *SYNCED) as server,
        serving_graph(SHAPE) as (site, graph),
    ):
        # The last one: no other page is found through it.
        poison, items = graph.url(graph.nodes[SHAPE.pages - 1]), graph.items(SHAPE.pages - 1)
        program = (sys.executable, mortal_worker.__file__, deed, poison)
        with Fleet(server.dsn, tmp_path, lease=LEASE) as fleet:
            assert fleet.submit(graph.start).code == 0
            ends: Counter[int] = Counter()
            posts = [fleet.start("--until-done", *roles, program=program) for roles in workers_roles]
            while 0 not in ends:
                await asyncio.sleep(0.05)
                for number, worker in enumerate(posts):
                    if (code := worker.poll()) is not None:
                        ends[code] += 1
                        posts[number] = fleet.start("--until-done", *workers_roles[number], program=program)
            for worker in posts:
                ends[await fleet.ended(worker)] += 1

            assert set(ends) == {0, -9}, fleet.logs()
            assert ends[-9] == CRASHES
            counts, pages = fleet.counts(), graph.expected().pages
            assert (counts["dead"], counts["done"]) == (1, SHAPE.pages - 1), fleet.logs()
            expected = [item for item in graph.expected().items if item not in items]
            judge.assert_items("JSONL", records(tmp_path / "items.jsonl"), expected)
            asked = fetches(await site.hits())
            assert_same("fetched", set(asked), pages - {poison} if deed == "fetch" else pages)
        async with RedisFrontier.open(server.dsn) as frontier:
            [letter] = [letter async for letter in frontier.reader.dead_letters(crawl="graph")]
            assert (letter.request.url, letter.kind.value) == (poison, "poison")
