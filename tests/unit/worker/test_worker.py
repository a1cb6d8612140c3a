"""The rounds of a worker: which crawls it serves, what it reports, and how it ends."""

import asyncio
import math
import os
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.stores.fleets import (
    FakeHeartbeats,
    FakeSubmittedCrawls,
    NoneLost,
    NothingDamaged,
    heartbeat,
    record,
)

from shoal import __version__
from shoal.engine.plan import Stop
from shoal.engine.snapshot import Summary, WorkStats
from shoal.frontier.redis import RedisFrontier
from shoal.model.errors import Lost, Misconfigured
from shoal.redis_client import RedisClient
from shoal.redis_client.dsn import parse
from shoal.stores.contract.crawl_record import CrawlRecord
from shoal.stores.contract.fleet import Fleet
from shoal.stores.contract.heartbeat import CrawlActivity, OutputActivity
from shoal.stores.redis.exits import RedisExitRecords
from shoal.stores.redis.levels import RedisLevels
from shoal.worker.activity import PACE, CrawlWork
from shoal.worker.crawl_session import WorkerContext
from shoal.worker.session_steps import SessionState
from shoal.worker.turns import CrawlTurn
from shoal.worker.worker import Worker, WorkerPlan

FETCHING = frozenset({"fetch", "sink"})  # without the role that joins the bus of a server
COMPLETE, UNKNOWN = SessionState.COMPLETE, SessionState.UNKNOWN
OUTPUT = OutputActivity("shop", "items.csv", "waiting")


class FakeSession:
    """A crawl at a worker: it is in the state that a test sets, and records what is asked of it."""

    def __init__(self, context: WorkerContext, record: CrawlRecord, state: SessionState) -> None:
        self.context = context
        self.records = [record]
        self.state = state
        self.stop = Stop()
        self.deleted = False
        self.missing_since: float | None = None
        self.summary: Summary | None = None
        self.refusal = self.blocked_reason = ""
        self.found_drops = False
        self.done = WorkStats()
        self.in_flight = 0
        self.longest_request_s = 65.0
        self.parsing, self.oldest_lease_s, self.committing_s = 0, 0.0, 0.0
        self.ran_at = 0.0
        self.turn = CrawlTurn()
        self.work: CrawlWork | None = None
        self.activity: CrawlActivity | None = None
        self.output_activity: list[OutputActivity] = []
        self.rounds = 0
        self.measured: list[set[str]] = []
        self.left = False
        self.ended = asyncio.Event()  # set by a test: the loop of this crawl ends

    @property
    def is_running(self) -> bool:
        return self.state is SessionState.RUNNING

    @property
    def is_done(self) -> bool:
        return self.state is COMPLETE

    def update(self, record: CrawlRecord) -> None:
        self.records.append(record)
        self.deleted = False

    def check_soon(self) -> None:
        self.context.wake.set()

    async def advance(self, group: asyncio.TaskGroup, stop: Stop) -> None:
        self.rounds += 1
        if self.deleted:
            self.state = SessionState.DELETED

    def run(self, group: asyncio.TaskGroup) -> None:
        """Start a loop that lasts until `ended` is set."""
        self.state = SessionState.RUNNING
        self.context.concurrency.running += 1
        group.create_task(self._loop())

    async def _loop(self) -> None:
        await self.ended.wait()
        self.state = COMPLETE
        self.context.concurrency.running -= 1
        self.context.wake.set()

    async def measure(self, served: Collection[str]) -> None:
        assert not self.left
        self.measured.append(set(served))

    async def leave(self) -> None:
        assert not self.is_running
        self.left = True


class Bench:
    """A worker with fake sessions; nothing here calls the server of its store."""

    def __init__(
        self,
        *crawls: str,
        state: SessionState = UNKNOWN,
        prepare: Callable[[FakeSession], None] | None = None,
        workers: FakeHeartbeats | None = None,
        **plan: Any,
    ) -> None:
        self.crawls = FakeSubmittedCrawls()
        self.crawls.records = {name: record(name) for name in crawls}
        self.workers = workers or FakeHeartbeats()
        self.sessions: dict[str, FakeSession] = {}
        self.opened: list[str] = []
        self.stop = Stop()
        self._state, self._prepare = state, prepare
        self.client = RedisClient(parse("redis://127.0.0.1:1/?patience_s=7"))
        fleet = Fleet(
            "",
            self.client,
            RedisFrontier(self.client),
            self.crawls,
            self.workers,
            _no_quota,
            _no_quota,
            _nothing_unwritten,
            NothingDamaged(),
            NoneLost(),
            RedisExitRecords(self.client),
            RedisLevels(self.client),
        )
        planned = WorkerPlan(**{"roles": FETCHING, **plan})
        self.worker = Worker(fleet, planned, self.stop, open_session=self._open)

    def _open(self, context: WorkerContext, record: CrawlRecord) -> FakeSession:
        session = FakeSession(context, record, self._state)
        if self._prepare is not None:
            self._prepare(session)
        self.opened.append(record.name)
        self.sessions[record.name] = session
        return session

    async def run(self) -> None:
        async with asyncio.timeout(10.0):
            await self.worker.run()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["asyncio.Task[None]"]:
        """Serve while the block runs; it begins after the first round, and the worker is then stopped."""
        async with asyncio.timeout(10.0), asyncio.TaskGroup() as group:
            serving = group.create_task(self.worker.run())
            await settled_down()
            yield serving
            self.stop.ask()

    async def next_round(self) -> None:
        next(iter(self.sessions.values())).context.wake.set()
        await settled_down()

    async def submit(self, *crawls: CrawlRecord) -> None:
        """Replace the crawls of the store, and let the worker see them."""
        self.crawls.records = {crawl.name: crawl for crawl in crawls}
        await self.crawls.announce()
        await self.next_round()


async def _nothing_unwritten(crawl: str) -> int:
    return 0


def _no_quota(*arguments: object, **options: object) -> Any:
    raise AssertionError("no crawl runs here")


async def settled_down() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


# --- which crawls ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("only", "served"), [("", ["news", "shop"]), ("shop", ["shop"]), ("other", [])])
async def test_every_submitted_crawl_gets_a_session_or_only_the_one_that_is_asked_for(
    only: str, served: list[str]
) -> None:
    bench = Bench("news", "shop", only=only)
    async with bench.running():
        assert bench.opened == served


async def test_a_crawl_that_is_submitted_later_gets_a_session_and_known_ones_are_updated() -> None:
    bench = Bench("shop")
    async with bench.running():
        newer = record("shop", version="v2")
        await bench.submit(newer, record("news"))

        assert bench.opened == ["shop", "news"]
        assert bench.sessions["shop"].records[1:] == [newer]
        assert bench.sessions["news"].rounds == 1


async def test_without_news_each_round_advances_every_session_and_updates_none() -> None:
    bench = Bench("news", "shop")
    async with bench.running():
        await bench.next_round()
        await bench.next_round()

        assert [session.rounds for session in bench.sessions.values()] == [3, 3]
        assert [len(session.records) for session in bench.sessions.values()] == [1, 1]


async def test_the_session_of_a_deleted_crawl_is_removed_and_a_new_crawl_of_that_name_gets_another() -> None:
    bench = Bench("news", "shop")
    async with bench.running():
        first = bench.sessions["shop"]
        await bench.submit(record("news"))
        assert first.deleted
        assert list(bench.worker.stats().done) == ["news"]

        await bench.submit(record("news"), record("shop"))
        await bench.next_round()
        assert bench.opened == ["news", "shop", "shop"]
        assert first.rounds == 2


async def test_a_worker_that_fetches_for_an_unknown_pool_is_refused() -> None:
    with pytest.raises(Misconfigured, match="no fetcher on this machine serves the pool 'gopher'"):
        Bench(pools=("gopher",))

    Bench(pools=("gopher",), roles=frozenset({"sink"}))  # it takes no requests


# --- until done --------------------------------------------------------------------------------------


async def test_a_crawl_that_vanishes_without_delete_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench("news", "shop")
    with pytest.raises(ExceptionGroup) as raised:
        async with bench.running():
            bench.crawls.lost.add("shop")
            await bench.submit(record("news"))
            assert bench.sessions["shop"].state is SessionState.DELETED
            assert bench.sessions["news"].state is UNKNOWN, "the other crawl is served"
    assert "crawl 'shop' is lost" in str(raised.value.exceptions[0])
    assert isinstance(raised.value.exceptions[0], Lost)
    assert [line.levelname for line in caplog.records if line.message == "crawl.lost"] == ["ERROR"]


async def test_a_lost_crawl_that_is_submitted_again_is_served_again() -> None:
    bench = Bench("shop")
    async with bench.running():
        bench.crawls.lost.add("shop")
        await bench.submit()
        await bench.submit(record("shop"))
        assert bench.opened == ["shop", "shop"]


@pytest.mark.parametrize("crawls", [(), ("shop",), ("news", "shop")])
async def test_until_done_ends_when_every_session_is_done(crawls: tuple[str, ...]) -> None:
    bench = Bench(*crawls, state=COMPLETE, until_done=True)
    await bench.run()

    assert all(session.left for session in bench.sessions.values())
    assert bench.workers.left == [bench.worker.id]


async def test_until_done_goes_on_while_one_session_is_not_done() -> None:
    bench = Bench("news", "shop", until_done=True)
    async with bench.running() as serving:
        bench.sessions["news"].state = COMPLETE
        await bench.next_round()
        assert not serving.done()

        bench.sessions["shop"].state = COMPLETE
        await bench.next_round()
        assert serving.done()


async def test_without_until_done_a_worker_waits_for_more_crawls() -> None:
    bench = Bench("shop", state=COMPLETE)
    async with bench.running() as serving:
        await bench.next_round()
        assert not serving.done()


def block(session: FakeSession) -> None:
    session.blocked_reason = "no such module"


async def test_a_crawl_that_this_worker_cannot_serve_is_an_error_for_until_done_alone() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        await Bench("shop", prepare=block, until_done=True).run()
    assert raised.group_contains(Misconfigured, match="no such module")

    bench = Bench("shop", prepare=block)
    async with bench.running() as serving:
        await bench.next_round()
        assert not serving.done()


def test_the_summary_of_a_crawl_that_was_deleted_while_it_ran_is_an_error() -> None:
    bench = Bench("shop", only="shop", until_done=True)

    with pytest.raises(Misconfigured, match="'shop' was deleted or restarted"):
        bench.worker.summary("shop")


# --- stopping ----------------------------------------------------------------------------------------


async def test_a_stop_drains_every_crawl_and_leaves_the_outputs_after_the_loops_have_ended() -> None:
    bench = Bench("news", "shop")
    async with asyncio.timeout(10.0), asyncio.TaskGroup() as group:
        serving = group.create_task(bench.worker.run())
        await settled_down()
        news, shop = bench.sessions["news"], bench.sessions["shop"]
        shop.run(group)
        bench.stop.ask()
        await settled_down()

        assert (news.stop.drain.is_set(), shop.stop.drain.is_set()) == (True, True)
        assert (news.stop.now.is_set(), shop.stop.now.is_set()) == (False, False)
        assert (serving.done(), news.left, bench.workers.left) == (False, False, [])

        bench.stop.ask()
        await settled_down()
        assert (news.stop.now.is_set(), shop.stop.now.is_set()) == (True, True)
        assert not serving.done()  # the loop releases its leases first

        shop.ended.set()
    assert (news.left, shop.left) == (True, True)
    assert bench.workers.left == [bench.worker.id]


async def test_an_idle_worker_stops_at_once() -> None:
    bench = Bench("shop")
    async with bench.running() as serving:
        bench.stop.ask()
        await settled_down()
        assert serving.done()
    assert bench.sessions["shop"].rounds == 2  # the first one, and the one in which it was noticed


@pytest.mark.parametrize(("until_done", "while_serving"), [(False, math.inf), (True, 7.0)])
async def test_an_unavailable_store_is_retried_without_limit_until_the_worker_has_an_end(
    until_done: bool, while_serving: float
) -> None:
    bench = Bench("shop", until_done=until_done)
    async with asyncio.timeout(10.0), asyncio.TaskGroup() as group:
        group.create_task(bench.worker.run())
        await settled_down()
        shop = bench.sessions["shop"]
        shop.run(group)
        assert bench.client.patience == while_serving

        bench.stop.ask()
        await settled_down()
        assert bench.client.patience == 7.0

        bench.stop.ask()
        await settled_down()
        assert bench.client.patience == 0.0
        shop.ended.set()


# --- reporting ---------------------------------------------------------------------------------------


async def test_a_heartbeat_describes_the_worker_and_what_it_does() -> None:
    activity = CrawlActivity("shop", "v1", in_flight=0, pages=9, rate=0.0)

    def prepare(session: FakeSession) -> None:
        if session.records[0].name == "shop":
            session.activity, session.output_activity = activity, [OUTPUT]
            session.work = CrawlWork(in_progress=0, rate=0.0, fetches=True)
        else:
            session.refusal = "no such module"

    bench = Bench("news", "shop", prepare=prepare)
    async with bench.running():
        pass

    beat = bench.workers.sent[0]
    assert (beat.worker, beat.host, beat.pid) == (bench.worker.id, os.uname().nodename, os.getpid())
    assert (beat.roles, beat.pools, beat.shoal) == (("fetch", "sink"), ("http",), __version__)
    assert (beat.doing, beat.why) == ("waiting", PACE)
    assert (beat.crawls, beat.outputs) == ((activity,), (OUTPUT,))
    assert beat.refused == {"news": "no such module"}
    assert beat.started_at <= beat.beaten_at


async def test_a_worker_that_does_not_fetch_reports_no_pools_and_no_slots() -> None:
    bench = Bench("shop", roles=frozenset({"sink"}))
    async with bench.running():
        pass

    assert (bench.workers.sent[0].roles, bench.workers.sent[0].pools) == (("sink",), ())
    assert bench.worker.stats().slots == 0


async def test_the_stats_are_those_of_all_sessions() -> None:
    bench = Bench("news", "shop", concurrency=9)
    async with bench.running():
        bench.sessions["news"].in_flight, bench.sessions["shop"].in_flight = 2, 3
        bench.sessions["shop"].done = WorkStats(pages=5)
        stats = bench.worker.stats()
        assert (stats.slots, stats.busy, stats.draining) == (9, 5, False)
        assert stats.done == {"news": WorkStats(), "shop": WorkStats(pages=5)}

    assert bench.worker.stats().draining


async def test_running_crawls_are_measured_with_the_pools_of_every_worker() -> None:
    workers = FakeHeartbeats(heartbeat("w2", ("browser",)))
    bench = Bench("shop", state=SessionState.RUNNING, workers=workers)
    async with bench.running():
        assert bench.sessions["shop"].measured == [{"http", "browser"}]
        bench.sessions["shop"].state = COMPLETE
