"""The contract of a frontier as tests.

`shoal.frontier` has the same contract in prose, `shoal.frontier.contract` as types. A backend that several
processes share derives from `FrontierContract`; one with a single owner process derives from
`EmbeddedFrontierContract`, which has more tests. The test class provides the fixture `bench`:

    from shoal.testing.contracts.frontier import FrontierContract, ManualClock

    class MyBench:                                  # fits `FrontierBench`
        def __init__(self, clock: ManualClock) -> None:
            self.clock = clock
            self.frontier = MyFrontier(clock)

        async def kill(self) -> None:
            ...                                     # the owner dies, another one takes over

    class TestMyFrontier(FrontierContract):
        @pytest.fixture
        def bench(self) -> MyBench:
            return MyBench(ManualClock())

After each test, every crawl of the frontier is audited.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from shoal.frontier.contract import Frontier
from shoal.testing.contracts.frontier.adding import AddingContract
from shoal.testing.contracts.frontier.bench import (
    BLOCKED,
    BROKEN,
    START,
    TIMEOUT,
    UNLIMITED,
    FrontierBench,
    ManualClock,
    link,
    page,
    paths,
    settle,
    states,
    take,
)
from shoal.testing.contracts.frontier.dead_letters import DeadLettersContract
from shoal.testing.contracts.frontier.generations import EmbeddedGenerationsContract, GenerationsContract
from shoal.testing.contracts.frontier.history import HistoryContract
from shoal.testing.contracts.frontier.hosts import EmbeddedHostsContract, HostsContract
from shoal.testing.contracts.frontier.leasing import LeasingContract
from shoal.testing.contracts.frontier.pace import PaceContract
from shoal.testing.contracts.frontier.parsing import EmbeddedParsingContract, ParsingContract
from shoal.testing.contracts.frontier.recovery import EmbeddedRecoveryContract, RecoveryContract
from shoal.testing.contracts.frontier.settling import SettlingContract

__all__ = [
    "BLOCKED",
    "BROKEN",
    "START",
    "TIMEOUT",
    "UNLIMITED",
    "AuditedFrontier",
    "EmbeddedFrontierContract",
    "FrontierBench",
    "FrontierContract",
    "HistoryContract",
    "ManualClock",
    "link",
    "page",
    "paths",
    "settle",
    "states",
    "take",
]


class AuditedFrontier:
    """The fixture `frontier`, and an audit of all crawls after each test."""

    pytestmark = pytest.mark.asyncio

    @pytest_asyncio.fixture
    async def frontier(self, bench: FrontierBench) -> Frontier:
        """Return a frontier with one open crawl, `c`, whose pace is unlimited."""
        await bench.frontier.crawls.open("c", pace=UNLIMITED)
        return bench.frontier

    @pytest_asyncio.fixture(autouse=True)
    async def audit(self, bench: FrontierBench) -> AsyncIterator[None]:
        yield
        reader = bench.frontier.reader
        for crawl in await reader.crawls():
            assert (await reader.audit(crawl)).problems == []
            counts = await reader.counts(crawl)
            assert counts.accepted == sum(counts.by_state().values())


class FrontierContract(
    AddingContract,
    LeasingContract,
    SettlingContract,
    PaceContract,
    HostsContract,
    RecoveryContract,
    ParsingContract,
    DeadLettersContract,
    GenerationsContract,
    AuditedFrontier,
):
    """What every frontier guarantees."""


class EmbeddedFrontierContract(
    FrontierContract,
    EmbeddedHostsContract,
    EmbeddedRecoveryContract,
    EmbeddedParsingContract,
    EmbeddedGenerationsContract,
    HistoryContract,
):
    """What a frontier with a single owner process guarantees in addition."""
