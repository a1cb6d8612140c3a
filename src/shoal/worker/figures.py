"""What each process of a store publishes of itself every few seconds, for alerts and metrics."""

from collections.abc import Mapping, Sequence

import msgspec

from shoal.engine.fetch_log.meter import AttemptMeter, FailingHost, merged_meters
from shoal.engine.snapshot import WorkerStats
from shoal.model.quarantine import Count, Seconds
from shoal.stores.contract.monitoring import FIGURES

FIGURES_S = 30.0  # after which the figures of a worker are not used any more


class WorkerFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one process reports, a few hundred bytes; counters start with the process."""

    worker: str
    at: Seconds  # since the epoch
    tasks: dict[str, Count] = {}  # attempts that ended: success, error, rate_limited
    buckets: tuple[Count, ...] = ()  # attempts by duration, the bounds are `meter.BUCKETS_S`
    seconds: Seconds = 0.0  # of all these attempts together
    pages: Count = 0
    items: Count = 0
    received: Count = 0  # bytes
    internal: Count = 0  # failures that are bugs of Shoal
    slots: Count = 0
    busy: Count = 0
    parsing: Count = 0
    written: dict[str, Count] = {}  # items in the outputs that this process writes, by crawl
    committing_s: Seconds = 0.0  # for which a commit has been in progress
    oldest_lease_s: Seconds = 0.0
    hosts_active: Count = 0
    hosts_resting: Count = 0
    hosts_slowed: Count = 0
    trouble: tuple[FailingHost, ...] = ()  # the hosts with most failures in the window


def figures_of(worker: str, stats: WorkerStats, at: float, *, window_s: float) -> WorkerFigures:
    """Return what a process reports of itself."""
    meters = [done.meter for done in stats.done.values() if done.meter is not None]
    for one in meters:
        one.window_s = window_s
    meter = merged_meters(meters) or AttemptMeter()
    done = stats.done.values()
    return WorkerFigures(
        worker=worker,
        at=at,
        tasks=dict(meter.tasks),
        buckets=tuple(meter.duration.counts),
        seconds=meter.duration.sum,
        pages=sum(one.pages + one.handed_on for one in done),
        items=sum(one.items for one in done),
        received=sum(one.bytes for one in done),
        internal=sum(one.failures.get("internal", 0) for one in done),
        slots=stats.slots,
        busy=stats.busy,
        parsing=stats.parsing,
        written=dict(stats.written),
        committing_s=stats.committing_s,
        oldest_lease_s=stats.oldest_lease_s,
        hosts_active=meter.hosts_active(),
        hosts_resting=meter.hosts_resting(),
        hosts_slowed=meter.hosts_slowed(),
        trouble=tuple(meter.troubled_hosts()),
    )


def current_figures(figures: Mapping[str, WorkerFigures], now: float) -> Sequence[WorkerFigures]:
    """Return the figures of the workers that still report; those of a clock that is far off are not used."""
    return [one for one in figures.values() if abs(now - one.at) < FIGURES_S]


def read_figures(records: Mapping[str, bytes]) -> dict[str, WorkerFigures]:
    """Return the figures among stored records; those that this version cannot read, or that no
    process can have counted, are left out.
    """
    found = {}
    for key, packed in records.items():
        if key.startswith(FIGURES):
            try:
                figures = msgspec.msgpack.decode(packed, type=WorkerFigures)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            found[key.removeprefix(FIGURES)] = figures
    return found
