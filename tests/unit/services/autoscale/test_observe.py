"""What the counters and heartbeats of a fleet say about its stages."""

import math

import pytest

from shoal.frontier.results import HostQueue
from shoal.model.exits.health import ExitRecord
from shoal.services.autoscale.observe import (
    FlowCounters,
    StageCounters,
    host_ceiling,
    latency_of,
    rate_of_one,
    stage_loads,
)
from shoal.services.inspect.status import FleetStatus, Stage, StoreStatus
from shoal.stores.contract.heartbeat import CrawlActivity, Heartbeat

NOW = 1_000.0


def worker(name: str, *, in_flight: int = 0, rate: float = 0.0, roles: str = "fetch parse sink") -> Heartbeat:
    return Heartbeat(
        worker=name,
        host="m",
        pid=1,
        roles=tuple(roles.split()),
        shoal="0",
        started_at=0.0,
        beaten_at=NOW,
        doing="working",
        concurrency=64 if "fetch" in roles else 0,
        crawls=(CrawlActivity("c", "v", in_flight, 100, rate),),
    )


def host(
    name: str, interval: float, *, queued: int = 10, paused: bool = False, rest: float = 0.0
) -> HostQueue:
    return HostQueue(name, queued, interval, 4, paused, rest)


def observed(*workers: Heartbeat, hosts: list[HostQueue] | None = None, **more: object) -> StageCounters:
    stages = {"c": {"fetch": Stage(500), "parse": Stage(30), "sink": Stage(7)}}
    fleet = FleetStatus(workers, stages, {"c": ("a.jsonl", "b.csv")})
    status = StoreStatus("store", None, [], fleet, **more)  # type: ignore[arg-type]
    return StageCounters(status, {"http": 400, "browser": 100}, hosts, FlowCounters(NOW, 1_500, 1_000))


def test_fetching_is_divided_by_pools() -> None:
    seen = observed(worker("a", in_flight=10, rate=20.0), hosts=[host("x", 0.5)])
    http, browser, parse, sink = stage_loads(seen, FlowCounters(NOW - 10, 1_400, 800))

    assert (http.pool, http.queued, http.inflow, http.drained) == ("http", 400, 8.0, 16.0)
    assert (http.workers, http.worker_rate, http.ceiling) == (1, 128.0, 2.0)
    assert (browser.pool, browser.queued, browser.workers) == ("browser", 100, 0)
    assert (parse.queued, parse.workers) == (30, 1)
    assert (sink.queued, sink.writers) == (7, 2)


def test_the_first_look_knows_no_inflow() -> None:
    http, *_ = stage_loads(observed(worker("a")), None)
    assert (http.inflow, http.drained, http.worker_rate) == (0.0, 0.0, 0.0)
    assert math.isinf(http.ceiling)  # too many hosts to read


def test_counters_that_fall_are_no_negative_rate() -> None:
    http, *_ = stage_loads(observed(worker("a")), FlowCounters(NOW - 10, 9_000, 9_000))
    assert (http.inflow, http.drained) == (0.0, 0.0)


def test_hosts_that_rest_or_are_paused_allow_nothing() -> None:
    hosts = [
        host("a", 0.5),
        host("b", 0.5, paused=True),
        host("c", 0.1, rest=NOW + 60),
        host("d", 0.1, queued=0),
    ]
    assert host_ceiling(hosts, NOW, latency=0.1) == 2.0
    assert math.isinf(host_ceiling([], NOW, latency=0.1))


def test_a_host_without_a_pace_allows_what_its_connections_can_do_once_that_is_known() -> None:
    assert math.isinf(host_ceiling([host("a", 0.0)], NOW, latency=0.0))
    assert host_ceiling([host("a", 0.0)], NOW, latency=0.5) == 8.0


@pytest.mark.parametrize(("rest", "out"), [(NOW + 60, True), (0.0, False)])
def test_exits_that_all_rest_are_named(rest: float, out: bool) -> None:
    http, *_ = stage_loads(observed(worker("a"), exits={"e": ExitRecord(rest_until=rest)}), None)
    assert http.exits_out is out


def test_what_one_worker_does_follows_from_those_that_fetch() -> None:
    workers = [worker("a", in_flight=30, rate=60.0), worker("b", in_flight=10, rate=20.0)]
    assert latency_of(workers) == 0.5
    assert rate_of_one(workers) == 128.0
    assert rate_of_one([]) == 0.0
    assert latency_of([]) == 0.0
