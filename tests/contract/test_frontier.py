"""The contract of a frontier, run against every backend. The tests are in `shoal.testing.contracts.frontier`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.contract.frontiers import FLEETS, SqliteBench

from shoal.frontier.contract import FrontierReader
from shoal.frontier.sqlite import SqliteFrontier
from shoal.testing.contracts.frontier import (
    AuditedFrontier,
    EmbeddedFrontierContract,
    FrontierBench,
    FrontierContract,
    HistoryContract,
)


class TestEmbedded(EmbeddedFrontierContract):
    backends = ("memory", "sqlite")


class TestFleet(FrontierContract):
    backends = FLEETS


class TestReaderBesideOwner(HistoryContract, AuditedFrontier):
    """Another process reads the store while its owner has it open."""

    backends = ("sqlite",)

    @asynccontextmanager
    async def open_reader(self, bench: FrontierBench) -> AsyncIterator[FrontierReader]:
        assert isinstance(bench, SqliteBench)
        async with SqliteFrontier.peek(bench.path, clock=bench.clock) as reader:
            yield reader
