from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.frontiers import BACKENDS, FLEETS, UNLIMITED, AnyFrontier, Bench


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked `embedded(why a fleet does otherwise)` on the backends that it is meant for."""
    if "bench" in metafunc.fixturenames and not hasattr(metafunc.module, "bench"):
        embedded = metafunc.definition.get_closest_marker("embedded")
        meant = BACKENDS.keys() - FLEETS if embedded else BACKENDS.keys()
        metafunc.parametrize("bench", sorted(meant), indirect=True)


@pytest.fixture
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """One backend, whose accounts every test has to leave in order."""
    async with BACKENDS[request.param](tmp_path) as opened:
        yield opened
        for crawl in await opened.frontier.reader.crawls():
            assert (await opened.frontier.reader.audit(crawl)).problems == []
            counts = await opened.frontier.reader.counts(crawl)
            assert counts.accepted == sum(counts.by_state().values())


@pytest.fixture
async def frontier(bench: Bench) -> AnyFrontier:
    """A frontier with one open crawl, `c`, that no host slows down."""
    await bench.frontier.crawls.open("c", pace=UNLIMITED)
    return bench.frontier
