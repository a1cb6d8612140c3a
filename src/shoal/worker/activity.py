"""What a worker is doing, in one word, and what it waits for."""

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.stores.contract.heartbeat import OutputActivity

PACE = "for the hosts' pace"
RETRIES = "for retries that are due later"
OTHERS = "for requests in progress at other workers"
OTHER_POOLS = "for workers that serve other pools"
LATER_STAGES = "for the stages after fetching, which are behind"
EXITS = "for exits, which all rest"
PAUSED = "for a crawl that is paused"
PAGES = "for pages to parse"
ITEMS = "for items to write"
OUTPUT = "for an output that it cannot write"


@dataclass(frozen=True, slots=True)
class CrawlWork:
    """One crawl whose loop runs at a worker."""

    in_progress: int  # requests in flight, and pages that are being parsed
    rate: float  # pages per second over the last seconds
    fetches: bool
    waiting: int = 1  # requests of the whole fleet that could be sent
    delayed: int = 0  # and later
    later_stages_full: bool = False
    paused: bool = False
    exits_rest: bool = False  # all of them: nothing can be sent
    only_other_pools: bool = False  # no waiting request is in a pool of this worker


def describe_activity(
    crawls: Sequence[CrawlWork], outputs: Sequence[OutputActivity], *, draining: bool
) -> tuple[str, str]:
    """Return what a worker does and, if it waits, for what."""
    if draining:
        return "draining", ""
    if any(crawl.in_progress or crawl.rate > 0 for crawl in crawls):
        return "working", ""
    if any(output.doing == "writing" for output in outputs):
        return "writing", ""
    if crawls:
        reasons = [_reason(crawl) for crawl in crawls]
        # Of several crawls, the one that resumes by itself.
        return "waiting", PACE if PACE in reasons else reasons[0]
    if any(output.doing in ("failing", "refused") for output in outputs):
        return "waiting", OUTPUT
    if any(output.doing == "waiting" for output in outputs):
        return "waiting", ITEMS
    return "idle", ""


def _reason(crawl: CrawlWork) -> str:
    if crawl.paused:
        return PAUSED
    if not crawl.fetches:
        return PAGES
    if crawl.later_stages_full:
        return LATER_STAGES
    if crawl.exits_rest:
        return EXITS
    if crawl.only_other_pools:
        return OTHER_POOLS
    if crawl.waiting:
        return PACE
    return RETRIES if crawl.delayed else OTHERS
