from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.frontiers import BACKENDS

from shoal.testing.contracts.frontier import FrontierBench


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a contract of frontiers on the backends that its test class names."""
    if "bench" in metafunc.fixturenames and (backends := getattr(metafunc.cls, "backends", ())):
        metafunc.parametrize("bench", backends, indirect=True)


@pytest.fixture
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FrontierBench]:
    async with BACKENDS[request.param](tmp_path) as opened:
        yield opened
