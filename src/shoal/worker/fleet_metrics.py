"""Metrics of all processes of a store together, from the figures that each of them publishes.

A process that ends takes its part along, so these are gauges. Hosts are those with most failures only.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric

from shoal.engine.fetch_log.meter import ERROR, RATE_LIMITED, SUCCESS, TOP_HOSTS, Histogram
from shoal.worker.figures import WorkerFigures, current_figures


def fleet_metrics(
    figures: Mapping[str, WorkerFigures], held: Mapping[str, int], now: float
) -> Iterable[Metric]:
    """Yield the sums over all processes that still publish."""
    current = current_figures(figures, now)
    yield from _attempts(current)
    slots, busy = sum(one.slots for one in current), sum(one.busy for one in current)
    oldest = max((one.oldest_lease_s for one in current), default=0.0)
    for name, text, value in (
        ("shoal_fleet_slots", "Requests that may be in flight.", slots),
        ("shoal_fleet_busy", "Requests in flight.", busy),
        ("shoal_fleet_processes", "Processes that publish figures.", len(current)),
        ("shoal_fleet_oldest_lease_seconds", "Age of the oldest request in progress.", oldest),
    ):
        yield GaugeMetricFamily(name, text, value=float(value))
    by_state = GaugeMetricFamily("shoal_hosts_held", "Hosts not fetched at their pace.", labels=["state"])
    for state in ("paused", "resting", "slowed"):
        by_state.add_metric([state], held.get(state, 0))
    yield by_state
    yield from _failing_hosts(current)


def _attempts(figures: Sequence[WorkerFigures]) -> Iterable[Metric]:
    tasks: Counter[str] = Counter()
    duration = Histogram()
    for one in figures:
        tasks.update(one.tasks)
        if len(one.buckets) == len(duration.counts):
            duration.counts = [a + b for a, b in zip(duration.counts, one.buckets, strict=True)]
            duration.sum += one.seconds
    by_status = GaugeMetricFamily(
        "shoal_fleet_attempts", "Attempts of the running processes, by result.", labels=["status"]
    )
    for status in (SUCCESS, ERROR, RATE_LIMITED):
        by_status.add_metric([status], tasks[status])
    yield by_status
    yield HistogramMetricFamily(
        "shoal_fleet_fetch_duration_seconds",
        "Time of requests of the running processes.",
        buckets=duration.cumulative(),
        sum_value=duration.sum,
    )


def _failing_hosts(figures: Sequence[WorkerFigures]) -> Iterable[Metric]:
    attempts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for one in figures:
        for host in one.trouble:
            attempts[host.host] += host.attempts
            failures[host.host] += host.failures
    failed = GaugeMetricFamily(
        "shoal_failing_host_failures", "Recent failures at the hosts with most of them.", labels=["host"]
    )
    tried = GaugeMetricFamily(
        "shoal_failing_host_attempts", "Recent attempts at the same hosts.", labels=["host"]
    )
    for name, number in failures.most_common(TOP_HOSTS):
        failed.add_metric([name], number)
        tried.add_metric([name], attempts[name])
    yield from (failed, tried)
