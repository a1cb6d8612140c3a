"""A backend and the model side by side: the same calls return the same results.

The model (`tests/model/`) looks at everything in each call. The backends have heaps, arrays, logs and
deferred deletes, or lists, sorted sets and packed records on a server. Hypothesis searches for a sequence of
calls, deaths and clock jumps after which the two differ. After every step both have to pass an audit.
Politeness is judged from the grants alone.

More examples: SHOAL_MODEL_EXAMPLES=5000 pytest tests/contract/test_frontier_model.py
"""

import asyncio
import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import structs
from tests.contract.redis_frontiers import MANUAL_CLOCK, redis_bench
from tests.model import MemoryFrontier
from tests.model.state import Host

from shoal.frontier.contract import Frontier
from shoal.frontier.redis.repair import repair_crawls
from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.results import Added, Committed, Unparsed
from shoal.frontier.rules import HostRecord
from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.adaptive_delay import Signal, SlowdownRules
from shoal.model.failure import Failure, FailureClass
from shoal.model.levels.ladder import LADDER
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Filtered,
    Gone,
    Lease,
    Outcome,
    Released,
    Retry,
    Settlement,
)
from shoal.model.pace import Pace
from shoal.model.request import Link
from shoal.testing.contracts.frontier import ManualClock, link, page

T = TypeVar("T")

CRAWLS = ("a", "b")
HOSTS = ("1.test", "2.test")
POOLS = ("http", "browser")
HOLDERS = ("w1", "w2")
PACES = {"a": Pace(interval=0.5, burst=2, concurrency=4), "b": Pace(interval=0.0, burst=1, concurrency=3)}
SLOWDOWN = SlowdownRules(at_least=3, window=5)
# A process that dies loses nothing of the page cache, so a real disk would prove nothing more.
RAM_DISK = "/dev/shm" if Path("/dev/shm").is_dir() else None

crawls = st.sampled_from(("a", "a", "a", "b"))
some_link = st.builds(
    link,
    st.integers(0, 40).map(str),
    host=st.sampled_from(HOSTS),
    priority=st.sampled_from((4, 5, 6)),
    pool=st.sampled_from(("http", "http", "http", "browser")),
)
links = st.lists(some_link, max_size=4)
failures = st.builds(
    Failure, st.sampled_from((FailureClass.TIMEOUT, FailureClass.IP_BLOCKED)), st.just("why")
)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Done, st.just(page(1))),
    st.builds(Fetched, st.just(page(2))),
    st.just(Gone(404)),
    st.builds(
        Retry,
        failures,
        delay=st.sampled_from((0.0, 0.5, 3.0)),
        charged=st.booleans(),
        rest=st.sampled_from((0.0, 0.0, 4.0)),
    ),
    st.builds(Dead, failures, st.sampled_from((None, page(3)))),
    st.builds(Dead, st.just(Failure(FailureClass.PARSE_ERROR, "raised")), st.just(page(4))),
    st.just(Filtered(FailureClass.ROBOTS)),
    st.builds(Released, st.sampled_from((0.0, 2.0))),
)


@dataclass(frozen=True)
class Pick:
    """A lease to settle, by its number among the latest, and how; `pool`: the one to try it in next."""

    number: int
    outcome: Outcome
    links: list[Link]
    signal: Signal | None
    sent: bool
    pool: str = ""


numbers = st.integers(0, 12)
signals = st.none() | st.sampled_from(Signal)
pools = st.sampled_from(("", "", "http", "browser"))
picks = st.lists(st.builds(Pick, numbers, outcomes, links, signals, st.booleans(), pools), max_size=6)


@dataclass(frozen=True)
class Work:
    seconds: float
    holder: str
    limit: int
    picks: list[Pick]


works = st.builds(Work, st.sampled_from((0.0, 0.5, 2.0)), st.sampled_from(HOLDERS), st.integers(1, 5), picks)


class Sides(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(prefix="shoal-model-", dir=RAM_DISK)
        self.clock = ManualClock()
        self.latest = self.clock.now
        self.model = MemoryFrontier(self.clock)
        self.stack = AsyncExitStack()
        self.other: Frontier
        self.leases: list[
            tuple[Lease, Lease]
        ] = []  # every lease ever granted, by the model and by the backend
        self.pages: list[tuple[str, int]] = []  # everything that was ever settled as `Fetched`
        self.ended: set[tuple[str, int]] = set()
        # The grants of each host with their time, since its pace last changed or the clock was set back.
        self.sent: dict[str, list[tuple[float, Lease]]] = defaultdict(list)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(call)

    def both(self, method: str, *arguments: Any, **named: Any) -> tuple[Any, Any]:
        """Call the same method of the model and of the backend: `reader.counts`, `lease`."""
        call = attrgetter(method)
        expected = self.run(call(self.model)(*arguments, **named))
        return expected, self.run(call(self.other)(*arguments, **named))

    @initialize(a=st.lists(some_link, max_size=20), b=links)
    def open(self, a: list[Link], b: list[Link]) -> None:
        self.run(self.reopen())
        self.add("a", a)
        self.add("b", b)

    async def connect(self) -> None:
        """Open the backend, which may have been open before."""
        raise NotImplementedError

    async def reopen(self) -> None:
        await self.connect()
        for side in (self.model, self.other):
            for crawl, pace in PACES.items():
                await side.crawls.open(crawl, pace=pace, max_crashes=2, slowdown=SLOWDOWN)

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.loop.close()
        self.folder.cleanup()

    def latest_lease(self, number: int) -> tuple[Lease, Lease]:
        return self.leases[-1 - number % len(self.leases)]

    # --- steps -----------------------------------------------------------------------------------

    @rule(crawl=crawls, links=links)
    def add(self, crawl: str, links: list[Link]) -> None:
        expected, found = self.both("add", crawl, links)
        assert found == expected

    @rule(
        holder=st.sampled_from(HOLDERS),
        limit=st.integers(0, 6),
        ttl=st.sampled_from((3.0, 10.0)),
        pools=st.sampled_from((POOLS, POOLS, ("http",), ("browser",))),
        some=st.sampled_from((None, None, ("a",), ("b",))),
    )
    def lease(
        self, holder: str, limit: int, ttl: float, pools: tuple[str, ...], some: tuple[str, ...] | None
    ) -> None:
        expected, found = self.both("lease", holder=holder, limit=limit, ttl=ttl, pools=pools, crawls=some)
        assert [seen(lease) for lease in found.leases] == [seen(lease) for lease in expected.leases]
        assert found.wait == expected.wait
        self.leases += zip(expected.leases, found.leases, strict=True)
        assert len({(lease.token, lease.crawl, lease.fingerprint) for _, lease in self.leases}) == len(
            self.leases
        )
        assert sum(lease.crashes > 0 for lease in found.leases) <= 1
        for lease in expected.leases:
            assert (lease.crawl, lease.fingerprint) not in self.ended
            self.check_pace(lease)

    @rule(first=works, second=works, third=works)
    def work(self, first: Work, second: Work, third: Work) -> None:
        """Wait, lease and settle a few times in a row, so that most examples make progress."""
        for work in (first, second, third):
            self.wait(work.seconds)
            before = len(self.leases)
            self.lease(work.holder, work.limit, 10.0, POOLS, None)
            new = len(self.leases) - before
            self.settle([replace(pick, number=number) for number, pick in enumerate(work.picks[:new])])

    @rule(first=works, second=works, third=works)
    def work_on(self, first: Work, second: Work, third: Work) -> None:
        self.work(first, second, third)

    @rule(picks=picks)
    def settle(self, picks: list[Pick]) -> None:
        chosen = [(*self.latest_lease(pick.number), pick) for pick in picks if self.leases]
        for lease, other, _ in chosen:
            assert self.other.holds(other) == self.model.holds(lease)
        expected = self.run(self.settle_model([settlement(lease, pick) for lease, _, pick in chosen]))
        found = self.run(self.other.settle([settlement(other, pick) for _, other, pick in chosen]))
        assert (found.new, found.duplicate) == (expected.new, expected.duplicate)
        assert [seen(lease) for lease in found.stale] == [seen(lease) for lease in expected.stale]
        rejected = list(expected.stale)
        for lease, _, pick in reversed(chosen):  # of two settlements of one lease, the later is rejected
            if lease in rejected:
                rejected.remove(lease)
                continue
            if isinstance(pick.outcome, Done | Gone | Filtered | Dead | Fetched):
                self.ended.add((lease.crawl, lease.fingerprint))
            if isinstance(pick.outcome, Fetched):
                self.pages.append((lease.crawl, lease.fingerprint))
            if not pick.sent:  # a request that was never sent does not count
                self.sent[lease.host] = [grant for grant in self.sent[lease.host] if grant[1] is not lease]

    async def settle_model(self, settlements: list[Settlement]) -> Committed:
        return await self.model.settle(settlements)

    @rule(number=numbers, good=st.booleans(), links=links)
    def acknowledge(self, number: int, good: bool, links: list[Link]) -> None:
        if self.pages:
            crawl, fp = self.pages[-1 - number % len(self.pages)]
            outcome = Done(page(5)) if good else Dead(Failure(FailureClass.PARSE_ERROR, "raised"))
            expected, found = self.both("acknowledge", [Acknowledgement(crawl, fp, outcome, links)])
            assert found == expected

    @rule(
        crawl=crawls,
        classes=st.sampled_from(([], [FailureClass.TIMEOUT], [FailureClass.POISON])),
    )
    def replay(self, crawl: str, classes: list[FailureClass]) -> None:
        letters = self.run(dead(self.model, crawl))
        expected, found = self.both("dead_letters.replay", crawl, classes=classes)
        assert found == expected
        self.ended -= {
            (crawl, letter.fingerprint) for letter in letters if not classes or letter.kind in classes
        }

    @rule(crawl=crawls, failure_class=st.sampled_from((FailureClass.TIMEOUT, FailureClass.POISON)))
    def purge(self, crawl: str, failure_class: FailureClass) -> None:
        expected, found = self.both("dead_letters.purge", crawl, classes=[failure_class], limit=1)
        assert found == expected

    @rule(numbers=st.lists(numbers, max_size=3))
    def land(self, numbers: list[int]) -> None:
        for number in numbers if self.leases else ():
            lease, other = self.latest_lease(number)
            self.model.mark_landed([lease])
            self.other.mark_landed([other])

    @rule(numbers=st.lists(numbers, min_size=1, max_size=3), ttl=st.sampled_from((0.0, 5.0, 20.0)))
    def extend(self, numbers: list[int], ttl: float) -> None:
        chosen = [self.latest_lease(number) for number in numbers if self.leases]
        expected = self.run(self.model.extend([lease for lease, _ in chosen], ttl))
        found = self.run(self.other.extend([lease for _, lease in chosen], ttl))
        assert [seen(lease) for lease in found] == [seen(lease) for lease in expected]

    @rule()
    def reclaim(self) -> None:
        expected, found = self.both("reclaim")
        assert found == expected

    @rule(crawl=crawls, pause=st.booleans())
    def pause(self, crawl: str, pause: bool) -> None:
        self.both("crawls.pause" if pause else "crawls.resume", crawl)

    @rule(
        host=st.sampled_from(HOSTS),
        fields=st.fixed_dictionaries(
            {},
            optional={
                "interval": st.sampled_from((0.0, 0.5, 2.0)),
                "burst": st.integers(1, 3),
                "concurrency": st.integers(1, 3),
                "crawl_delay": st.sampled_from((0.0, 1.5)),
                "paused": st.booleans(),
            },
        ),
        rest=st.sampled_from((None, None, 0.0, 2.5)),
    )
    def set_host(self, host: str, fields: dict[str, Any], rest: float | None) -> None:
        if rest is not None:
            fields["rest_until"] = self.clock.now + rest
        expected, found = self.both("hosts.set", host, **fields)
        assert found == expected

    @rule(seconds=st.sampled_from((0.1, 0.5, 1.0, 4.0, 15.0)))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.latest = max(self.latest, self.clock.now)

    def set_back(self, seconds: float) -> None:
        self.clock.advance(-seconds)
        self.sent.clear()

    @rule()
    def die(self) -> None:
        """End a process; one second later another one starts."""
        self.clock.now = self.latest = max(self.latest, self.clock.now) + 1.0
        self.run(self.replace_process())

    async def replace_process(self) -> None:
        raise NotImplementedError

    # --- invariants ------------------------------------------------------------------------------

    @invariant()
    def counters_agree_with_the_data(self) -> None:
        for crawl in CRAWLS:
            expected, found = self.both("reader.counts", crawl)
            assert found == expected
            assert found.accepted == sum(found.by_state().values())
            for audit in self.both("reader.audit", crawl):
                assert audit.problems == []
                assert merged(audit.counts) == merged(expected.by_state())

    @invariant()
    def dead_letters_are_equal(self) -> None:
        for crawl in CRAWLS:
            assert self.run(dead(self.other, crawl)) == self.run(dead(self.model, crawl))

    @invariant()
    def hosts_are_equal(self) -> None:
        expected, found = self.both("hosts.all")
        assert sorted(found, key=lambda view: view.host) == sorted(expected, key=lambda view: view.host)

    # --- politeness ------------------------------------------------------------------------------

    def check_pace(self, lease: Lease) -> None:
        grants = self.sent[lease.host]
        if grants and (grants[-1][1].interval, grants[-1][1].burst) != (lease.interval, lease.burst):
            assert self.clock.now - grants[-1][0] >= lease.interval  # a change of pace leaves no credit
            grants.clear()
        grants.append((self.clock.now, lease))
        if lease.interval > 0:
            for number, (begin, _) in enumerate(grants):
                allowed = lease.burst + (self.clock.now - begin) / lease.interval
                assert len(grants) - number <= math.floor(allowed + 1e-6)


class SqliteSides(Sides):
    """A store with one owner: after its death, its leases are crashes and every host rests."""

    async def connect(self) -> None:
        path = Path(self.folder.name) / "store.db"
        self.other = await self.stack.enter_async_context(
            SqliteFrontier.open(path, clock=self.clock, sweep_every=4)
        )

    async def replace_process(self) -> None:
        await self.stack.aclose()
        self.model.restart()
        await self.reopen()
        self.sent.clear()

    @rule(crawl=crawls)
    def take_up_a_page(self, crawl: str) -> None:
        expected, found = (self.run(first_page(side, crawl)) for side in (self.model, self.other))
        assert found == expected
        if expected is not None:
            self.pages.append((crawl, expected.fingerprint))

    @rule(seconds=st.sampled_from((0.3, 5.0, 3600.0)))
    def set_clock_back(self, seconds: float) -> None:
        self.set_back(seconds)


class ShortMemoryScripts(Scripts):
    """The scripts, but idle hosts are deleted soon: just after the slowest pace of these tests has no effect."""

    def fragment(self, name: str) -> str:
        text = super().fragment(name)
        for usual, short in SHORT_TIMES if name == "idle_hosts" else ():
            assert usual in text
            text = text.replace(usual, short)
        return text


SHORT_TIMES = (
    ("IDLE_AFTER_S = 600", "IDLE_AFTER_S = 21"),
    ("KEEP_STATE_S = 90000", "KEEP_STATE_S = 40"),
    ("SWEEP_EVERY_S, HOSTS_PER_SWEEP = 1,", "SWEEP_EVERY_S, HOSTS_PER_SWEEP = 0,"),
)
SHORT_MEMORY = ShortMemoryScripts(clock=MANUAL_CLOCK)


class RedisSides(Sides):
    """A store without an owner: a worker dies, its leases expire, and nothing else happens."""

    server: str

    async def connect(self) -> None:
        self.bench = await self.stack.enter_async_context(
            redis_bench(self.server, self.clock, scripts=SHORT_MEMORY)
        )
        self.other = self.bench.frontier

    def both(self, method: str, *arguments: Any, **named: Any) -> tuple[Any, Any]:
        results = super().both(method, *arguments, **named)
        if method == "lease":
            self.run(self.delete_idle_hosts())
        return results

    async def delete_idle_hosts(self) -> None:
        """Delete from the model the hosts that the shard has deleted, and check that it was allowed to."""
        tag, state = self.bench.store.tag(0), self.model._state
        known = {name.decode() for name in await self.bench.store.do(tag, "HKEYS", f"{tag}:h")}
        for name in state.hosts.keys() - known:
            host = state.hosts[name]
            assert (host.inflight, host.record.paused, host.record.interval) == (0, False, None)
            assert (host.record.burst, host.record.concurrency) == (None, None)
            assert max(host.ready, host.record.rest_until) <= self.latest
            for crawl in state.crawls.values():
                lanes = {key: lane for key, lane in crawl.lanes.items() if lane.host is host}
                assert not any(lane.waiting for lane in lanes.values())
                crawl.lanes = {key: lane for key, lane in crawl.lanes.items() if key not in lanes}
            state.hosts[name] = Host(name, HostRecord())

    @rule(host=st.sampled_from(HOSTS), signal=signals)
    def finish(self, host: str, signal: Signal | None) -> None:
        """End all requests of a host and wait until the shard may delete it."""
        for number in range(8):
            before = len(self.leases)
            self.lease(HOLDERS[number % 2], 6, 10.0, POOLS, None)
            for lease, other in self.leases[before:]:
                outcome = Gone(404) if lease.host == host else Released(0.0)
                pick = Pick(0, outcome, [], signal if lease.host == host else None, sent=lease.host == host)
                self.settle_one(lease, other, pick)
            self.wait(1.0)
        self.wait(45.0)
        self.lease(HOLDERS[0], 1, 10.0, POOLS, None)

    def settle_one(self, lease: Lease, other: Lease, pick: Pick) -> None:
        self.settle([replace(pick, number=len(self.leases) - 1 - self.leases.index((lease, other)))])

    @rule()
    def repair(self) -> None:
        assert self.run(repair_crawls(self.bench.frontier, CRAWLS)) == []

    async def replace_process(self) -> None:
        await self.bench.kill()
        self.other = self.bench.frontier
        state = self.model._state
        state.crash(list(state.leased()), state.clock.now())
        for crawl in CRAWLS:
            await self.other.crawls.open(crawl)

    async def settle_model(self, settlements: list[Settlement]) -> Committed:
        """Add links first, as the fleet does: they go to the shards of their hosts."""
        added: list[Added] = []
        settled: set[tuple[int, str, int]] = set()
        for one in settlements:
            held = (one.lease.token, one.lease.crawl, one.lease.fingerprint)
            if self.model.holds(one.lease) and held not in settled:
                settled.add(held)
                added.append(await self.model.add(one.lease.crawl, one.links))
        committed = await self.model.settle([structs.replace(one, links=()) for one in settlements])
        return Committed(sum(one.new for one in added), sum(one.duplicate for one in added), committed.stale)

    @rule()
    def set_clock_back(self) -> None:
        """Make the clock jitter. After a larger step back, a shard keeps its own time, unlike the model."""
        if self.latest - self.clock.now < 0.6:
            self.set_back(0.3)


def merged(counts: Mapping[str, int]) -> dict[str, int]:
    """Add up waiting and delayed: in the data, only the clock tells them apart."""
    rest = {state: count for state, count in counts.items() if state not in ("waiting", "delayed")}
    return {**rest, "queued": counts["waiting"] + counts["delayed"]}


def settlement(lease: Lease, pick: Pick) -> Settlement:
    outcome = pick.outcome
    if pick.pool and isinstance(outcome, Retry | Released):
        instead = structs.replace(lease.request, pool=pick.pool, escalated=LADDER[pick.sent])
        outcome = structs.replace(outcome, instead=instead)
    return Settlement(lease, outcome, pick.links, signal=pick.signal, sent=pick.sent)


def seen(lease: Lease) -> tuple[object, ...]:
    """Return all fields of a lease that the contract determines: all but the token."""
    return tuple(getattr(lease, name) for name in Lease.__struct_fields__ if name != "token")


async def dead(side: Frontier, crawl: str) -> list[Any]:
    return [letter async for letter in side.reader.dead_letters(crawl)]


async def first_page(side: Frontier, crawl: str) -> Unparsed | None:
    """Return the next page that no process is parsing, or None if it has to wait for another one."""
    pages = side.parsing(crawl)
    try:
        async with asyncio.timeout(0):
            return await anext(pages, None)
    except TimeoutError:
        return None
    finally:
        await pages.aclose()  # type: ignore[attr-defined]


def examples(number: int) -> settings:
    return settings(
        max_examples=int(os.environ.get("SHOAL_MODEL_EXAMPLES", number)),
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


class ValkeySides(RedisSides):
    server = "valkey"


class RedisServerSides(RedisSides):
    server = "redis"


class SentinelSides(RedisSides):
    server = "sentinel"


class ClusterSides(RedisSides):
    server = "cluster"


TestSqlite = SqliteSides.TestCase
TestSqlite.settings = examples(30)
# On a server each example takes a second: every check is a round trip.
TestValkey = ValkeySides.TestCase
TestValkey.settings = examples(15)
TestRedis = RedisServerSides.TestCase
TestRedis.settings = examples(15)
# The scripts are the same with Sentinel and in a cluster, but every write waits for a replica.
TestSentinel = SentinelSides.TestCase
TestSentinel.settings = examples(10)
TestCluster = ClusterSides.TestCase
TestCluster.settings = examples(10)
# The machines name their servers by a string, which tests/needs.py does not see.
pytest.mark.needs_redis(TestValkey)
pytest.mark.needs_redis(TestRedis)
pytest.mark.needs_cluster(TestSentinel)
pytest.mark.needs_cluster(TestCluster)
for model in (TestRedis, TestSentinel, TestCluster):
    pytest.mark.whole_matrix(model)
pytestmark = pytest.mark.slow("each example is a sequence of dozens of calls, checked after every one")
