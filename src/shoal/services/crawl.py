"""Run a planned crawl to its end, on whichever kind of store its settings name."""

from collections.abc import Callable

from shoal.engine.plan import CrawlPlan, SeedList, Stop
from shoal.engine.snapshot import Ending, HostSnapshot, Opening, Snapshot, Summary
from shoal.services.inspect.status_json import patterns_json
from shoal.stores.address import is_redis

__all__ = [
    "CrawlPlan",
    "Ending",
    "HostSnapshot",
    "Opening",
    "SeedList",
    "Snapshot",
    "Stop",
    "Summary",
    "run_crawl",
    "summary_json",
]


async def run_crawl(
    plan: CrawlPlan,
    *,
    stop: Stop,
    opened: Callable[[Opening], None] | None = None,
    watch: Callable[[Snapshot], None] | None = None,
) -> Summary:
    """Run a crawl until it is finished or `stop` is set; the same call resumes it.

    Calls `opened` once, before the first request, and `watch` four times a second.
    """
    # Imported here, because the types above are also needed where nothing is run.
    if is_redis(plan.settings.store):
        from shoal.services.crawl_on_redis import crawl_on_fleet

        return await crawl_on_fleet(plan, stop=stop, opened=opened, watch=watch)
    from shoal.engine.embedded import crawl

    return await crawl(plan, stop=stop, opened=opened, watch=watch)


def summary_json(summary: Summary, *, code: int) -> dict[str, object]:
    """Return the summary for --json; times in seconds."""
    now = summary.snapshot
    return {
        "crawl": now.crawl,
        "ending": summary.ending.value,
        "exit_code": int(code),
        "resumed": summary.resumed,
        "elapsed_s": round(now.elapsed, 3),
        "pages": now.pages,
        "items": now.items,
        "rejected": now.rejected,
        "withheld": now.withheld,
        "hook_faults": now.hook_faults,
        "bytes": now.bytes,
        "pages_per_s": round(now.pages / now.elapsed, 2) if now.elapsed > 0 else 0.0,
        "counts": dict(now.counts),
        "failures": dict(now.failures),
        "filtered": dict(now.filtered),
        "dead_by_class": dict(summary.dead_by_class),
        "quarantined": patterns_json(summary.quarantined),
        "lookalikes": patterns_json(summary.lookalikes),
        "outputs": list(summary.outputs),
        "rejects": summary.rejects,
        "archive": summary.archive,
        "store": summary.store,
    }
