"""Waiting for space in a full store: how long, with which messages, and when it is given up."""

import asyncio
from collections.abc import Callable

import pytest
from tests.unit.stores.fleets import FULL, FakeFleet, heartbeat, record

from shoal.engine.plan import Stop
from shoal.model.errors import Interrupted
from shoal.model.pace import Pace
from shoal.model.request import Link, Request
from shoal.redis_client import Full
from shoal.services.backpressure import REMIND_S, Backpressure, BackpressuredFrontier

LINK = Link.to(Request(url="http://a.test/"))


class Bench:
    """A full store and its workers; each look at the clock finds it `step` seconds later."""

    def __init__(self, *, workers: int = 1, step: float = 0.0) -> None:
        self.fleet = FakeFleet(*(heartbeat(f"w{number}") for number in range(workers)))
        self.stop = Stop()
        self.messages: list[str] = []
        self._step = step
        self._now = 0.0

    async def holds_work(self) -> None:
        await self.fleet.frontier.crawls.open("shop", pace=Pace(interval=0.0))
        await self.fleet.frontier.add("shop", [LINK])
        await self.fleet.crawls.submit(record("shop"))
        self.fleet.log.writes.clear()

    def backpressure(self, say: Callable[[str], None] | None = None, retry_s: float = 0.0) -> Backpressure:
        say = say or self.messages.append
        return Backpressure(self.fleet, self.stop, say, retry_s=retry_s, clock=self._clock)

    def _clock(self) -> float:
        self._now += self._step
        return self._now


async def test_a_call_that_finds_space_is_made_once_and_returns_its_result() -> None:
    bench = Bench()

    async def call() -> str:
        bench.fleet.log.write("called")
        return "result"

    assert await bench.backpressure().retry(call) == "result"
    assert (bench.fleet.log.writes, bench.messages) == (["called"], [])


async def test_a_call_is_repeated_until_the_store_has_space() -> None:
    bench = Bench()
    await bench.holds_work()
    bench.fleet.log.failures = 3
    frontier = BackpressuredFrontier(bench.fleet.frontier, bench.backpressure())

    added = await frontier.add("shop", [LINK, Link.to(Request(url="http://a.test/2"))])

    assert (added.new, added.duplicate) == (1, 1)
    assert bench.fleet.log.writes == ["2 seeds"]


async def test_without_a_way_to_report_the_first_full_answer_is_raised() -> None:
    bench = Bench()
    await bench.holds_work()
    bench.fleet.log.failures = 1
    frontier = BackpressuredFrontier(bench.fleet.frontier, Backpressure(bench.fleet, bench.stop, None))

    with pytest.raises(Full, match="maxmemory"):
        await frontier.add("shop", [LINK])


@pytest.mark.parametrize("left", ["no crawl", "a finished crawl", "a deleted crawl"])
async def test_a_store_without_work_is_not_waited_for(left: str) -> None:
    bench = Bench()
    if left == "a finished crawl":
        await bench.holds_work()
        await bench.fleet.frontier.finish("shop")
    elif left == "a deleted crawl":  # its record was read just before it was removed
        await bench.fleet.crawls.submit(record("shop"))
    bench.fleet.log.failures = 1
    frontier = BackpressuredFrontier(bench.fleet.frontier, bench.backpressure())

    with pytest.raises(Full, match="no crawl has work left that would free space: raise maxmemory"):
        await frontier.add("shop", [LINK])
    assert bench.messages == []


async def test_waiting_ends_when_the_last_work_is_done_and_the_store_is_still_full() -> None:
    bench = Bench()
    await bench.holds_work()
    calls = 0

    async def call() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            await bench.fleet.frontier.finish("shop")
        raise Full(FULL)

    with pytest.raises(Full, match="no crawl has work left"):
        await bench.backpressure().retry(call)
    assert calls == 3


async def test_a_request_to_stop_ends_the_wait_at_once() -> None:
    bench = Bench()
    await bench.holds_work()
    bench.fleet.log.failures = 1_000

    def stop(message: str) -> None:
        asyncio.get_running_loop().call_soon(bench.stop.ask)

    frontier = BackpressuredFrontier(bench.fleet.frontier, bench.backpressure(stop, retry_s=60.0))

    with pytest.raises(Interrupted, match="what was added is kept; run the same command to resume"):
        await frontier.add("shop", [LINK])
    assert bench.fleet.log.failures == 999  # it was not called again


@pytest.mark.parametrize(
    ("workers", "who"),
    [
        (0, "no worker is running: start shoal worker to free space"),
        (1, "1 worker is freeing space"),
        (2, "2 workers are freeing space"),
    ],
)
async def test_the_operator_learns_who_frees_space_and_how_to_stop(workers: int, who: str) -> None:
    bench = Bench(workers=workers)
    await bench.holds_work()
    bench.fleet.log.failures = 2
    await BackpressuredFrontier(bench.fleet.frontier, bench.backpressure()).add("shop", [LINK])

    assert bench.messages == [f"{FULL}: waiting, {who}. Ctrl-C stops; the same command resumes"]


async def test_the_operator_is_reminded_now_and_then_and_not_at_every_attempt() -> None:
    bench = Bench(step=REMIND_S / 2)
    await bench.holds_work()
    bench.fleet.log.failures = 5
    await BackpressuredFrontier(bench.fleet.frontier, bench.backpressure()).add("shop", [LINK])

    assert [message.split(",")[0] for message in bench.messages] == [
        f"{FULL}: waiting",
        f"{FULL}: still waiting",
        f"{FULL}: still waiting",
    ]
