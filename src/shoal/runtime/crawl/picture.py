"""What people are told of a crawl when it begins and when it ends, and of its hosts meanwhile."""

from shoal.frontier import answers
from shoal.runtime.crawl.stations import Stations
from shoal.runtime.snapshot import Ending, HostView, Opening, Snapshot, Summary


async def opening_of(stations: Stations) -> Opening:
    """Say what a crawl starts from."""
    counts = await stations.frontier.counts(stations.crawl)
    return Opening(
        crawl=stations.crawl,
        resumed=stations.resumed,
        counts=counts.by_state(),
        outputs=stations.outputs,
        archive=str(stations.archive),
        store=stations.store,
    )


async def summary_of(stations: Stations, ending: Ending, snapshot: Snapshot) -> Summary:
    """Say what has become of a crawl."""
    counts = await stations.frontier.counts(stations.crawl)
    limit = stations.settings.crawl.max_dead
    return Summary(
        ending=ending,
        snapshot=snapshot,
        resumed=stations.resumed,
        outputs=stations.outputs,
        rejects=str(stations.rejects) if stations.totals.rejected else "",
        archive=str(stations.archive),
        store=stations.store,
        dead_by_class=dict(counts.dead_by_class),
        max_dead_exceeded=limit is not None and counts.dead > limit,
        quarantined=stations.totals.quarantined,
        lookalikes=stations.totals.lookalikes,
    )


def view_of(host: answers.HostView, now: float) -> HostView:
    """Say of a host what a person watching wants to know."""
    return HostView(
        host=host.host,
        waiting=host.waiting,
        in_flight=host.inflight,
        interval=host.interval,
        slow=host.slow,
        next_turn=max(host.next_turn - now, 0.0),
        failures=host.failures,
        paused=host.paused,
    )
