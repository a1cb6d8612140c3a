"""Leases that are out: what counts as owed, and what happens when one runs out."""

import asyncio

import pytest
from tests.unit.engine.leased import AtHundred, Nowhere, ToldFrontier, lease

from shoal.engine.commit import Committer
from shoal.engine.leases import Leases
from shoal.engine.outputs import Durable, OutputCommit
from shoal.engine.ownership import Ownership
from shoal.model.outcome import Gone, Lease, Released, Settlement


class Waiting(Nowhere):
    """The way out of a crawl whose archive does not answer until it is `there`."""

    def __init__(self) -> None:
        self.asked, self.there = asyncio.Event(), asyncio.Event()

    async def flush(self) -> Durable:
        self.asked.set()
        await self.there.wait()
        return Durable()


class Bench:
    def __init__(self, ownership: Ownership, outlet: OutputCommit | None = None) -> None:
        self.frontier = ToldFrontier()
        self.renewed = 0
        self.committer = Committer(
            self.frontier, outlet or Nowhere(), on_commit=lambda: None, on_stale=lambda: None
        )
        self.leases = Leases(
            self.frontier, self.committer, ownership, crawl="c", holder="h", ttl=60.0, on_lost=self._lost
        )

    def _lost(self) -> None:
        self.renewed += 1

    async def take(self, *leases: Lease) -> None:
        self.frontier.grants.append(list(leases))
        await self.leases.take(len(leases))


@pytest.fixture
async def bench() -> Bench:
    return Bench(AtHundred())


async def test_what_is_settled_is_owed_until_it_is_durable(bench: Bench) -> None:
    await bench.take(lease(1), lease(2))
    bench.leases.settle(Settlement(lease(1), Gone(404)))

    assert (len(bench.leases), bench.leases.owed) == (1, 2)
    await bench.committer.flush()
    assert (len(bench.leases), bench.leases.owed) == (1, 1)


async def test_what_is_given_back_has_cost_nothing(bench: Bench) -> None:
    await bench.take(lease(1))
    bench.leases.give_back(lease(1))
    await bench.committer.flush()

    assert bench.frontier.settled == [Settlement(lease(1), Released(), sent=False)]
    assert not bench.leases


async def test_only_deadlines_that_come_near_are_moved(bench: Bench) -> None:
    await bench.take(lease(1, until=129.0), lease(2, until=131.0))

    await bench.leases.extend()

    assert [out.leased_until for out in bench.leases] == [1000.0, 131.0]
    await bench.leases.extend()
    assert bench.frontier.calls.count("extend") == 1


async def test_what_waits_to_be_settled_is_extended_as_well() -> None:
    archive = Waiting()
    bench = Bench(AtHundred(), archive)
    await bench.take(lease(1, until=120.0), lease(2, until=120.0))
    bench.leases.settle(Settlement(lease(1, until=120.0), Gone(404)))
    committing = asyncio.ensure_future(bench.committer.flush())
    await archive.asked.wait()
    bench.leases.settle(Settlement(lease(2, until=120.0), Gone(404)))

    await bench.leases.extend()

    assert bench.frontier.extended == [1, 2]
    archive.there.set()
    await committing
    assert [one.lease.fingerprint for one in bench.frontier.settled] == [1]


@pytest.mark.parametrize("call", ["lease", "extend"])
async def test_what_has_run_out_is_committed_before_a_call_that_reclaims(bench: Bench, call: str) -> None:
    await bench.take(lease(1, until=99.0), lease(2, until=120.0))
    bench.leases.settle(Settlement(lease(1, until=99.0), Gone(404)))

    await (bench.take() if call == "lease" else bench.leases.extend())

    assert bench.frontier.calls[1:] == ["commit", call]


async def test_a_lease_that_ran_out_is_let_go_and_told(bench: Bench) -> None:
    await bench.take(lease(1))
    assert not bench.leases.gave_up(lease(1))

    bench.frontier.lost.add(1)

    assert bench.leases.gave_up(lease(1))
    assert not bench.leases
    assert bench.renewed == 1


async def test_a_lease_that_ran_out_does_not_take_its_successor_along(bench: Bench) -> None:
    await bench.take(lease(1, token=1))
    await bench.take(lease(1, token=2))
    bench.frontier.lost.add(1)

    assert bench.leases.gave_up(lease(1, token=1))

    assert [out.token for out in bench.leases] == [2]
