"""A bench for every backend of the frontier: opened, on a clock that the test moves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.contract.redis_frontiers import redis_bench
from tests.model import MemoryFrontier

from shoal.fetch.gate import SendGate
from shoal.frontier.sqlite import SqliteFrontier
from shoal.stores.folder.control_socket import accept_commands
from shoal.stores.folder.directory import StoreFolder
from shoal.stores.folder.guests.server import Guests
from shoal.stores.folder.joining import join_owner
from shoal.testing.contracts.frontier import FrontierBench, ManualClock


class MemoryBench:
    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.frontier = MemoryFrontier(clock)

    async def kill(self) -> None:
        self.frontier.restart()


class SqliteBench:
    def __init__(self, clock: ManualClock, path: Path) -> None:
        self.clock = clock
        self.path = path
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        self.frontier = await self._stack.enter_async_context(
            SqliteFrontier.open(self.path, clock=self.clock)
        )

    async def close(self) -> None:
        await self._stack.aclose()

    async def kill(self) -> None:
        await self.close()  # which releases no lease, just like a death
        await self.open()


class GuestBench:
    """A guest, whose owner dies with it: what the guest holds is then lost at once."""

    def __init__(self, clock: ManualClock, folder: Path) -> None:
        self.clock = clock
        self._folder = StoreFolder(folder)
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        folder, clock, stack = self._folder, self.clock, self._stack
        owner = await stack.enter_async_context(SqliteFrontier.open(folder.database, clock=clock))
        guests = Guests(owner, SendGate(), "the owner")
        hurry = asyncio.Event()
        hurry.set()
        await stack.enter_async_context(accept_commands(folder.path, owner, guests, hurry=hurry))
        joined = join_owner(folder, fsync=False, leave=lambda: None, clock=clock)
        self.frontier = (await stack.enter_async_context(joined)).frontier

    async def close(self) -> None:
        await self._stack.aclose()

    async def kill(self) -> None:
        await self.close()
        await self.open()


@asynccontextmanager
async def guest(folder: Path) -> AsyncIterator[FrontierBench]:
    bench = GuestBench(ManualClock(), folder)
    await bench.open()
    try:
        yield bench
    finally:
        await bench.close()


@asynccontextmanager
async def memory(_: Path) -> AsyncIterator[FrontierBench]:
    yield MemoryBench(ManualClock())


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[FrontierBench]:
    bench = SqliteBench(ManualClock(), folder / "store.db")
    await bench.open()
    try:
        yield bench
    finally:
        await bench.close()


def fleet(kind: str) -> Callable[[Path], AbstractAsyncContextManager[FrontierBench]]:
    return lambda _: redis_bench(kind, ManualClock())


SEVERAL_SERVERS = ("sentinel", "cluster")
FLEETS = ("valkey", "redis", "sentinel", "cluster")  # without an owner process
BACKENDS: dict[str, Callable[[Path], AbstractAsyncContextManager[FrontierBench]]] = {
    "memory": memory,
    "sqlite": sqlite,
    "guest": guest,
    **{kind: fleet(kind) for kind in FLEETS},
}

# The scripts are the same on every server; what differs is how the client finds a server and whether a write waits for
# a replica. These tests call each script and each way of calling one; `make test-all` runs the others there as well.
TOPOLOGY_TESTS = {
    "test_a_link_is_accepted_once",
    "test_adding_to_a_crawl_that_is_not_open_raises_misconfigured",
    "test_a_deleted_crawl_starts_empty",
    "test_the_next_generation_finds_the_records_of_its_pages",
    "test_the_best_priority_goes_first_across_hosts",
    "test_a_paused_crawl_is_not_leased_from",
    "test_a_host_gets_one_request_per_interval",
    "test_a_host_that_turns_requests_away_is_slowed_down_and_recovers",
    "test_robots_txt_is_stored_until_it_expires",
    "test_an_extended_lease_expires_later",
    "test_an_expired_lease_is_granted_again",
    "test_leases_of_a_dead_owner_are_rejected",
    "test_a_released_request_keeps_its_place_and_its_attempts",
    "test_one_commit_settles_acknowledges_and_stores_checkpoints",
    "test_acknowledging_a_fetched_page_ends_its_request",
    "test_replayed_requests_wait_with_all_counts_reset",
}


def marks_of(kind: str, *, topology: bool) -> list[pytest.MarkDecorator]:
    """Return the marks of a test on a kind of server; `topology` is whether it runs on each of them in `make test`."""
    marks = []
    if kind in SEVERAL_SERVERS:  # the test itself knows only the name of its backend
        marks.append(pytest.mark.needs_cluster)
    if kind in FLEETS[1:] and not topology:
        marks.append(pytest.mark.whole_matrix)
    return marks
