"""Metrics of a worker, for Prometheus.

The figures of the worker are counters that start with the process. Those of the whole fleet are read from
the store and are the same from every worker: take their `max`, not their sum.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from shoal.engine.snapshot import WorkerStats
from shoal.model.errors import Misconfigured

try:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
except ImportError as error:
    raise Misconfigured("--metrics: run  pip install 'shoal[metrics]'  first") from error


class StageView(Protocol):
    @property
    def waiting(self) -> int: ...


class CrawlView(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def paused(self) -> bool: ...
    @property
    def counts(self) -> Mapping[str, int]: ...


class WorkerView(Protocol):
    @property
    def roles(self) -> Sequence[str]: ...


class FleetView(Protocol):
    @property
    def workers(self) -> Sequence[WorkerView]: ...
    @property
    def stages(self) -> Mapping[str, Mapping[str, StageView]]: ...


class StoreView(Protocol):
    """The part of a store's status that becomes metrics."""

    @property
    def crawls(self) -> Sequence[CrawlView]: ...
    @property
    def fleet(self) -> FleetView | None: ...


def exposition(own: WorkerStats, fleet: StoreView | None) -> bytes:
    """Return the metrics in Prometheus' text format; `fleet` is None if the store is unavailable."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected([*_own(own), *_of_fleet(fleet)]))
    return generate_latest(registry)


def _own(own: WorkerStats) -> Iterable[Metric]:
    if own.slots:  # an average over workers must not count those that do not fetch
        yield _gauge("shoal_worker_slots", "Requests that this worker may have in flight.", own.slots)
        yield _gauge("shoal_worker_busy", "Requests that this worker has in flight.", own.busy)
        yield _gauge("shoal_worker_busy_ratio", "Share of this worker's slots in use.", own.busy / own.slots)
    pages = CounterMetricFamily("shoal_pages", "Pages that this worker has finished.", labels=["crawl"])
    handed_on = CounterMetricFamily(
        "shoal_pages_handed_on", "Pages fetched by this worker for others to parse.", labels=["crawl"]
    )
    lost_turns = CounterMetricFamily(
        "shoal_lost_turns", "Turns of hosts that came too late from the store.", labels=["crawl"]
    )
    items = CounterMetricFamily("shoal_items", "Items extracted by this worker.", labels=["crawl"])
    received = CounterMetricFamily("shoal_bytes", "Bytes of bodies received, as sent.", labels=["crawl"])
    failures = CounterMetricFamily(
        "shoal_failures", "Attempts that failed, by class.", labels=["crawl", "class"]
    )
    for crawl, done in own.done.items():
        pages.add_metric([crawl], done.pages)
        handed_on.add_metric([crawl], done.handed_on)
        lost_turns.add_metric([crawl], done.lost_turns)
        items.add_metric([crawl], done.items)
        received.add_metric([crawl], done.bytes)
        # Always present: a counter that first appears with its first failure never shows the increase.
        for kind, count in {"internal": 0, **done.failures}.items():
            failures.add_metric([crawl, kind], count)
    yield from (pages, handed_on, lost_turns, items, received, failures)


def _of_fleet(fleet: StoreView | None) -> Iterable[Metric]:
    yield _gauge("shoal_store_up", "Whether the store answers this worker.", fleet is not None)
    if fleet is None or fleet.fleet is None:
        return
    requests = GaugeMetricFamily(
        "shoal_requests", "Requests of a crawl, by state.", labels=["crawl", "state"]
    )
    paused = GaugeMetricFamily("shoal_paused", "Whether a crawl is paused.", labels=["crawl"])
    for crawl in fleet.crawls:
        paused.add_metric([crawl.name], crawl.paused)
        for state, count in crawl.counts.items():
            requests.add_metric([crawl.name, state], count)
    lag = GaugeMetricFamily("shoal_stage_lag", "What waits for a stage.", labels=["crawl", "stage"])
    for name, stages in fleet.fleet.stages.items():
        for stage, view in stages.items():
            lag.add_metric([name, stage], view.waiting)
    workers = GaugeMetricFamily("shoal_workers", "Running workers, by role.", labels=["role"])
    for role, count in Counter(role for worker in fleet.fleet.workers for role in worker.roles).items():
        workers.add_metric([role], count)
    yield from (requests, paused, lag, workers)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


class _Collected:
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics
