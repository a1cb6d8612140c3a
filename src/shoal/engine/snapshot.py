"""What can be seen of a crawl while it runs, and what is left to say when it ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from shoal.model.crawl_totals import ClosedPattern


class Ending(StrEnum):
    FINISHED = "finished"  # nothing left to do
    INTERRUPTED = "interrupted"  # stopped by a signal; the same command goes on
    LIMITED = "limited"  # --max-pages reached; more is waiting


@dataclass(frozen=True, slots=True)
class HostSnapshot:
    """One host, as far as it holds the crawl up."""

    host: str
    waiting: int
    in_flight: int
    interval: float  # seconds between requests, all slow-downs included
    slow: float  # 1.0: not slowed down
    next_turn: float  # seconds from now; 0: due
    failures: int
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A crawl at one instant. Everything here is O(hosts) to make at worst, and made once a second."""

    crawl: str
    elapsed: float  # seconds this run has taken
    pages: int  # done in this run
    items: int
    bytes: int  # received in this run
    rate: float  # pages per second over the last seconds
    counts: Mapping[str, int]  # requests by state, over all runs of this crawl
    failures: Mapping[str, int]  # failed attempts by class, this run
    filtered: Mapping[str, int]  # requests and links filtered, by rule
    in_flight: int
    parse_backlog: int
    slowest: Sequence[HostSnapshot] = ()
    failing: Sequence[HostSnapshot] = ()
    eta: float | None = None  # seconds; None: cannot be said yet
    eta_reason: str = ""  # what bounds it: "politeness of shop.example" or "this machine"
    rejected: int = 0  # items that did not fit their model, this run
    withheld: int = 0  # items of pages that call another address their own, this run
    hook_faults: int = 0  # `on_error` hooks that raised or hung, this run
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Opening:
    """The start of a run: what was found, and where things will be."""

    crawl: str
    resumed: bool
    counts: Mapping[str, int]  # requests by state
    outputs: Sequence[str]
    archive: str
    store: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of a run."""

    ending: Ending
    snapshot: Snapshot
    resumed: bool
    outputs: Sequence[str] = ()
    rejects: str = ""  # where the rejected items of all runs are; empty: there are none
    archive: str = ""
    store: str = ""
    dead_by_class: Mapping[str, int] = field(default_factory=dict)
    max_dead_exceeded: bool = False
    quarantined: Mapping[str, ClosedPattern] = field(default_factory=dict)  # by pattern, of all runs
    lookalikes: Mapping[str, ClosedPattern] = field(default_factory=dict)
