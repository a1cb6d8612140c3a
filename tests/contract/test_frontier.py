"""The contract of a frontier, run against every backend. The tests are in `shoal.testing.contracts.frontier`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.contract.frontiers import FLEETS, TOPOLOGY_TESTS, SqliteBench

from shoal.frontier.contract import Frontier, FrontierReader
from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.outcome import Retry
from shoal.testing.contracts.frontier import (
    TIMEOUT,
    AuditedFrontier,
    EmbeddedFrontierContract,
    FrontierBench,
    FrontierContract,
    HistoryContract,
    link,
    settle,
    states,
    take,
)


class TestEmbedded(EmbeddedFrontierContract):
    backends = ("memory", "sqlite")


class TestGuest(EmbeddedFrontierContract):
    """The frontier of a guest, whose calls its owner carries out.

    It reads the database, which has the counts of the last transaction.
    """

    backends = ("guest",)

    async def test_a_retry_waits_for_its_delay_and_counts_attempts(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1")])
        [lease] = await take(frontier)
        await settle(frontier, lease, Retry(TIMEOUT, delay=5.0))
        assert await states(frontier) == {"delayed": 1}
        assert await take(frontier) == []

        bench.clock.advance(5.0)
        [again] = await take(frontier)
        assert again.attempt == 2
        assert await states(frontier) == {"leased": 1}

    async def test_waiting_requests_are_counted_by_pool(self, frontier: Frontier) -> None:
        await frontier.add("c", [link("1"), link("2", pool="browser"), link("3", pool="browser")])
        await take(frontier, pools=("browser",), limit=1)

        assert await frontier.reader.waiting_by_pool("c") == {"http": 1, "browser": 2}  # leased ones as well


class TestFleet(FrontierContract):
    backends = FLEETS


def test_the_tests_that_run_on_every_topology_exist() -> None:
    assert set(dir(FrontierContract)) >= TOPOLOGY_TESTS


class TestReaderBesideOwner(HistoryContract, AuditedFrontier):
    """Another process reads the store while its owner has it open."""

    backends = ("sqlite",)

    @asynccontextmanager
    async def open_reader(self, bench: FrontierBench) -> AsyncIterator[FrontierReader]:
        assert isinstance(bench, SqliteBench)
        async with SqliteFrontier.peek(bench.path, clock=bench.clock) as reader:
            yield reader
