"""Guarantees of the frontier on Redis only: lost replies, concurrent workers, replaced and full servers."""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest
from tests.contract.redis_frontiers import SCRIPTS, RedisBench, redis_bench

from shoal.frontier.redis import RedisFrontier, keys, packing
from shoal.frontier.redis.keys import PARSE_GROUP
from shoal.frontier.redis.records import unpack_fp
from shoal.model.errors import Misconfigured
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Acknowledgement, Dead, Done, Fetched, Gone, Grant, Outcome, Retry, Settlement
from shoal.model.pace import Pace, TurnAnswer, TurnKind, TurnRequest
from shoal.model.page import Item
from shoal.redis_client import EPOCH, Full, Script, ScriptArgument
from shoal.testing.contracts.frontier import (
    BROKEN,
    START,
    TIMEOUT,
    UNLIMITED,
    ManualClock,
    link,
    page,
    paths,
    settle,
    states,
    take,
)

unpack_items = msgspec.msgpack.Decoder(list[Item]).decode


@pytest.fixture
async def bench() -> AsyncIterator[RedisBench]:
    """A shard with one open crawl, `c`, whose pace is unlimited."""
    async with redis_bench("valkey", ManualClock()) as opened:
        await opened.frontier.crawls.open("c", pace=UNLIMITED)
        yield opened
        for crawl in await opened.frontier.reader.crawls():
            assert (await opened.frontier.reader.audit(crawl)).problems == []


async def items_of(bench: RedisBench, crawl: str = "c") -> list[str]:
    """Return the keys of all items in the streams, page by page."""
    number = await bench.frontier.reader.number(crawl)
    found = []
    for tag in bench.store.tags():
        for _, fields in await bench.store.do(tag, "XRANGE", keys.items(tag, number), "-", "+"):
            found += [item.key for item in unpack_items(fields[3])]
    return found


async def announced(bench: RedisBench) -> list[tuple[str, int]]:
    entries = await bench.store.do(bench.store.tag(0), "XRANGE", keys.pages(bench.store.tag(0)), "-", "+")
    return [(fields[1].decode(), unpack_fp(fields[3])) for _, fields in entries]


# --- lost replies --------------------------------------------------------------------------------


async def test_a_repeated_lease_call_returns_the_same_batch(bench: RedisBench) -> None:
    await bench.frontier.add("c", [link(str(number)) for number in range(9)])
    crawl = packing.pack_crawls([await bench.frontier.reader.number("c")])
    arguments: list[ScriptArgument] = [
        "w",
        "call-1",
        4,
        60.0,
        EPOCH,
        1,
        crawl,
        packing.pack_names(["http"]),
        b"",
        0.0,
        "taker",
        0.0,
    ]

    async def ask() -> tuple[bytes, set[bytes]]:
        token, _, _, _, granted, *_ = await bench.store.run(SCRIPTS.lease, bench.store.tag(0), arguments)
        return token, set(granted)

    first = await ask()
    assert await ask() == first
    assert len(first[1]) == 4
    assert await states(bench.frontier) == {"waiting": 5, "leased": 4}
    arguments[1] = "call-2"
    assert (await ask())[1].isdisjoint(first[1])


async def test_a_repeated_settlement_is_applied_once(bench: RedisBench) -> None:
    await bench.frontier.add("c", [link("1"), link("2")])
    fetched, done = await take(bench.frontier)
    number = await bench.frontier.reader.number("c")
    settlements = [
        Settlement(fetched, Fetched(page(1))),
        Settlement(done, Done(page(2)), items=[Item("a", b"{}"), Item("b", b"{}")]),
    ]
    arguments = packing.pack_settlements([(number, one) for one in settlements])

    assert await bench.store.run(SCRIPTS.settle, bench.store.tag(0), arguments) == b"11"
    assert await bench.store.run(SCRIPTS.settle, bench.store.tag(0), arguments) == b"00"
    assert await states(bench.frontier) == {"parsing": 1, "done": 1}
    assert await items_of(bench) == ["a", "b"]
    assert await announced(bench) == [("c", fetched.fingerprint)]


async def wait_for_turn(
    frontier: RedisFrontier, host: str = "a.test", *, interval: float, margin: float = 0.0
) -> float:
    """Take a turn and return 0.0, or return the seconds until it comes."""
    answer = await frontier.turn(TurnRequest(host, interval, margin, leeway=margin))
    assert (answer.kind is TurnKind.GRANTED) == (answer.wait == 0.0)
    return answer.wait


# --- concurrent workers --------------------------------------------------------------------------


async def test_workers_never_hold_the_same_request(bench: RedisBench) -> None:
    other = await bench.another()
    await other.crawls.open("c")
    await bench.frontier.add("c", [link(str(number)) for number in range(10)])
    mine = await take(bench.frontier, 6, holder="one")
    theirs = await take(other, 6, holder="other")

    assert len(mine) == 6
    assert len(theirs) == 4
    assert {lease.fingerprint for lease in mine}.isdisjoint(lease.fingerprint for lease in theirs)


async def test_requests_of_several_workers_are_an_interval_and_the_leeway_apart(bench: RedisBench) -> None:
    other = await bench.another()
    for frontier in (bench.frontier, other):
        await frontier.crawls.open("p", pace=Pace(1.0, 1, 4))
    await bench.frontier.add("p", [link(str(number)) for number in range(3)])

    async def turn() -> float:
        return await wait_for_turn(other, interval=1.0, margin=0.05)

    assert len(await take(bench.frontier, 3)) == 1
    bench.clock.advance(0.4)
    assert await turn() == 0.0  # the turn of the lease, although it is late
    assert await turn() == pytest.approx(1.05)  # such as for the page, after robots.txt
    bench.clock.advance(1.0)
    assert await take(other, 3) == []  # counted from the request that was sent, not from the lease before it
    bench.clock.advance(0.05)
    assert len(await take(other, 3)) == 1
    assert await turn() == 0.0


async def test_a_worker_far_away_keeps_the_pace_and_another_one_waits_for_its_leeway(
    bench: RedisBench,
) -> None:
    other = await bench.another()
    for frontier in (bench.frontier, other):
        await frontier.crawls.open("p", pace=Pace(1.0, 1, 4))

    async def turn(frontier: RedisFrontier, receipt: str = "") -> TurnAnswer:
        asked = TurnRequest("a.test", 1.0, 0.05, leeway=0.45, ahead=1.2, crawl="p", receipt=receipt)
        return await frontier.turn(asked)

    first, second = await turn(bench.frontier), await turn(bench.frontier)
    assert (first.kind, first.wait) == (TurnKind.GRANTED, 0.0)
    assert second.kind is TurnKind.GRANTED
    assert second.wait == pytest.approx(1.05)  # granted ahead: an interval and the margin after the first
    refused = await turn(other)
    assert refused.kind is TurnKind.WAIT
    assert refused.wait == pytest.approx(2 * 1.05 + 0.4)  # and the rest of the leeway
    returned = await turn(bench.frontier, second.receipt)  # the second one was not used
    assert returned.wait == pytest.approx(1.05)
    bench.clock.advance(2.0)
    assert (await turn(other)).wait == pytest.approx(0.5)
    own = await turn(bench.frontier)
    assert own.kind is TurnKind.WAIT  # the head start is the other one's now
    assert own.wait == pytest.approx(0.5 + 1.05 + 0.4)


async def test_no_turn_is_granted_ahead_of_the_end_of_a_rest(bench: RedisBench) -> None:
    await bench.frontier.crawls.open("p", pace=Pace(0.5, 1, 4))
    await bench.frontier.add("p", [link("1"), link("2")])
    [lease] = await take(bench.frontier, 1)
    asked = TurnRequest(lease.host, 0.5, 0.05, leeway=0.05, ahead=19.5, crawl="p")
    limited = Failure(FailureClass.RATE_LIMITED, "429", 429, 4.0)
    await settle(bench.frontier, lease, Retry(limited, delay=4.0, charged=False, rest=4.0))
    answer = await bench.frontier.turn(asked)
    assert answer.kind is TurnKind.WAIT
    assert answer.wait == pytest.approx(4.0)
    bench.clock.advance(4.0)
    assert (await bench.frontier.turn(asked)).kind is TurnKind.GRANTED


async def test_only_the_receipt_of_the_latest_turn_gives_it_back(bench: RedisBench) -> None:
    await bench.frontier.crawls.open("p", pace=Pace(1.0, 1, 4))

    async def turn(receipt: str = "") -> TurnAnswer:
        return await bench.frontier.turn(
            TurnRequest("a.test", 1.0, 0.0, leeway=0.0, ahead=9.0, crawl="p", receipt=receipt)
        )

    first, second = await turn(), await turn()
    assert (first.wait, second.wait) == pytest.approx((0.0, 1.0))
    third = await turn(first.receipt)  # of a turn that another one came after
    assert third.wait == pytest.approx(2.0)
    assert (await turn(third.receipt)).wait == pytest.approx(2.0)


async def test_after_a_late_burst_another_worker_waits_for_the_whole_of_it(bench: RedisBench) -> None:
    """The first of a burst may leave `leeway` seconds after its turn, and so may those after it."""
    other = await bench.another()
    for frontier in (bench.frontier, other):
        await frontier.crawls.open("p", pace=Pace(1.0, 2, 4))

    async def turn(frontier: RedisFrontier, leeway: float) -> TurnAnswer:
        return await frontier.turn(TurnRequest("a.test", 1.0, 0.0, leeway=leeway, crawl="p"))

    await bench.frontier.add("p", [link("1")])
    assert (await turn(bench.frontier, 0.5)).wait == 0.0
    assert (await turn(bench.frontier, 0.0)).wait == 0.0
    refused = await turn(other, 0.0)
    assert refused.wait == pytest.approx(1.5)


async def test_a_pause_holds_once_the_requests_that_had_taken_their_turn_have_left(
    bench: RedisBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    await bench.frontier.crawls.open("p", pace=Pace(1.0, 1, 4))
    await bench.frontier.turn(TurnRequest("a.test", 1.0, 0.0, leeway=0.0, crawl="p"))
    ahead = TurnRequest("a.test", 1.0, 0.0, leeway=300.0, ahead=100.0, crawl="p")
    assert (await bench.frontier.turn(ahead)).wait == pytest.approx(1.0)
    await bench.frontier.crawls.pause("p")
    with monkeypatch.context() as patch:
        patch.setattr("shoal.frontier.redis.hosts.asyncio.sleep", sleep)
        await bench.frontier.pauses.wait_until_held("a.test")

    assert 200.0 < waits[0] <= 301.0


async def test_a_paused_host_or_crawl_gets_no_turn(bench: RedisBench) -> None:
    await bench.frontier.crawls.open("p", pace=Pace(0.1, 1, 4))

    async def turn(crawl: str) -> TurnKind:
        bench.clock.advance(1.0)
        return (await bench.frontier.turn(TurnRequest("a.test", 0.1, 0.0, 0.0, crawl=crawl))).kind

    assert await turn("p") is TurnKind.GRANTED
    await bench.frontier.crawls.pause("p")
    assert await turn("p") is TurnKind.PAUSED
    assert await turn("c") is TurnKind.GRANTED  # another crawl
    await bench.frontier.crawls.resume("p")
    await bench.frontier.hosts.set("a.test", paused=True)
    assert await turn("p") is TurnKind.PAUSED
    await bench.frontier.hosts.set("a.test", paused=False)
    assert await turn("p") is TurnKind.GRANTED


@pytest.mark.parametrize("leeway", [0.1, 0.6])
async def test_a_change_of_pace_leaves_the_leeway_of_the_latest_request(
    bench: RedisBench, leeway: float
) -> None:
    """The latest request leaves up to its leeway after its slot, whatever the pace is by then."""
    other = await bench.another()
    for frontier in (bench.frontier, other):
        await frontier.crawls.open("p", pace=Pace(2.0, 1, 4))
    asked = TurnRequest("a.test", 2.0, 0.1, leeway=leeway, ahead=9.0, crawl="p")

    for interval in (3.0, 2.0, 1.0, 2.0):
        latest = await bench.frontier.turn(asked)
        assert latest.kind is TurnKind.GRANTED
        await bench.frontier.hosts.set("a.test", interval=interval)
        following = await other.turn(asked)
        assert following.wait - (latest.wait + leeway) >= interval - 1e-6
        bench.clock.advance(60.0)


async def test_concurrent_turns_share_calls_and_each_gets_a_separate_turn(bench: RedisBench) -> None:
    await bench.frontier.crawls.open("p", pace=Pace(1.0, 1, 4))
    calls, run = list[int](), bench.store.run

    async def counted(script: Script, tag: str, args: Sequence[ScriptArgument], **named: bool) -> Any:
        calls.append(len(args))
        return await run(script, tag, args, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.store, "run", counted)
        hosts = [f"{number % 10}.test" for number in range(20)]
        waits = await asyncio.gather(
            *(wait_for_turn(bench.frontier, host, interval=1.0, margin=0.05) for host in hosts)
        )

    assert len(calls) == 2  # the first one is alone: the others came after it was sent
    assert sorted(waits) == [0.0] * 10 + [pytest.approx(1.05)] * 10  # two of one host are never at once


async def test_a_cancelled_turn_is_not_taken(bench: RedisBench) -> None:
    await bench.frontier.crawls.open("p", pace=Pace(1.0, 1, 4))

    async def turn(host: str) -> float:
        return await wait_for_turn(bench.frontier, host, interval=1.0, margin=0.05)

    asking, given_up = asyncio.create_task(turn("a.test")), asyncio.create_task(turn("b.test"))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await asking == 0.0
    assert await turn("b.test") == 0.0


async def test_a_rejected_turn_returns_nothing(bench: RedisBench) -> None:
    await bench.frontier.crawls.open("p", pace=Pace(2.0, 1, 4))
    await bench.frontier.add("p", [link("1"), link("2")])
    await bench.frontier.hosts.set("a.test", rest_until=START + 3.0)
    bench.clock.advance(3.0)
    assert len(await take(bench.frontier)) == 1
    await bench.frontier.hosts.set("a.test", rest_until=START + 4.0)
    for _ in range(3):
        assert await wait_for_turn(bench.frontier, interval=2.0) == pytest.approx(1.0)
    bench.clock.advance(1.0)
    assert await wait_for_turn(bench.frontier, interval=2.0) == 0.0
    assert await wait_for_turn(bench.frontier, interval=2.0) == pytest.approx(2.0)


async def test_no_turn_is_granted_for_an_interval_after_a_server_was_replaced(bench: RedisBench) -> None:
    await bench.frontier.crawls.open("p", pace=Pace(1.0, 1, 4))
    await bench.frontier.add("p", [link("1")])
    await take(bench.frontier)
    tag = bench.store.tag_of("a.test")
    await bench.store.do(tag, "HSET", f"{tag}:m", "epoch", "of another process")

    assert await wait_for_turn(bench.frontier, interval=1.0, margin=0.05) == pytest.approx(1.0)


async def test_all_batches_of_a_dead_worker_are_reclaimed_at_once(bench: RedisBench) -> None:
    await bench.frontier.add("c", [link(str(number)) for number in range(9)])
    for holder in ("dead", "dead", "alive"):
        assert len(await take(bench.frontier, 3, holder=holder)) == 3
    number, others = await bench.store.run(SCRIPTS.reclaim_lost, bench.store.tag(0), ["dead"])

    assert (number, others) == (6, [b"alive"])
    assert await states(bench.frontier) == {"waiting": 6, "leased": 3}


async def test_a_settlement_of_an_expired_lease_is_rejected_with_its_items(bench: RedisBench) -> None:
    other = await bench.another()
    await other.crawls.open("c")
    await bench.frontier.add("c", [link("1")])
    [slow] = await take(bench.frontier, holder="slow", ttl=10.0)
    bench.clock.advance(10.0)
    [again] = await take(other, holder="quick")

    late = await bench.frontier.settle([Settlement(slow, Done(page(1)), items=[Item("late", b"{}")])])
    assert late.stale == [slow]
    await other.settle([Settlement(again, Done(page(1)), items=[Item("once", b"{}")])])
    assert await items_of(bench) == ["once"]
    assert await states(bench.frontier) == {"done": 1}


async def test_workers_share_the_pace_of_a_host(bench: RedisBench) -> None:
    other = await bench.another()
    await other.crawls.open("c", pace=Pace(interval=2.0, burst=1, concurrency=9))
    await bench.frontier.add("c", [link(str(number)) for number in range(9)])

    for _ in range(3):
        grants = [await take(frontier, holder=str(id(frontier))) for frontier in (bench.frontier, other)]
        assert sum(map(len, grants)) == 1
        bench.clock.advance(2.0)


async def test_only_the_consumer_that_has_a_page_can_acknowledge_it(bench: RedisBench) -> None:
    await bench.frontier.add("c", [link("1")])
    [lease] = await take(bench.frontier)
    await settle(bench.frontier, lease, Fetched(page(1)))
    tag = bench.store.tag(0)
    stream = keys.pages(tag)
    await bench.store.do(tag, "XGROUP", "CREATE", stream, PARSE_GROUP, "0")
    await bench.store.do(tag, "XREADGROUP", "GROUP", PARSE_GROUP, "first", "STREAMS", stream, ">")
    await bench.store.do(tag, "XAUTOCLAIM", stream, PARSE_GROUP, "second", 0, "0")

    def ended_by(consumer: str) -> Acknowledgement:
        items = [Item(consumer, b"{}")]
        fp, host = lease.fingerprint, lease.host
        return Acknowledgement("c", fp, Done(page(1)), items=items, host=host, consumer=consumer)

    first, second = ended_by("first"), ended_by("second")
    assert (await bench.frontier.acknowledge([first])).refused == [first]
    assert (await bench.frontier.acknowledge([second])).refused == []
    assert await items_of(bench) == ["second"]
    assert await announced(bench) == []
    assert (await bench.store.do(tag, "XPENDING", stream, PARSE_GROUP))[0] == 0


async def test_a_deleted_crawl_leaves_no_keys(bench: RedisBench) -> None:
    async def names_of_keys() -> set[bytes]:
        found = await bench.store.do(bench.store.tag(0), "KEYS", f"{bench.store.tag(0)}:*")
        return {key.rpartition(b"}:")[2] for key in found}

    before = await names_of_keys()
    worker = await bench.another()
    await worker.crawls.open("d", pace=UNLIMITED, host_budget=1000, hosts={"a.test": Pace()})
    await worker.add("d", [link(str(number), host=f"{number % 7}.test") for number in range(700)])
    leases = await take(worker, 50, crawls=["d"])
    outcomes: list[Outcome] = [
        Done(page()),
        Fetched(page()),
        Dead(TIMEOUT),
        Dead(BROKEN, page()),
        Retry(TIMEOUT, delay=9.0),
    ]
    for number, lease in enumerate(leases[:40]):
        outcome = outcomes[number % len(outcomes)]
        await worker.settle([Settlement(lease, outcome, items=[Item(str(number), b"{}")])])

    assert await bench.frontier.crawls.delete("d", entirely=True)
    late = await worker.settle([Settlement(leases[40], Done(page()))])
    assert late.stale == [leases[40]]
    bench.clock.advance(100.0)
    await bench.frontier.reclaim()
    left = {b"clock", b"pages", b"crawls", b"ca:w"}  # a stream keeps its last id
    of_hosts = {b"h", b"hw"}  # their pace and their latest responses: they do not belong to a crawl
    assert await names_of_keys() - before <= left | of_hosts
    bench.clock.advance(100_000.0)
    assert await take(bench.frontier) == []  # which deletes hosts that were idle for long
    assert await names_of_keys() - before <= left
    with pytest.raises(Misconfigured, match="deleted"):
        await worker.add("d", [link("new")])


async def test_a_crawl_that_must_exist_is_not_created(bench: RedisBench) -> None:
    with pytest.raises(Misconfigured, match="no crawl named 'd'"):
        await bench.frontier.crawls.open("d", may_be_new=False)
    assert "d" not in await bench.frontier.reader.crawls()
    worker = await bench.another()
    await worker.crawls.open("d")
    assert (await bench.frontier.crawls.open("d", may_be_new=False)).resumed


# --- servers replaced and servers full -----------------------------------------------------------


async def test_after_a_change_of_the_server_every_host_rests_one_interval(bench: RedisBench) -> None:
    await bench.frontier.crawls.open("c", pace=Pace(interval=2.0, burst=3, concurrency=9))
    await bench.frontier.add("c", [link(str(number), host=f"{number % 2}.test") for number in range(20)])
    assert len(await take(bench.frontier, 2)) == 2
    tag = bench.store.tag(0)
    await bench.store.do(tag, "HSET", f"{tag}:m", "epoch", "of a server that is gone")

    assert await bench.frontier.lease(holder="w", limit=9, ttl=60.0) == Grant([], 2.0)
    bench.clock.advance(2.0)
    assert len(await take(bench.frontier)) == 2


async def test_a_store_that_was_rolled_back_stays_consistent(bench: RedisBench) -> None:
    """A replica that takes over may lack all writes after some instant."""
    await bench.frontier.add("c", [link(str(number), host=f"{number % 3}.test") for number in range(30)])
    early = await take(bench.frontier, 10)
    tag = bench.store.tag(0)
    names = await bench.store.do(tag, "KEYS", f"{tag}:*")
    snapshot = {name: await bench.store.do(tag, "DUMP", name) for name in names}
    await bench.frontier.settle([Settlement(lease, Done(page())) for lease in early[:5]])
    late = await take(bench.frontier, 10)
    await bench.frontier.add("c", [link("new")])

    for name in await bench.store.do(tag, "KEYS", f"{tag}:*"):
        await bench.store.do(tag, "DEL", name)
    for name, value in snapshot.items():
        await bench.store.do(tag, "RESTORE", name, 0, value)
    await bench.store.do(tag, "HSET", f"{tag}:m", "epoch", "of a server that is gone")

    assert (await bench.frontier.reader.audit("c")).problems == []
    # Leases that the store does not have are rejected: their requests will be leased again.
    refused = await bench.frontier.settle([Settlement(lease, Gone(404)) for lease in late])
    assert refused.stale == late
    assert (await bench.frontier.add("c", [link("new")])).new == 1
    bench.clock.advance(100.0)
    again = await take(bench.frontier, 100, ttl=1000.0)
    assert min(lease.token for lease in again) > max(lease.token for lease in late)
    while again:
        await bench.frontier.settle([Settlement(lease, Done(page())) for lease in again])
        again = await take(bench.frontier, 100, ttl=1000.0)
    assert await states(bench.frontier) == {"done": 31}


async def test_a_full_store_rejects_new_links_and_lets_pages_in_progress_finish(bench: RedisBench) -> None:
    await bench.frontier.add("c", [link(str(number)) for number in range(20)])
    tag = bench.store.tag(0)
    used = dict(
        line.split(":", 1)
        for line in (await bench.store.do(tag, "INFO", "memory")).decode().splitlines()
        if ":" in line
    )["used_memory"]
    await bench.store.do(tag, "CONFIG", "SET", "maxmemory", int(used) // 2)
    try:
        with pytest.raises(Full):
            await bench.frontier.add("c", [link("refused")])
        [first, *others] = await take(bench.frontier)
        committed = await bench.frontier.settle([Settlement(first, Done(page()), [link("found")])])
        assert (committed.new, committed.stale) == (1, [])
        await bench.frontier.settle([Settlement(lease, Done(page())) for lease in others])
        [found] = await take(bench.frontier)
        await settle(bench.frontier, found, Done(page()))
    finally:
        await bench.store.do(tag, "CONFIG", "SET", "maxmemory", 0)
    assert await states(bench.frontier) == {"done": 21}


async def test_the_queues_of_all_crawls_are_told_in_one_look_with_what_holds_each_host_up(
    bench: RedisBench,
) -> None:
    await bench.frontier.crawls.open("d", pace=UNLIMITED)
    await bench.frontier.add("c", [link("1"), link("2"), link("3", host="b.test")])
    await bench.frontier.add("d", [link("1")])
    await bench.frontier.hosts.set("a.test", rest_until=START + 30.0)
    await bench.frontier.hosts.set("b.test", paused=True)

    queues = await bench.frontier.reader.queues(max_hosts=2)

    assert queues is not None
    found = sorted((queue.host, queue.queued, queue.paused, queue.rest_until) for queue in queues)
    assert found == [("a.test", 3, False, START + 30.0), ("b.test", 1, True, 0.0)]
    assert await bench.frontier.reader.queues(max_hosts=1) is None


async def test_a_shard_whose_clock_is_set_back_keeps_its_own_time(bench: RedisBench) -> None:
    await bench.frontier.add("c", [link("1"), link("2")])
    first, second = await take(bench.frontier, ttl=30.0)
    await settle(bench.frontier, first, Retry(TIMEOUT, delay=5.0))
    bench.clock.advance(-86_400.0)

    assert (await bench.frontier.lease(holder="w", limit=9, ttl=30.0)).wait == pytest.approx(5.0)
    bench.clock.advance(5.0)
    [again] = await take(bench.frontier, ttl=30.0)
    assert again.leased_until == pytest.approx(START - 86_400.0 + 35.0)  # by the server's clock
    bench.clock.advance(25.0)
    assert await bench.frontier.reclaim() == 1
    assert not bench.frontier.holds(second)


# --- shards --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["valkey", "cluster"])
async def test_a_crawl_over_many_shards_is_one_crawl(kind: str) -> None:
    async with redis_bench(kind, ManualClock(), shards=16) as bench:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=1.0, burst=1, concurrency=2), state={"k": b"v"})
        links = [link(str(number), host=f"{number % 50}.test") for number in range(500)]
        assert (await frontier.add("c", [*links, links[0]])).duplicate == 1
        assert await frontier.reader.value("c", "k") == b"v"

        done: list[str] = []
        for _ in range(10):
            leases = await take(frontier, 500)
            assert len({lease.host for lease in leases}) == len(leases) == 50  # one each, and every host
            done += paths(leases)
            committed = await frontier.commit(
                [
                    Settlement(one, Fetched(page()) if one.request.url.endswith("1") else Done(page()))
                    for one in leases
                ]
            )
            assert committed.stale == []
            grant = await frontier.lease(holder="w", limit=1, ttl=60.0)
            assert (grant.leases, grant.wait) in (([], 1.0), ([], math.inf))
            bench.clock.advance(1.0)

        assert len(set(done)) == 500
        waiting = [found async for found in frontier.parsing("c")]
        assert {one.page for one in waiting} == {page()}
        ended = [Acknowledgement("c", one.fingerprint, Done(page())) for one in waiting]
        assert (await frontier.acknowledge(ended)).refused == []
        assert await states(frontier) == {"done": 500}
        assert (await frontier.reader.audit("c")).problems == []
        assert len(await frontier.hosts.all()) == 50


# --- history -------------------------------------------------------------------------------------


async def test_the_history_finds_a_request_in_every_state(bench: RedisBench) -> None:
    sought = link("sought?*[x]")

    async def state_and_holder() -> tuple[str, str]:
        history = await bench.frontier.reader.history("c", sought.fingerprint)
        assert history is not None
        assert await bench.frontier.reader.history("c", sought.fingerprint, host=sought.host) == history
        return history.state, history.holder

    assert await bench.frontier.reader.history("c", sought.fingerprint) is None
    await bench.frontier.add("c", [link("1"), sought, link("2")])
    assert await state_and_holder() == ("waiting", "")
    [_, lease, _] = await take(bench.frontier, holder="me")
    assert await state_and_holder() == ("leased", "me")
    await settle(bench.frontier, lease, Retry(TIMEOUT, delay=3.0))
    history = await bench.frontier.reader.history("c", sought.fingerprint)
    assert history is not None
    assert (history.state, history.due) == ("delayed", START + 3.0)
    bench.clock.advance(3.0)
    [lease] = await take(bench.frontier, holder="me")
    await settle(bench.frontier, lease, Fetched(page(7)))
    assert await state_and_holder() == ("parsing", "me")
    await bench.frontier.acknowledge([Acknowledgement("c", lease.fingerprint, Dead(BROKEN))])
    dead = await bench.frontier.reader.history("c", sought.fingerprint)
    assert dead is not None
    assert (dead.state, dead.rule, dead.reason, dead.page) == ("dead", "parse_error", BROKEN.reason, page(7))
    assert dead.request == msgspec.structs.replace(lease.request)
    await bench.frontier.dead_letters.replay("c")
    await bench.frontier.acknowledge([Acknowledgement("c", lease.fingerprint, Done(page(7)))])
    assert (await state_and_holder())[0] == "done"
