"""The loop that evaluates alerts, on a folder and on a real server: one process evaluates, every other one sees."""

import asyncio
import json
import logging
import math
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from tests.servers.redis import valkey
from tests.unit.stores.fleets import heartbeat

from shoal.cli.commands.inspect.status import status_lines
from shoal.engine.fetch_log.meter import AttemptMeter
from shoal.engine.snapshot import WorkerStats, WorkStats
from shoal.fetch.exits.shared_health import EXIT
from shoal.frontier.results import HostView
from shoal.model.alert import Alert, AlertKind
from shoal.model.exits.health import ExitRecord
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Lease, Settlement
from shoal.model.request import Link, Request
from shoal.model.settings import AlertSettings
from shoal.services.alerts.gather import Hosts, StoredHosts
from shoal.services.alerts.read import StoreAlerts, read_alerts
from shoal.services.alerts.watch import MAX_SHARE, MIN_TIMEOUT_S, AlertWatch, Claim, watching
from shoal.services.inspect.status import read_status
from shoal.services.inspect.status_json import status_json
from shoal.stores.contract.monitoring import ALERTS, CLAIM
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store

RULES = AlertSettings(every=0.1, window=5.0, wait=0.0, calm=0.2, min_attempts=5, pause=30.0)
HOST = "shop.test"
LIMIT_S = 30.0


@dataclass
class Place:
    """A store, and its hosts as the process has them that runs a crawl there."""

    store: Store
    hosts: Hosts

    def watch(
        self, worker: str, stats: Callable[[], WorkerStats] | None, rules: AlertSettings = RULES
    ) -> AlertWatch:
        return AlertWatch(self.store, rules, worker=worker, stats=stats, hosts=self.hosts)


@asynccontextmanager
async def in_folder(folder: Path) -> AsyncIterator[Place]:
    async with open_store(str(folder / "data"), create=True) as store, store.work() as owned:
        yield Place(store, owned.frontier.hosts)


@asynccontextmanager
async def in_redis(folder: Path, *, worker: str = "w1") -> AsyncIterator[Place]:
    async with valkey(folder) as server, open_store(server.dsn, create=True) as store:
        if worker:
            await store.fleet.workers.beat(heartbeat(worker))  # without one, no process evaluates
        yield Place(store, StoredHosts(store))


@pytest.fixture(params=[in_folder, in_redis], ids=["folder", "redis"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with request.param(tmp_path) as opened:
        yield opened


def failing_stats() -> Callable[[], WorkerStats]:
    """Return the figures of a process most of whose requests to a host fail."""
    meter = AttemptMeter()
    request = Request(url=f"http://{HOST}/")
    lease = Lease("shop", 1, 1, HOST, request, 1, 0, 0, 0.0, 0.5, 1)
    for _ in range(10):
        meter.settled(Settlement(lease, Dead(Failure(FailureClass.TARGET_ERROR, "status 500", 500))), None)
    return lambda: WorkerStats(4, 1, draining=False, done={"shop": WorkStats(meter=meter)})


async def until(store: Store, is_so: Callable[[StoreAlerts], object]) -> StoreAlerts:
    async with asyncio.timeout(LIMIT_S):
        while True:
            found = await read_alerts(store)
            if is_so(found):
                return found
            await asyncio.sleep(0.05)


async def test_a_failing_host_is_paused_by_policy_and_every_reader_sees_the_alert(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    watch = place.watch("w1", failing_stats())
    with caplog.at_level(logging.INFO, logger="shoal"):
        async with watching(watch):
            found = await until(place.store, lambda found: found.active and found.active[0].done)
            [alert] = found.active
            assert (alert.kind, alert.about, found.by) == (AlertKind.HOST_FAILING, HOST, "w1")
            assert alert.done == "it is paused for 30 s"
            assert [one.about for one in (await read_status(place.store)).alerts] == [HOST]
            host = await place.hosts.get(HOST)
            assert host is not None
            assert host.rest_until > found.at
    [raised] = [record for record in caplog.records if record.message == "alert.raised"]
    assert (raised.kind, raised.about) == ("host_failing", HOST)  # type: ignore[attr-defined]


async def test_actions_can_be_switched_off(place: Place) -> None:
    rules = AlertSettings(every=0.1, wait=0.0, min_attempts=5, actions=("none",))
    async with watching(place.watch("w1", failing_stats(), rules)):
        [alert] = (await until(place.store, lambda found: found.active)).active
        assert alert.done == ""
        host = await place.hosts.get(HOST)
        assert host is None or host.rest_until == 0.0


async def test_one_process_evaluates_and_another_one_takes_over(place: Place) -> None:
    quiet = WorkerStats(4, 1, draining=False, done={})
    first = place.watch("w1", failing_stats())
    async with watching(place.watch("w2", lambda: quiet)):
        async with watching(first):
            await until(place.store, lambda found: found.active)
            taken = await place.store.monitoring.get(CLAIM)
            await asyncio.sleep(0.5)
            still = await place.store.monitoring.get(CLAIM)
            assert taken is not None
            assert still is not None
            assert (b"w1" in taken) == (b"w1" in still)
        # Without the figures of the first one, nothing is wrong.
        found = await until(place.store, lambda found: not found.active and found.by == "w2")
        assert HOST in [alert.about for alert in found.recent]
    assert await place.store.monitoring.get(CLAIM) is None


async def test_rubbish_in_the_store_ends_nothing(place: Place) -> None:
    await place.store.monitoring.put({ALERTS: b"\xc1", CLAIM: b"\xc1", "f/old": b"\xc1"})
    assert (await read_alerts(place.store)).active in ((), [])
    async with watching(place.watch("w1", failing_stats())):
        await until(place.store, lambda found: found.active)


ABSURD = (
    {"worker": "w2", "at": math.nan},
    {"worker": "w2", "at": math.inf, "slots": 4},
    {"worker": "w2", "at": -5.0},
    {"worker": "w2", "at": 0.0, "busy": -1},
    {"worker": "w2", "at": 0.0, "tasks": {"success": -(2**40)}, "buckets": [1]},
    {"worker": "w2", "at": 0.0, "oldest_lease_s": math.inf, "parsing": 2**63},
    {"worker": "w2", "at": 0.0, "trouble": [["h", 10, 10, 0, "dns", 0, math.nan]]},
    ["w2"],
)


async def test_figures_that_no_process_can_have_counted_change_nothing(place: Place) -> None:
    now = time.time()
    for number, record in enumerate(ABSURD):
        if isinstance(record, dict) and record["at"] == 0.0:
            record = {**record, "at": now}
        await place.store.monitoring.put({f"f/absurd-{number}": msgspec.msgpack.encode(record)})
    resting = ExitRecord(total=1, rest_until=math.inf, seen_at=now + 30, cause="unhealthy")
    assert await place.store.exits.swap(f"{EXIT}de-1", None, msgspec.msgpack.encode(resting))
    async with watching(place.watch("w1", failing_stats())):
        found = await until(place.store, lambda found: found.by == "w1" and found.active)
        assert [alert.kind for alert in found.active] == [AlertKind.HOST_FAILING]
        status = await read_status(place.store)
        assert set(status.figures) == {"w1"}
        assert "NaN" not in json.dumps(status_json(status, now))
        assert [*status_lines(status, now)]


async def test_a_claim_that_a_killed_process_left_is_taken_over(place: Place) -> None:
    left = msgspec.msgpack.encode(Claim("killed", time.time() + 1.0, 15.0))
    await place.store.monitoring.put({CLAIM: left})
    async with watching(place.watch("w1", failing_stats())):
        assert (await until(place.store, lambda found: found.by == "w1" and found.active)).active


async def test_a_clock_that_is_set_back_stops_no_evaluation(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, hour = time.time, 3600.0
    async with watching(place.watch("w1", failing_stats())):
        await until(place.store, lambda found: found.active)
        monkeypatch.setattr(time, "time", lambda: clock() - hour)
        found = await until(place.store, lambda found: found.by and found.at < clock() - hour + 60)
        [alert] = await raised(place.store)
        assert alert.since <= found.at + 1
    another = place.watch("w2", None)
    await place.store.monitoring.put(
        {CLAIM: msgspec.msgpack.encode(Claim("killed", clock(), 15.0))}  # an hour ahead
    )
    async with watching(another):
        await until(place.store, lambda found: found.by == "w2")


async def raised(store: Store) -> Sequence[Alert]:
    return (await until(store, lambda found: found.active)).active


async def test_an_error_inside_the_block_is_raised_as_it_is(place: Place) -> None:
    with pytest.raises(ValueError, match="mine"):
        async with watching(place.watch("w1", None)):
            raise ValueError("mine")


async def test_a_fleet_without_any_worker_is_looked_at_by_the_reader(tmp_path: Path) -> None:
    async with in_redis(tmp_path, worker="") as place:
        store = place.store
        await store.fleet.frontier.crawls.open("shop")
        await store.fleet.frontier.add("shop", [Link.to(Request(url=f"http://{HOST}/"))])
        [alert] = (await read_alerts(store)).active
        assert (alert.kind, alert.stage) == (AlertKind.NO_WORKER, "fetch")


async def test_a_store_that_stalls_is_an_alert_of_the_worker_that_waits_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = AlertSettings(every=0.2, wait=0.0, calm=0.2)
    async with valkey(tmp_path) as server, open_store(server.dsn, create=True) as store:
        await store.fleet.workers.beat(heartbeat("w1"))
        watch = AlertWatch(store, rules, worker="w1", stats=None)
        with caplog.at_level(logging.INFO, logger="shoal"):
            async with watching(watch):
                await until(store, lambda found: found.by == "w1")
                server.signal(signal.SIGSTOP)
                await logged(caplog, "alert.raised")
                server.signal(signal.SIGCONT)
                await logged(caplog, "alert.cleared")
                found = await until(store, lambda found: found.recent)
    assert [alert.kind for alert in found.recent] == [AlertKind.STORE_UNAVAILABLE]
    [raised] = [record for record in caplog.records if record.message == "alert.raised"]
    assert raised.stage == "store"  # type: ignore[attr-defined]


@dataclass
class SlowHosts:
    """Hosts that take long to read, as a store does that has very many crawls."""

    hosts: Hosts
    delay_s: float

    async def get(self, host: str) -> HostView | None:
        await asyncio.sleep(self.delay_s)
        return await self.hosts.get(host)

    async def set(self, host: str, *, rest_until: float) -> object:
        return await self.hosts.set(host, rest_until=rest_until)


async def claimed_s(store: Store) -> float:
    """Return the seconds for which the claim to evaluate was taken."""
    claim = await store.monitoring.get(CLAIM)
    return 0.0 if claim is None else msgspec.msgpack.decode(claim, type=Claim).length_s


async def test_a_store_with_so_many_crawls_that_reading_them_takes_long_is_no_outage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    delay_s = 1.2 * MIN_TIMEOUT_S
    async with in_redis(tmp_path) as place:
        for number in range(60):
            await place.store.fleet.frontier.crawls.open(f"c{number}")
        place.hosts = SlowHosts(place.hosts, delay_s)
        with caplog.at_level(logging.INFO, logger="shoal"):
            async with watching(place.watch("w1", failing_stats())):
                # It rests before the next round, and keeps the claim for longer than that.
                async with asyncio.timeout(3 * LIMIT_S):
                    while await claimed_s(place.store) < delay_s / MAX_SHARE:  # noqa: ASYNC110 (another task does it)
                        await asyncio.sleep(0.05)
                assert (await read_alerts(place.store)).by == "w1"
    raised = [record.kind for record in caplog.records if record.message == "alert.raised"]  # type: ignore[attr-defined]
    assert AlertKind.STORE_UNAVAILABLE.value not in raised


async def logged(caplog: pytest.LogCaptureFixture, event: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        while event not in caplog.messages:  # noqa: ASYNC110 (another task logs it)
            await asyncio.sleep(0.05)
