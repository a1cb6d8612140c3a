from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.frontiers import BACKENDS, TOPOLOGY_TESTS, marks_of

from shoal.testing.contracts.frontier import FrontierBench


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a contract of frontiers on the backends that its test class names."""
    if "bench" in metafunc.fixturenames and (backends := getattr(metafunc.cls, "backends", ())):
        topology = metafunc.function.__name__ in TOPOLOGY_TESTS
        kinds = [pytest.param(kind, marks=marks_of(kind, topology=topology)) for kind in backends]
        metafunc.parametrize("bench", kinds, indirect=True)


@pytest.fixture
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FrontierBench]:
    async with BACKENDS[request.param](tmp_path) as opened:
        yield opened
