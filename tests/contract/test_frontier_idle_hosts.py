"""Idle hosts are deleted: a store that has crawled millions of hosts keeps those that still matter."""

from collections.abc import AsyncIterator

import pytest
from tests.contract.redis_frontiers import RedisBench, redis_bench

from shoal.frontier.redis.repair import repair_crawls
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Done, Retry
from shoal.model.pace import Pace
from shoal.testing.contracts.frontier import BLOCKED, ManualClock, link, page, settle, take

PACE = Pace(interval=2.0, burst=3, concurrency=4)
LONG, DAY = 601.0, 90_001.0


@pytest.fixture
async def bench() -> AsyncIterator[RedisBench]:
    """A shard with two hosts, each with one request that is done."""
    async with redis_bench("valkey", ManualClock()) as opened:
        await opened.frontier.crawls.open("c", pace=PACE, slowdown=SlowdownRules(at_least=1))
        await opened.frontier.add("c", [link("1", host="a.test"), link("1", host="b.test")])
        for lease in await take(opened.frontier):
            await settle(opened.frontier, lease, Done(page()))
        yield opened
        assert (await opened.frontier.reader.audit("c")).problems == []
        assert await repair_crawls(opened.frontier, ["c"]) == []


async def known(bench: RedisBench) -> set[str]:
    """Call `lease`, and return the hosts that the shard still has a record of."""
    await take(bench.frontier)
    tag = bench.store.tag(0)
    return {name.decode() for name in await bench.store.do(tag, "HKEYS", f"{tag}:h")}


async def test_an_idle_host_is_deleted_and_can_be_added_again(bench: RedisBench) -> None:
    bench.clock.advance(LONG - 2)
    assert await known(bench) == {"a.test", "b.test"}
    bench.clock.advance(2)
    assert await known(bench) == set()
    assert await bench.frontier.hosts.get("a.test") is None
    assert await bench.frontier.hosts.all() == []

    await bench.frontier.add("c", [link(str(number), host="a.test") for number in range(2, 9)])
    assert len(await take(bench.frontier)) == PACE.burst
    view = await bench.frontier.hosts.get("a.test")
    assert view is not None
    assert (view.interval, view.burst, view.waiting, view.inflight) == (2.0, 3, 4, 3)


@pytest.mark.parametrize(
    "given",
    [{"paused": True}, {"interval": 1.0}, {"concurrency": 2}, {"rest_until": 1_800_000_000.0 + 2 * DAY}],
)
async def test_a_host_that_the_operator_has_changed_is_never_deleted(
    bench: RedisBench, given: dict[str, float]
) -> None:
    view = await bench.frontier.hosts.set("a.test", **given)  # type: ignore[arg-type]
    bench.clock.advance(DAY)
    assert await known(bench) == {"a.test"}
    assert await bench.frontier.hosts.get("a.test") == view


async def test_a_host_with_open_requests_is_not_deleted(bench: RedisBench) -> None:
    await bench.frontier.add(
        "c", [link("2", host="a.test"), link("2", host="b.test"), link("1", host="d.test")]
    )
    by_host = {lease.host: lease for lease in await take(bench.frontier, ttl=DAY)}
    await bench.frontier.add("c", [link("3", host="b.test"), link("9", host="e.test")])
    await bench.frontier.hosts.set("e.test", paused=True)
    await settle(bench.frontier, by_host["b.test"], Done(page()))
    unresolved = Failure(FailureClass.DNS, "no address")  # a time-out would slow the host down
    await settle(bench.frontier, by_host["d.test"], Retry(unresolved, delay=DAY))
    await bench.frontier.crawls.pause("c")
    bench.clock.advance(LONG)
    # In flight; waiting in a paused crawl; paused by the operator. A delayed request creates its host again.
    assert await known(bench) == {"a.test", "b.test", "e.test"}

    await bench.frontier.crawls.resume("c")
    bench.clock.advance(DAY)
    assert "d.test" in {lease.host for lease in await take(bench.frontier)}
    await bench.frontier.hosts.set("e.test", paused=False)


async def test_a_host_is_kept_until_its_burst_is_full_again(bench: RedisBench) -> None:
    """If it were deleted earlier, a spent burst would be available again."""
    await bench.frontier.crawls.open("c", pace=Pace(interval=1000.0, burst=3, concurrency=9))
    await bench.frontier.add("c", [link(str(number), host="a.test") for number in range(2, 4)])
    bench.clock.advance(3000.0)
    for lease in await take(bench.frontier):
        await settle(bench.frontier, lease, Done(page()))
    bench.clock.advance(1999.0)
    assert "a.test" in await known(bench)
    bench.clock.advance(2.0)
    assert await known(bench) == set()


async def test_slow_down_and_crawl_delay_are_kept_for_a_day(bench: RedisBench) -> None:
    await bench.frontier.hosts.set("b.test", crawl_delay=7.0)
    bench.clock.advance(10.0)
    await bench.frontier.add("c", [link("2", host="a.test")])
    [lease] = await take(bench.frontier)
    await settle(bench.frontier, lease, Dead(BLOCKED))
    tag = bench.store.tag(0)
    bench.clock.advance(DAY - 100.0)
    assert await known(bench) == {"a.test", "b.test"}
    view = await bench.frontier.hosts.get("a.test")
    assert view is not None
    assert view.slow > 1

    bench.clock.advance(200.0)
    assert await known(bench) == set()
    assert await bench.store.do(tag, "EXISTS", f"{tag}:hw", f"{tag}:ho") == 0


async def test_idle_hosts_are_deleted_in_small_steps(bench: RedisBench) -> None:
    links = [link("1", host=f"{number}.test") for number in range(1000)]
    await bench.frontier.add("c", links)
    while leases := await take(bench.frontier, 500):
        for lease in leases:
            await settle(bench.frontier, lease, Done(page()))
    bench.clock.advance(LONG)
    left = [1002]
    while left[-1]:
        left.append(len(await known(bench)))
        assert left[-2] - left[-1] <= 250  # what HSCAN returns for COUNT 100, with a margin
        assert len(await known(bench)) == left[-1]  # less than a second later
        bench.clock.advance(1.0)
    assert len(left) > 6


@pytest.mark.parametrize("cursor", ["junk", "-1", "9" * 40, ""])
async def test_a_damaged_cursor_of_the_sweep_costs_no_lease(bench: RedisBench, cursor: str) -> None:
    await bench.frontier.add("c", [link("3", host="a.test"), link("2", host="b.test")])
    tag = bench.store.tag(0)
    meta = f"{tag}:m"
    await bench.store.do(tag, "HSET", meta, "sweep", cursor, "swept", 0)

    assert len(await take(bench.frontier)) == 2
    assert await bench.store.do(tag, "HGET", meta, "sweep") == b"0"
