"""The state of a store as JSON: what `shoal status --json` and `shoal top --json` print."""

from collections.abc import Mapping

from shoal.model.alert import alert_json
from shoal.model.crawl_totals import ClosedPattern
from shoal.model.exits.refusal import HostExits
from shoal.model.exits.spending import Spending
from shoal.model.quarantine import QuarantinedEntry
from shoal.services.control.levels import levels_json
from shoal.services.inspect.bottlenecks import Bottleneck, find_bottlenecks
from shoal.services.inspect.monitor import HostQueue, Overview
from shoal.services.inspect.status import CrawlStatus, FleetStatus, StoreStatus


def status_json(status: StoreStatus, now: float) -> dict[str, object]:
    return {
        "store": status.store,
        "running": status.owner is not None or bool(status.fleet and status.fleet.workers),
        "crawls": [crawl_json(crawl, status.fleet) for crawl in status.crawls],
        "hosts_refusing": [{"host": host, **change_json(one)} for host, one in status.refusing.items()],
        "levels": levels_json(status.levels),
        "browser_pages": {crawl: spent.pages for crawl, spent in status.browser_pages.items()},
        "unreadable": [*map(entry_json, status.unreadable)],
        "alerts": [*map(alert_json, status.alerts)],
        **(
            {
                "bottlenecks": [*map(bottleneck_json, find_bottlenecks(status, now))],
                "workers": workers_json(status.fleet),
            }
            if status.fleet
            else {}
        ),
    }


def crawl_json(crawl: CrawlStatus, fleet: FleetStatus | None) -> dict[str, object]:
    return {
        "crawl": crawl.name,
        "arguments": dict(crawl.arguments),
        "accepted": crawl.accepted,
        "lost": crawl.lost,
        "counts": dict(crawl.counts),
        "dead_by_class": dict(crawl.dead_by_class),
        "filtered_by_rule": dict(crawl.filtered_by_rule),
        "links_filtered_by_rule": dict(crawl.links_filtered_by_rule),
        "rejected": crawl.rejected,
        "withheld": crawl.withheld,
        "partial": crawl.partial,
        "hook_faults": crawl.hook_faults,
        "duplicates": crawl.duplicates,
        "retries": crawl.retries,
        "dropped_items": dict(crawl.discarded),
        "large_patterns": patterns_json(crawl.large),
        "closed_patterns": patterns_json(crawl.closed),
        "paused": crawl.paused,
        "stopped": crawl.stopped,
        "spending": None if crawl.spending is None else spending_json(crawl.spending),
        "mistaken_links": crawl.mistaken,
        "unreadable": [*map(entry_json, crawl.unreadable)],
        **(
            {
                "stages": stages_json(fleet, crawl.name),
                "outputs": list(fleet.outputs.get(crawl.name, ())),
            }
            if fleet
            else {}
        ),
    }


def change_json(change: HostExits) -> dict[str, object]:
    """Return how the exits of a host that refuses addresses are chosen."""
    return {
        "rotation": change.rotation,
        "exit_kind": change.kind or None,
        "since": change.since,
        "until": change.until,
        "refused": change.refused,
        "responses": change.responses,
    }


def spending_json(spending: Spending) -> dict[str, object]:
    return {
        "bytes": spending.bytes,
        "cost": round(spending.cost, 6),
        "budget_share": spending.share,
        "by_kind": spending.kinds,
        "cost_by_kind": {kind: round(cost, 6) for kind, cost in spending.costs.items()},
        "by_exit": spending.exits,
        "by_host": spending.hosts,
        "other_hosts": spending.other_hosts,
    }


def overview_json(overview: Overview) -> dict[str, object]:
    """Return what `shoal status --json` prints, with rates and hosts."""
    return {
        **status_json(overview.status, overview.at),
        "at": overview.at,
        "requests_per_s": None if overview.rate is None else round(overview.rate, 2),
        "hosts": [*map(queue_json, overview.hosts)],
        "hosts_held": dict(overview.held),
    }


def queue_json(host: HostQueue) -> dict[str, object]:
    return {
        "host": host.host,
        "waiting": host.queued,
        "interval_s": host.interval,
        "concurrency": host.concurrency,
        "paused": host.paused,
        "rest_until": host.rest_until or None,
        "crawl_delay_s": host.crawl_delay,
        "slow": host.slow,
    }


def stages_json(fleet: FleetStatus, crawl: str) -> dict[str, object]:
    """Return what waits before each stage of a crawl."""
    stages = fleet.stages[crawl]
    return {name: {"waiting": stage.waiting, "in_hand": stage.in_hand} for name, stage in stages.items()}


def workers_json(fleet: FleetStatus) -> list[dict[str, object]]:
    return [
        {
            "worker": worker.worker,
            "host": worker.host,
            "pid": worker.pid,
            "roles": list(worker.roles),
            "shoal": worker.shoal,
            "doing": worker.doing,
            "why": worker.why,
            "sandbox": worker.sandbox,
            "started_at": worker.started_at,
            "beaten_at": worker.beaten_at,
            "crawls": [
                {
                    "crawl": at.crawl,
                    "version": at.version,
                    "in_flight": at.in_flight,
                    "parsing": at.parsing,
                    "pages": at.pages,
                    "pages_per_s": round(at.rate, 2),
                    "lost_turns": at.lost_turns,
                    "store_delay_ms": round(at.store_delay * 1000, 1),
                }
                for at in worker.crawls
            ],
            "outputs": [
                {
                    "crawl": at.crawl,
                    "output": at.output,
                    "doing": at.doing,
                    "why": at.why,
                    "items": at.items,
                }
                for at in worker.outputs
            ],
            "refused": worker.refused,
        }
        for worker in fleet.workers
    ]


def bottleneck_json(found: Bottleneck) -> dict[str, str]:
    return {"kind": found.kind, "about": found.about, "text": found.text, "stage": found.stage}


def entry_json(entry: QuarantinedEntry) -> dict[str, object]:
    """Return an entry that could not be read, without its bytes."""
    return {
        "place": entry.place,
        "entry": entry.entry_id,
        "reason": entry.reason,
        "bytes": entry.body_bytes,
        "at": entry.at,
    }


def patterns_json(closed: Mapping[str, ClosedPattern]) -> list[dict[str, object]]:
    return [
        {"pattern": pattern, "more_than": why.more_than, "example": why.example}
        for pattern, why in closed.items()
    ]
