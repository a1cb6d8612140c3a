"""Leases that are held: what is at risk, and what happens when one expires."""

import asyncio

import pytest
from tests.unit.engine.leased import AtHundred, NoOutputs, ScriptedFrontier, SentLinksCounter, lease

from shoal.engine.commit import Committer
from shoal.engine.fetchers import Pools
from shoal.engine.leases import Leases, Ownership
from shoal.engine.outputs import Durable, OutputCommit
from shoal.model.outcome import Gone, Lease, Released, Settlement


class Waiting(NoOutputs):
    """Outputs whose archive is unavailable until `there` is set."""

    def __init__(self) -> None:
        self.asked, self.there = asyncio.Event(), asyncio.Event()

    async def flush(self) -> Durable:
        self.asked.set()
        await self.there.wait()
        return Durable()


class Bench:
    def __init__(self, ownership: Ownership, outputs: OutputCommit | None = None) -> None:
        self.frontier = ScriptedFrontier()
        self.sent_links = SentLinksCounter()
        self.pools = Pools(["http"], exclusive=True)
        self.committer = Committer(
            self.frontier, outputs or NoOutputs(), wake=asyncio.Event(), sent_links=SentLinksCounter()
        )
        self.leases = Leases(
            self.frontier,
            self.committer,
            ownership,
            crawl="c",
            holder="h",
            ttl=60.0,
            pools=self.pools,
            sent_links=self.sent_links,
        )

    async def take(self, *leases: Lease) -> None:
        self.frontier.grants.append(list(leases))
        await self.leases.take(len(leases))


@pytest.fixture
async def bench() -> Bench:
    return Bench(AtHundred())


async def test_a_settled_lease_is_at_risk_until_it_is_durable(bench: Bench) -> None:
    await bench.take(lease(1), lease(2))
    bench.leases.settle(Settlement(lease(1), Gone(404)))

    assert (len(bench.leases), bench.leases.at_risk) == (1, 2)
    await bench.committer.flush()
    assert (len(bench.leases), bench.leases.at_risk) == (1, 1)


async def test_a_released_lease_counts_as_no_attempt(bench: Bench) -> None:
    await bench.take(lease(1))
    bench.leases.give_back(lease(1))
    await bench.committer.flush()

    assert bench.frontier.settled == [Settlement(lease(1), Released(), sent=False)]
    assert not bench.leases


async def test_only_leases_with_a_near_deadline_are_extended(bench: Bench) -> None:
    await bench.take(lease(1, until=129.0), lease(2, until=131.0))

    await bench.leases.extend()

    assert [out.leased_until for out in bench.leases] == [1000.0, 131.0]
    await bench.leases.extend()
    assert bench.frontier.calls.count("extend") == 1


async def test_leases_whose_settlement_is_pending_are_extended_too() -> None:
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
async def test_expired_leases_are_committed_before_a_call_that_reclaims(bench: Bench, call: str) -> None:
    await bench.take(lease(1, until=99.0), lease(2, until=120.0))
    bench.leases.settle(Settlement(lease(1, until=99.0), Gone(404)))

    await (bench.take() if call == "lease" else bench.leases.extend())

    assert bench.frontier.calls[1:] == ["commit", call]


async def test_an_expired_lease_is_dropped_and_its_links_are_sent_again(bench: Bench) -> None:
    await bench.take(lease(1))
    assert not bench.leases.lease_lost(lease(1))

    bench.frontier.lost.add(1)

    assert bench.leases.lease_lost(lease(1))
    assert not bench.leases
    assert bench.sent_links.forgotten == 1


async def test_an_expired_lease_does_not_drop_its_successor(bench: Bench) -> None:
    await bench.take(lease(1, token=1))
    await bench.take(lease(1, token=2))
    bench.frontier.lost.add(1)

    assert bench.leases.lease_lost(lease(1, token=1))

    assert [out.token for out in bench.leases] == [2]


async def test_leases_are_asked_for_in_the_pools_that_are_served(bench: Bench) -> None:
    for pool in ("http", "http-eu"):
        assert bench.pools.refusal([pool]) is None
        await bench.take()
        assert bench.frontier.pools[-1] == pool


async def test_every_lease_that_is_granted_is_recorded() -> None:
    """A fleet accepts links to the hosts of leases: another worker's seed may have been followed to them."""
    ownership = AtHundred()
    await Bench(ownership).take(lease(1), lease(2))

    assert ownership.recorded == [1, 2]
