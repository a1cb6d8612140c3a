"""Metrics of a worker, for Prometheus.

The figures of the worker are counters that start with the process. Those of the whole fleet are read from
the store and are the same from every worker: take their `max`, not their sum.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from shoal.engine.fetch_log.meter import AttemptMeter, merged_meters
from shoal.engine.snapshot import WorkerStats
from shoal.model.alert import Alert, AlertKind
from shoal.model.errors import Misconfigured
from shoal.model.exits.health import EXIT_SEEN_S, ExitRecord, is_out
from shoal.model.exits.spending import Spending
from shoal.worker.figures import WorkerFigures

try:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
except ImportError as error:
    raise Misconfigured("metrics: run  pip install 'shoal[metrics]'  first") from error


from shoal.worker.fleet_metrics import fleet_metrics  # needs the same extra


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
    @property
    def spending(self) -> Spending | None: ...
    @property
    def dead_by_class(self) -> Mapping[str, int]: ...
    @property
    def retries(self) -> int: ...
    @property
    def crashes(self) -> int: ...
    @property
    def duplicates(self) -> int: ...
    @property
    def traps(self) -> int: ...
    @property
    def unserved_pools(self) -> Mapping[str, int]: ...


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
    @property
    def exits(self) -> Mapping[str, ExitRecord]: ...
    @property
    def alerts(self) -> Sequence[Alert]: ...
    @property
    def figures(self) -> Mapping[str, WorkerFigures]: ...
    @property
    def held(self) -> Mapping[str, int]: ...
    @property
    def used_ratio(self) -> float: ...


def exposition(own: WorkerStats, fleet: StoreView | None) -> bytes:
    """Return the metrics in Prometheus' text format; `fleet` is None if the store is unavailable."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected([*_own(own), *_of_fleet(fleet)]))
    return generate_latest(registry)


def store_exposition(fleet: StoreView) -> bytes:
    """Return what a store counts, over all its workers, in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected([*_of_fleet(fleet)]))
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
    yield from _attempts(own)


def _attempts(own: WorkerStats) -> Iterable[Metric]:
    """Yield what is counted per attempt: over all crawls, where a label by crawl would be too many series."""
    outcomes = CounterMetricFamily(
        "shoal_attempts", "Attempts that ended, by outcome.", labels=["crawl", "outcome"]
    )
    unlogged = CounterMetricFamily(
        "shoal_fetch_log_dropped", "Rows of the fetch log that could not be written.", labels=["crawl"]
    )
    meters = []
    for crawl, done in own.done.items():
        unlogged.add_metric([crawl], done.unlogged)
        if done.meter is not None:
            meters.append(done.meter)
            for outcome, number in sorted(done.meter.outcomes.items()):
                outcomes.add_metric([crawl, outcome], number)
    meter = merged_meters(meters) or AttemptMeter()
    tasks = CounterMetricFamily(
        "scraper_tasks_processed", "Attempts of this worker, by result.", labels=["status"]
    )
    for status, number in meter.tasks.items():
        tasks.add_metric([status], number)
    duration = HistogramMetricFamily(
        "scraper_fetch_duration_seconds",
        "Time of a request, without the wait for the turn of its host.",
        buckets=meter.duration.cumulative(),
        sum_value=meter.duration.sum,
    )
    phases = HistogramMetricFamily("shoal_phase_seconds", "Time of a phase of an attempt.", labels=["phase"])
    for name, histogram in meter.phases.items():
        phases.add_metric([name], buckets=histogram.cumulative(), sum_value=histogram.sum)
    hosts = GaugeMetricFamily("shoal_hosts", "Hosts of this worker, by state.", labels=["state"])
    hosts.add_metric(["active"], meter.hosts_active())
    hosts.add_metric(["resting"], meter.hosts_resting())
    hosts.add_metric(["slowed"], meter.hosts_slowed())
    by_host = CounterMetricFamily(
        "shoal_host_attempts", "Attempts at the hosts with most of them.", labels=["host"]
    )
    failing = CounterMetricFamily(
        "shoal_host_failures", "Failed attempts at the same hosts.", labels=["host"]
    )
    for figures in meter.top_hosts():
        by_host.add_metric([figures.host], figures.attempts)
        failing.add_metric([figures.host], figures.failures)
    in_flight = GaugeMetricFamily("shoal_in_flight", "What a stage works on here.", labels=["stage"])
    in_flight.add_metric(["fetch"], own.busy)
    in_flight.add_metric(["parse"], own.parsing)
    yield from (tasks, duration, outcomes, phases, hosts, by_host, failing, in_flight, unlogged)
    yield _gauge("scraper_domains_active", "Hosts that were asked in the last minute.", meter.hosts_active())
    yield _gauge("shoal_oldest_lease_seconds", "Age of the oldest request in progress.", own.oldest_lease_s)
    committing = "Time that the commit in progress has taken: the lag of the outputs of a folder."
    yield _gauge("shoal_committing_seconds", committing, own.committing_s)
    lost = CounterMetricFamily("shoal_lost_outcomes", "Outcomes that came after their lease had expired.")
    lost.add_metric([], meter.lost)
    yield lost


def _of_fleet(fleet: StoreView | None) -> Iterable[Metric]:
    yield _gauge("shoal_store_up", "Whether the store answers this worker.", fleet is not None)
    if fleet is None:
        return
    yield from _of_crawls(fleet.crawls)
    active = Counter(alert.kind for alert in fleet.alerts)
    alerts = GaugeMetricFamily("shoal_alerts", "Alerts that are active, by kind.", labels=["kind"])
    for kind in AlertKind:
        alerts.add_metric([kind.value], active[kind])
    yield alerts
    now = time.time()
    used = [record for record in fleet.exits.values() if now - record.seen_at < EXIT_SEEN_S]
    yield _gauge("shoal_exits", "Exits that processes of the store use.", len(used))
    yield _gauge("shoal_exits_resting", "Exits that rest.", sum(is_out(record, now) for record in used))
    yield _gauge("shoal_store_used_ratio", "Share of the store's memory or disk in use.", fleet.used_ratio)
    yield from fleet_metrics(fleet.figures, fleet.held, time.time())
    if fleet.fleet is None:
        return
    lag = GaugeMetricFamily("shoal_stage_lag", "What waits for a stage.", labels=["crawl", "stage"])
    for name, stages in fleet.fleet.stages.items():
        for stage, view in stages.items():
            lag.add_metric([name, stage], view.waiting)
    workers = GaugeMetricFamily("shoal_workers", "Running workers, by role.", labels=["role"])
    for role, count in Counter(role for worker in fleet.fleet.workers for role in worker.roles).items():
        workers.add_metric([role], count)
    yield from (lag, workers)


def _of_crawls(crawls: Sequence[CrawlView]) -> Iterable[Metric]:
    """Yield what the store counts of each crawl, over all its workers."""
    requests = GaugeMetricFamily(
        "shoal_requests", "Requests of a crawl, by state.", labels=["crawl", "state"]
    )
    paused = GaugeMetricFamily("shoal_paused", "Whether a crawl is paused.", labels=["crawl"])
    dead = GaugeMetricFamily("shoal_dead_letters", "Dead letters, by class.", labels=["crawl", "class"])
    events = GaugeMetricFamily(
        "shoal_events", "Retries, crashes and duplicate links, of all runs.", labels=["crawl", "event"]
    )
    traffic = GaugeMetricFamily(
        "shoal_exit_bytes", "Bytes on the wire through exits, of the whole crawl.", labels=["crawl", "kind"]
    )
    cost = GaugeMetricFamily("shoal_exit_cost", "What that traffic has cost.", labels=["crawl", "kind"])
    share = GaugeMetricFamily(
        "shoal_exit_budget_ratio", "Share of the budget for exits that is spent; 1 is all.", labels=["crawl"]
    )
    traps = GaugeMetricFamily("shoal_traps", "URL patterns that were closed as traps.", labels=["crawl"])
    unserved = GaugeMetricFamily(
        "shoal_unserved_requests", "Requests in pools that no worker serves.", labels=["crawl"]
    )
    depth = 0
    for crawl in crawls:
        if crawl.spending is not None:
            share.add_metric([crawl.name], crawl.spending.share)
            for kind, spent in crawl.spending.costs.items():
                cost.add_metric([crawl.name, kind], spent)
            for kind, size in crawl.spending.kinds.items():
                traffic.add_metric([crawl.name, kind], size)
        depth += crawl.counts.get("waiting", 0) + crawl.counts.get("delayed", 0)
        paused.add_metric([crawl.name], crawl.paused)
        traps.add_metric([crawl.name], crawl.traps)
        unserved.add_metric([crawl.name], sum(crawl.unserved_pools.values()))
        for state, count in crawl.counts.items():
            requests.add_metric([crawl.name, state], count)
        for kind, count in crawl.dead_by_class.items():
            dead.add_metric([crawl.name, kind], count)
        for event in ("retries", "crashes", "duplicates"):
            events.add_metric([crawl.name, event], getattr(crawl, event))
    yield _gauge("scraper_queue_depth", "Requests that wait, over all crawls of the store.", depth)
    yield from (requests, paused, dead, events, traffic, cost, share, traps, unserved)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


class _Collected:
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics
