"""What is known of a store at one instant. Pure values."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shoal.engine.fetch_log.meter import FailingHost
from shoal.frontier.results import HostView
from shoal.model.alert import Alert
from shoal.services.inspect.status import StoreStatus
from shoal.stores.contract.monitoring import StoreRoom
from shoal.worker.figures import WorkerFigures, current_figures


@dataclass(frozen=True, slots=True)
class Observation:
    at: float  # epoch seconds
    status: StoreStatus
    figures: Mapping[str, WorkerFigures] = field(default_factory=dict)  # by worker
    room: StoreRoom | None = None
    hosts: Mapping[str, HostView] = field(default_factory=dict)  # those with trouble
    schedules: Sequence[Alert] = ()  # what is wrong with them

    @property
    def current(self) -> Sequence[WorkerFigures]:
        """The figures of the workers that still report."""
        return current_figures(self.figures, self.at)


def merged_trouble(figures: Sequence[WorkerFigures]) -> dict[str, FailingHost]:
    """Return the attempts at troubled hosts, over all workers."""
    merged: dict[str, FailingHost] = {}
    for one in figures:
        for host in one.trouble:
            known = merged.get(host.host)
            merged[host.host] = (
                host
                if known is None
                else host._replace(
                    attempts=host.attempts + known.attempts,
                    failures=host.failures + known.failures,
                    refused=host.refused + known.refused,
                )
            )
    return merged


def increase(now: Mapping[str, WorkerFigures], before: Mapping[str, WorkerFigures]) -> WorkerFigures:
    """Return what all workers have counted between two observations.

    A worker that was not there before has counted everything since; counters never decrease here, although a
    deleted crawl takes its counts with it.
    """
    tasks: Counter[str] = Counter()
    buckets: list[int] = []
    totals = dict.fromkeys(("pages", "items", "received", "internal"), 0)
    for name, figures in now.items():
        old = before.get(name, WorkerFigures(worker=name, at=0.0))
        for status, number in figures.tasks.items():
            tasks[status] += max(number - old.tasks.get(status, 0), 0)
        earlier = old.buckets or (0,) * len(figures.buckets)
        if len(earlier) == len(figures.buckets):
            more = [max(a - b, 0) for a, b in zip(figures.buckets, earlier, strict=True)]
            buckets = [a + b for a, b in zip(buckets, more, strict=True)] if buckets else more
        for total in totals:
            totals[total] += max(getattr(figures, total) - getattr(old, total), 0)
    return WorkerFigures(
        worker="",
        at=0.0,
        tasks=dict(tasks),
        buckets=tuple(buckets),
        pages=totals["pages"],
        items=totals["items"],
        received=totals["received"],
        internal=totals["internal"],
    )
