"""Leases that expire, and owners that die."""

import msgspec

from shoal.frontier.contract import Frontier
from shoal.model.failure import FailureClass
from shoal.model.outcome import (
    Dead,
    Done,
    Released,
    Retry,
    Settlement,
)
from shoal.testing.contracts.frontier.bench import (
    BROKEN,
    START,
    TIMEOUT,
    UNLIMITED,
    FrontierBench,
    link,
    page,
    paths,
    settle,
    states,
    take,
)


class RecoveryContract:
    async def test_an_expired_lease_is_granted_again(self, bench: FrontierBench, frontier: Frontier) -> None:
        await frontier.add("c", [link("1")])
        [lost] = await take(frontier, ttl=10.0)
        bench.clock.advance(10.0)
        [again] = await take(frontier)

        assert again.request == lost.request
        assert (again.attempt, again.crashes) == (2, 1)
        assert again.token > lost.token
        late = await frontier.settle([Settlement(lost, Done(page()), [link("2")])])
        assert late.stale == [lost]
        assert await states(frontier) == {"leased": 1}
        assert (await frontier.reader.counts("c")).crashes == 1

    async def test_leases_that_were_lost_with_their_holder_leave_a_request_its_retries(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1")])
        for _ in range(2):
            await take(frontier, ttl=10.0)
            bench.clock.advance(10.0)
        for charged in range(1, 4):
            [lease] = await take(frontier)
            assert (lease.charged, lease.crashes, lease.tries) == (charged, 2, charged + 2)
            await settle(frontier, lease, Retry(TIMEOUT, delay=1.0))
            bench.clock.advance(1.0)

    async def test_a_dead_letter_counts_every_attempt(self, bench: FrontierBench, frontier: Frontier) -> None:
        await frontier.add("c", [link("1")])
        await take(frontier, ttl=10.0)
        bench.clock.advance(10.0)
        for outcome in (Retry(BROKEN, delay=1.0, charged=False), Retry(TIMEOUT, delay=1.0), Dead(TIMEOUT)):
            [lease] = await take(frontier)
            await settle(frontier, lease, outcome)
            bench.clock.advance(1.0)
        [letter] = [letter async for letter in frontier.reader.dead_letters("c")]
        assert (letter.attempts, letter.crashes) == (4, 1)
        [listed] = [one async for one in frontier.reader.requests("c", ["dead"])]
        assert listed.attempts == 4

    async def test_a_late_settlement_is_accepted_until_the_lease_is_reclaimed(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1"), link("2")])
        first, second = await take(frontier, ttl=10.0)
        bench.clock.advance(11.0)

        assert frontier.holds(first)
        await settle(frontier, first, Done(page()))
        assert await frontier.reclaim() == 1
        assert not frontier.holds(second)

    async def test_a_reclaimed_request_waits_one_priority_class_lower(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1", priority=5)])
        await take(frontier, ttl=10.0)
        bench.clock.advance(10.0)
        assert await frontier.reclaim() == 1
        await frontier.add("c", [link("2", priority=5), link("3", priority=7)])

        assert paths(await take(frontier)) == ["a.test/2", "a.test/1", "a.test/3"]

    async def test_an_extended_lease_expires_later(self, bench: FrontierBench, frontier: Frontier) -> None:
        await frontier.add("c", [link("1"), link("2")])
        first, second = await take(frontier, ttl=10.0)
        bench.clock.advance(8.0)
        [renewed] = await frontier.extend([first], 10.0)
        assert renewed.leased_until == START + 18.0
        bench.clock.advance(2.0)

        assert await frontier.reclaim() == 1
        assert [frontier.holds(first), frontier.holds(second)] == [True, False]
        assert await frontier.extend([second, renewed], 10.0) == [
            msgspec.structs.replace(renewed, leased_until=START + 20.0)
        ]
        bench.clock.advance(9.0)
        assert await frontier.reclaim() == 0
        bench.clock.advance(1.0)
        assert await frontier.reclaim() == 1
        assert not frontier.holds(renewed)

    async def test_either_copy_of_an_extended_lease_can_be_settled(self, frontier: Frontier) -> None:
        await frontier.add("c", [link("1"), link("2")])
        first, second = await take(frontier)
        [renewed, _] = await frontier.extend([first, second], 90.0)

        await settle(frontier, renewed, Done(page()))
        await settle(frontier, second, Done(page()))

    async def test_extending_never_moves_a_deadline_earlier(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1")])
        [lease] = await take(frontier, ttl=100.0)
        [same] = await frontier.extend([lease], 1.0)

        assert same.leased_until == START + 100.0

    async def test_a_request_whose_leases_keep_expiring_is_poison(self, bench: FrontierBench) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=UNLIMITED, max_crashes=3)
        await frontier.add("c", [link("1")])
        for _ in range(3):
            await take(frontier, ttl=10.0, holder="worker-7")
            bench.clock.advance(10.0)
        assert await take(frontier) == []

        assert await states(frontier) == {"dead": 1}
        assert (await frontier.reader.counts("c")).dead_by_class == {"poison": 1}
        [letter] = [letter async for letter in frontier.reader.dead_letters("c")]
        assert (letter.kind, letter.attempts, letter.crashes) == (FailureClass.POISON, 3, 3)
        assert (letter.first_at, letter.died_at, letter.holder) == (START, START + 30.0, "worker-7")

    async def test_a_holder_has_one_suspect_at_a_time(self, bench: FrontierBench, frontier: Frontier) -> None:
        await frontier.add("c", [link(str(number)) for number in range(4)])
        await take(frontier, ttl=10.0)
        bench.clock.advance(10.0)
        await frontier.add("c", [link("fresh", priority=9)])

        mine = await take(frontier)
        assert paths(mine) == ["a.test/0", "a.test/fresh"]
        assert await take(frontier) == []
        [other] = await take(frontier, holder="another")
        assert paths([other]) == ["a.test/1"]
        await settle(frontier, mine[0], Done(page()))
        assert paths(await take(frontier)) == ["a.test/2"]

    async def test_a_poisonous_request_does_not_make_other_requests_dead(self, bench: FrontierBench) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=UNLIMITED, max_crashes=3)
        await frontier.add("c", [link(f"{number}{'-poison' if number == 7 else ''}") for number in range(20)])

        for _ in range(200):
            leases = await take(frontier, 8, ttl=10.0)
            if any(lease.request.url.endswith("poison") for lease in leases):
                bench.clock.advance(10.0)  # the holder dies, and all its leases expire
            elif leases:
                await frontier.settle([Settlement(lease, Done(page())) for lease in leases])
            elif (await frontier.reader.counts("c")).open == 0:
                break

        assert await states(frontier) == {"done": 19, "dead": 1}
        [letter] = [letter async for letter in frontier.reader.dead_letters("c")]
        assert letter.request.url.endswith("7-poison")

    async def test_leased_requests_of_a_dead_owner_wait_again_charged_with_a_crash(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link(str(number)) for number in range(4)])
        leases = await take(frontier, 3)
        await settle(frontier, leases[0], Done(page()))
        await settle(frontier, leases[1], Released(), sent=False)
        await bench.kill()
        frontier = bench.frontier
        assert (await frontier.crawls.open("c")).resumed

        assert await states(frontier) == {"waiting": 3, "done": 1}
        assert (await frontier.reader.counts("c")).crashes == 1  # the released request was not held
        again = await take(frontier)
        assert paths(again) == ["a.test/1", "a.test/3", "a.test/2"]
        assert [lease.crashes for lease in again] == [0, 0, 1]

    async def test_leases_of_a_dead_owner_are_rejected(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1")])
        [old] = await take(frontier)
        await bench.kill()
        frontier = bench.frontier
        await frontier.crawls.open("c")
        assert not frontier.holds(old)
        [new] = await take(frontier)

        assert new.token > old.token
        assert (await frontier.settle([Settlement(old, Done(page()))])).stale == [old]
        assert await frontier.extend([old], 60.0) == []
        frontier.mark_landed([old])
        await settle(frontier, new, Done(page()))

    async def test_a_crash_is_charged_once(self, bench: FrontierBench, frontier: Frontier) -> None:
        await frontier.add("c", [link("1")])
        await take(frontier)
        for _ in range(4):
            await bench.kill()
        await bench.frontier.crawls.open("c")

        [again] = await take(bench.frontier)
        assert (again.attempt, again.crashes) == (2, 1)

    async def test_a_request_whose_owners_keep_dying_is_poison(self, bench: FrontierBench) -> None:
        await bench.frontier.crawls.open("c", pace=UNLIMITED, max_crashes=2)
        await bench.frontier.add("c", [link("1")])
        for _ in range(2):
            await take(bench.frontier, holder="w")
            await bench.kill()
            await bench.frontier.crawls.open("c")

        assert await states(bench.frontier) == {"dead": 1}
        [letter] = [letter async for letter in bench.frontier.reader.dead_letters("c")]
        assert (letter.kind, letter.attempts, letter.crashes, letter.holder) == (
            FailureClass.POISON,
            2,
            2,
            "w",
        )

    async def test_new_hosts_are_accepted_after_a_restart(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1"), link("1", host="b.test")])
        await bench.kill()
        await bench.frontier.crawls.open("c", pace=UNLIMITED)
        await bench.frontier.add("c", [link("1", host="c.test"), link("1", host="d.test", pool="browser")])

        leases = await take(bench.frontier, pools=("http", "browser"))
        assert sorted(lease.host for lease in leases) == ["a.test", "b.test", "c.test", "d.test"]

    async def test_the_seen_set_survives_a_restart(self, bench: FrontierBench, frontier: Frontier) -> None:
        links = [link(str(number)) for number in range(2000)]
        await frontier.add("c", links)
        await bench.kill()
        await bench.frontier.crawls.open("c")

        added = await bench.frontier.add("c", [*links, link("new")])
        assert (added.new, added.duplicate) == (1, 2000)
        counts = await bench.frontier.reader.counts("c")
        assert (counts.accepted, counts.duplicate) == (2001, 2000)


class EmbeddedRecoveryContract:
    """Holds where one process settles: it keeps what it is committing."""

    async def test_a_lease_that_is_kept_until_it_is_settled_outlives_its_deadline(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1"), link("2")])
        kept, lost = await take(frontier, ttl=10.0)
        frontier.keep_until_settled([kept])
        bench.clock.advance(100.0)
        await frontier.reclaim()

        assert [lease.request for lease in await take(frontier, ttl=10.0)] == [lost.request]
        assert await frontier.held([kept, lost]) == [kept]
        await settle(frontier, kept, Done(page()))
