"""What a worker is doing, in a word, and if that is waiting, for what."""

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.stores.contract.heartbeat import OutputActivity

PACE = "for the hosts' pace"
RETRIES = "for retries that are due later"
OTHERS = "for what others have in hand"
LATER_STAGES = "for the stages after fetching, which are behind"
PAUSED = "for a crawl that is paused"
PAGES = "for pages to parse"
ITEMS = "for items to write"
OUTPUT = "for an output that it cannot write"


@dataclass(frozen=True, slots=True)
class CrawlWork:
    """One crawl that a worker runs the loop of."""

    in_hand: int  # requests that are out, and pages that are being parsed
    rate: float  # pages a second, lately
    fetches: bool
    waiting: int = 1  # requests of the whole fleet: that could go
    delayed: int = 0  # and later
    crowded: bool = False
    paused: bool = False


def doing(
    crawls: Sequence[CrawlWork], outputs: Sequence[OutputActivity], *, draining: bool
) -> tuple[str, str]:
    """Say what a worker does and, if it waits, for what."""
    if draining:
        return "draining", ""
    if any(crawl.in_hand or crawl.rate > 0 for crawl in crawls):
        return "working", ""
    if any(output.doing == "writing" for output in outputs):
        return "writing", ""
    if crawls:
        reasons = [_reason(crawl) for crawl in crawls]
        # Of several crawls, the one whose turn comes by itself.
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
    if crawl.crowded:
        return LATER_STAGES
    if crawl.waiting:
        return PACE
    return RETRIES if crawl.delayed else OTHERS
