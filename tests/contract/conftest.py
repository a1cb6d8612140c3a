from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.frontiers import BACKENDS, FLEETS, UNLIMITED, AnyFrontier, Bench


@pytest.fixture(params=sorted(BACKENDS))
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """One backend, whose accounts every test has to leave in order."""
    embedded = request.node.get_closest_marker("embedded")
    if embedded is not None and request.param in FLEETS:
        pytest.skip(f"a fleet does otherwise: {embedded.args[0]}")
    async with BACKENDS[request.param](tmp_path) as opened:
        yield opened
        for crawl in await opened.frontier.crawls():
            assert (await opened.frontier.audit(crawl)).problems == []
            counts = await opened.frontier.counts(crawl)
            assert counts.accepted == sum(counts.by_state().values())


@pytest.fixture
async def frontier(bench: Bench) -> AnyFrontier:
    """A frontier with one open crawl, `c`, that no host slows down."""
    await bench.frontier.open_crawl("c", pace=UNLIMITED)
    return bench.frontier
