"""Observations for tests."""

from typing import Any

from shoal.engine.fetch_log.meter import BUCKETS_S, FailingHost
from shoal.frontier.results import STATES, HostView
from shoal.services.alerts.observation import Observation
from shoal.services.inspect.status import CrawlStatus, FleetStatus, Stage, StoreStatus
from shoal.stores.contract.heartbeat import Heartbeat
from shoal.worker.figures import WorkerFigures

NOW = 1_800_000_000.0
FILE = "/data/items.jsonl"


def crawl(name: str = "shop", *, counts: dict[str, int] | None = None, **more: Any) -> CrawlStatus:
    states = {**dict.fromkeys(STATES, 0), **(counts or {})}
    return CrawlStatus(name, sum(states.values()), states, more.pop("dead_by_class", {}), {}, **more)


def beat(
    worker: str = "w1", *, roles: tuple[str, ...] = ("fetch", "parse", "sink"), **more: Any
) -> Heartbeat:
    return Heartbeat(
        worker=worker,
        host="m",
        pid=1,
        roles=roles,
        shoal="0",
        started_at=0,
        beaten_at=NOW,
        doing="idle",
        **more,
    )


def fleet(*workers: Heartbeat, fetch: int = 0, parse: int = 0, sink: int = 0) -> FleetStatus:
    stages = {"shop": {"fetch": Stage(fetch), "parse": Stage(parse), "sink": Stage(sink)}}
    return FleetStatus(workers, stages, {"shop": [FILE]})


def figures(worker: str = "w1", *, at: float = NOW, slow: int = 0, **more: Any) -> WorkerFigures:
    """`slow`: how many of the successful requests took six seconds."""
    tasks = more.get("tasks", {})
    buckets = [0] * (len(BUCKETS_S) + 1)
    buckets[3], buckets[BUCKETS_S.index(10.0)] = max(sum(tasks.values()) - slow, 0), slow
    return WorkerFigures(worker=worker, at=at, buckets=tuple(buckets), **more)


def trouble(host: str, attempts: int, failures: int, **more: Any) -> FailingHost:
    usual: dict[str, Any] = {"refused": 0, "why": "target_error", "status": 503, "interval": 0.5}
    return FailingHost(host, attempts, failures, **{**usual, **more})


def host(name: str, **more: Any) -> HostView:
    usual: dict[str, Any] = {
        "waiting": 1,
        "inflight": 0,
        "interval": 2.0,
        "burst": 1,
        "concurrency": 4,
        "next_turn": 0.0,
        "crawl_delay": 0.0,
        "rest_until": 0.0,
        "slow": 1.0,
        "paused": False,
        "failures": 0,
    }
    return HostView(host=name, **{**usual, **more})


def seen(
    *crawls: CrawlStatus,
    at: float = NOW,
    fleet: FleetStatus | None = None,
    figures: tuple[WorkerFigures, ...] = (),
    **more: Any,
) -> Observation:
    status = StoreStatus("store", "process 7", crawls, fleet, exits=more.pop("exits", {}))
    return Observation(at, status, {one.worker: one for one in figures}, **more)
