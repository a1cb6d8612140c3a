"""Crawls of several processes in one frontier: fair turns, and unloading the crawl of one that has gone."""

from collections import Counter
from pathlib import Path

import pytest

from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.sqlite.scheduler import GRACE_S
from shoal.model.outcome import Done, Fetched, Settlement
from shoal.model.pace import Pace
from shoal.testing.contracts.frontier import ManualClock, link, page, states

PACED = Pace(interval=1.0, burst=1, concurrency=100)


async def lease(frontier: SqliteFrontier, crawl: str, limit: int = 4) -> int:
    """Lease for one crawl, as the process does that runs it, and settle at once; return how many."""
    grant = await frontier.lease(holder=crawl, limit=limit, ttl=60.0, crawls=(crawl,))
    await frontier.settle([Settlement(lease, Done(page())) for lease in grant.leases])
    return len(grant.leases)


async def test_a_process_that_always_asks_first_leaves_others_their_turns(tmp_path: Path) -> None:
    clock = ManualClock()
    async with SqliteFrontier.open(tmp_path / "store.db", clock=clock) as frontier:
        for crawl in ("owner", "guest"):
            await frontier.crawls.open(crawl, pace=PACED)
            await frontier.add(crawl, [link(str(number)) for number in range(100)])
        frontier.crawls.mark_guest("guest")
        served: Counter[str] = Counter()
        for _ in range(40):
            served["owner"] += await lease(frontier, "owner")
            served["guest"] += await lease(frontier, "guest")  # a moment later, every time
            clock.advance(1.0)

    assert served["owner"] + served["guest"] == 40
    assert abs(served["owner"] - served["guest"]) <= 2


async def test_a_process_that_does_not_come_costs_a_moment_and_no_turn(tmp_path: Path) -> None:
    clock = ManualClock()
    async with SqliteFrontier.open(tmp_path / "store.db", clock=clock) as frontier:
        for crawl in ("owner", "guest"):
            await frontier.crawls.open(crawl, pace=PACED)
            await frontier.add(crawl, [link(str(number)) for number in range(100)])
        frontier.crawls.mark_guest("guest")
        assert await lease(frontier, "owner") == 1
        assert await lease(frontier, "guest") == 0  # it will ask again in a second, and never does
        clock.advance(1.0)
        assert await lease(frontier, "owner") == 0
        clock.advance(GRACE_S)
        assert await lease(frontier, "owner") == 1
        clock.advance(1.0)
        assert await lease(frontier, "owner") == 1


async def test_a_process_that_waits_for_nothing_known_and_stops_asking_is_not_waited_for(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    one_at_a_time = Pace(interval=0.0, burst=1, concurrency=1)
    async with SqliteFrontier.open(tmp_path / "store.db", clock=clock) as frontier:
        for crawl in ("owner", "guest"):
            await frontier.crawls.open(crawl, pace=one_at_a_time)
            await frontier.add(crawl, [link(str(number)) for number in range(100)])
        frontier.crawls.mark_guest("guest")
        held = await frontier.lease(holder="guest", limit=2, ttl=600.0, crawls=("guest",))
        waiting = await frontier.lease(holder="owner", limit=2, ttl=600.0, crawls=("owner",))
        assert waiting.leases == []
        await frontier.settle([Settlement(held.leases[0], Done(page()))])
        assert await lease(frontier, "guest") == 0  # the other one has waited longer
        clock.advance(2.0)  # and does not come
        assert await lease(frontier, "guest") == 1


async def test_a_process_that_has_enough_is_not_waited_for(tmp_path: Path) -> None:
    clock = ManualClock()
    async with SqliteFrontier.open(tmp_path / "store.db", clock=clock) as frontier:
        for crawl in ("owner", "guest"):
            await frontier.crawls.open(crawl, pace=PACED)
            await frontier.add(crawl, [link(str(number)) for number in range(100)])
        assert await lease(frontier, "guest", limit=1) == 1  # all that it wanted
        clock.advance(1.0)
        assert await lease(frontier, "owner") == 1
        clock.advance(1.0)
        assert await lease(frontier, "owner") == 1


async def test_a_crawl_that_is_closed_is_loaded_again_as_after_a_kill(tmp_path: Path) -> None:
    async with SqliteFrontier.open(tmp_path / "store.db", clock=ManualClock()) as frontier:
        await frontier.crawls.open("c", pace=Pace(interval=0.0, concurrency=100))
        await frontier.add("c", [link(str(number)) for number in range(6)])
        grant = await frontier.lease(holder="h", limit=4, ttl=60.0, crawls=("c",))
        await frontier.settle(
            [Settlement(grant.leases[0], Done(page())), Settlement(grant.leases[1], Fetched(page()))]
        )
        await frontier.crawls.close("c")

        assert await states(frontier) == {"waiting": 4, "parsing": 1, "done": 1}
        assert (await frontier.reader.audit("c")).problems == []
        late = await frontier.settle([Settlement(grant.leases[2], Done(page()))])
        assert late.stale == [grant.leases[2]]

        await frontier.crawls.open("c")
        again = await frontier.lease(holder="h", limit=10, ttl=60.0, crawls=("c",))
        assert sorted(lease.crashes for lease in again.leases) == [0, 0, 1]  # one suspect at a time
        [unparsed] = [one async for one in frontier.parsing("c")]
        assert unparsed.strikes == 1
        assert (await frontier.reader.audit("c")).problems == []


async def test_the_pace_of_a_closed_crawl_applies_no_longer(tmp_path: Path) -> None:
    async with SqliteFrontier.open(tmp_path / "store.db", clock=ManualClock()) as frontier:
        await frontier.crawls.open("slow", pace=Pace(interval=9.0))
        await frontier.crawls.open("fast", pace=Pace(interval=1.0))
        for crawl in ("slow", "fast"):
            await frontier.add(crawl, [link("1")])
        before = await frontier.hosts.get("a.test")
        await frontier.crawls.close("slow")
        after = await frontier.hosts.get("a.test")

    assert before is not None
    assert after is not None
    assert (before.interval, after.interval) == (9.0, 1.0)


async def test_a_closed_crawl_can_be_deleted_and_one_that_is_not_open_closed(tmp_path: Path) -> None:
    async with SqliteFrontier.open(tmp_path / "store.db") as frontier:
        await frontier.crawls.open("c")
        await frontier.crawls.close("c")
        await frontier.crawls.close("c")
        assert await frontier.crawls.delete("c")
        assert await frontier.reader.crawls() == []


@pytest.mark.parametrize("crawl", ["owner", "guest"])
async def test_the_hosts_of_a_crawl_are_listed_without_those_of_others(tmp_path: Path, crawl: str) -> None:
    async with SqliteFrontier.open(tmp_path / "store.db") as frontier:
        for name in ("owner", "guest"):
            await frontier.crawls.open(name)
            await frontier.add(name, [link("1", host=f"{name}.test")])
        frontier.crawls.mark_guest("guest")
        found = await (frontier.hosts.all() if crawl == "owner" else frontier.hosts.of_crawls(["guest"]))

    assert [view.host for view in found] == [f"{crawl}.test"]
