"""kill -9 of the whole process group at random moments, over and over: nothing lost, nothing doubled.

Each kill is followed by the same command. The moments come from a seed, which a failure shows; `CHAOS_SEED`
repeats them, `CHAOS_PAGES` and `CHAOS_KILLS` change the size. The promise is made for 20,000 pages and 30 kills, which
`make chaos` runs.
"""

import os
import random
from pathlib import Path

import pytest
from tests.graph_crawl import GraphCrawl, Moment, assert_items, assert_same, serving_graph
from tests.site.access_log import fetches
from tests.site.graph import Shape

from shoal.model.yields.counts import ITEMS, SEPARATOR
from shoal.stores.open import open_store

PAGES = int(os.environ.get("CHAOS_PAGES", "1000"))
KILLS = int(os.environ.get("CHAOS_KILLS", "12"))
CONCURRENCY = 16
GROUP_COMMIT = 64  # pages that may be fetched and not yet committed, on top of those in flight
LONGEST_START = 1.5  # seconds within which a kill is meant to hit the start-up


def moments(rng: random.Random, *, pages: int, kills: int) -> list[Moment]:
    """Spread kills over start-up (a quarter), the last pages (a quarter) and everything between."""
    early = kills // 4
    late = kills // 4
    middle = sorted(rng.randrange(pages) for _ in range(kills - early - late))
    plan = [Moment(served, rng.uniform(0, 0.2)) for served in middle]
    for _ in range(early):
        plan.insert(rng.randrange(len(plan) + 1), Moment(0, rng.uniform(0, LONGEST_START)))
    last = sorted(rng.randrange(pages - pages // 50, pages + 1) for _ in range(late))
    return plan + [Moment(served, rng.uniform(0, 0.5)) for served in last]


@pytest.mark.slow("twelve kills, and a start after each")
@pytest.mark.timeout(1800)
async def test_a_crawl_that_is_killed_over_and_over_ends_with_exactly_the_graph(tmp_path: Path) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.SystemRandom().randrange(1_000_000)))
    print(f"CHAOS_SEED={seed}")  # shown if the test fails
    rng = random.Random(seed)
    shape = Shape(
        seed=seed,
        pages=PAGES,
        hosts=50,
        chain=10,
        redirects=100,
        gone=50,
        disallowed=50,
        spellings=True,
        queries=True,
    )
    options = ("--rate", "0", "--per-host", "4", "--concurrency", str(CONCURRENCY))
    async with serving_graph(shape) as (site, graph):
        crawl = GraphCrawl(graph.start, tmp_path, options)
        kills = 0
        for moment in moments(rng, pages=PAGES, kills=KILLS):
            kills += await crawl.run_and_kill(site, moment)

        last = crawl.run()

        assert last.code == 0, last.err
        assert kills >= KILLS * 0.8, "the crawl ended too early for the kills to mean anything"
        expected = graph.expected()
        assert_same("archived", crawl.archived().elements(), expected.pages)
        assert_items(crawl, graph)
        async with open_store(str(tmp_path / "store")) as store:
            counts = (await store.crawls.totals("graph")).counts
        counted = sum(number for name, number in counts.items() if name.startswith(ITEMS + SEPARATOR))
        assert counted == len(expected.items)
        asked = fetches(await site.hits())
        assert_same("fetched", set(asked), expected.fetched)
        assert asked.total() - len(expected.fetched) <= kills * (CONCURRENCY + GROUP_COMMIT)
        verified = crawl.verify()
        assert verified.code == 0, verified.out
