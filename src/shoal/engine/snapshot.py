"""What a crawl and a worker report of themselves: while they run, and at the end."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from shoal.engine.fetch_log.meter import AttemptMeter, merged_meters
from shoal.model.crawl_totals import ClosedPattern
from shoal.model.yields.counts import YieldDrop


class Ending(StrEnum):
    FINISHED = "finished"  # nothing left to do
    INTERRUPTED = "interrupted"  # stopped by a signal; the same command resumes it
    LIMITED = "limited"  # --max-pages reached; more requests are waiting
    COMPLETE = "complete"  # there was nothing to do
    OVER_BUDGET = "over_budget"  # the budget for exits is spent; more requests are waiting
    NO_EXIT = "no_exit"  # no exit works; more requests are waiting


RESUMED = frozenset({Ending.INTERRUPTED, Ending.NO_EXIT})  # the next run continues the outputs of this one


@dataclass(frozen=True, slots=True)
class HostSnapshot:
    """One host, as far as it slows the crawl down."""

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
    """A crawl at one instant. Making one is O(hosts) at worst, and happens at most four times per second."""

    crawl: str
    elapsed: float  # seconds of this run
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
    eta: float | None = None  # seconds; None: unknown
    eta_reason: str = ""  # what bounds it: "politeness of shop.example" or "this machine"
    rejected: int = 0  # items that did not fit their model, this run
    withheld: int = 0  # items of pages whose canonical address is another one, this run
    partial: int = 0  # pages of which a part could not be read, this run
    hook_faults: int = 0  # `on_error` hooks that raised or hung, this run
    discarded: Mapping[str, int] = field(default_factory=dict)  # items dropped by item hooks, by reason
    lenient: int = 0  # responses that broke the rules of HTTP and were read all the same, this run
    unchanged: int = 0  # pages whose items and links are those of the last generation, this run
    duplicates: int = 0  # links that were already known, this run
    retries: int = 0  # attempts that were followed by another one, this run
    last_error: str = ""  # class, URL and reason of the last failed attempt of this run
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Opening:
    """The start of a run: what the crawl had, and where its files are."""

    crawl: str
    resumed: bool
    counts: Mapping[str, int]  # requests by state
    outputs: Sequence[str]
    archive: str
    store: str
    sandbox_warning: str = ""  # what the spider is not kept from; empty: the sandbox is complete
    exits: str = ""  # how many exits there are and how the list is used; empty: requests leave directly
    host_process: str = ""  # the process that owns the store and takes this one as a guest


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of a run."""

    ending: Ending
    snapshot: Snapshot
    resumed: bool
    outputs: Sequence[str] = ()
    no_exit: str = ""  # why it waits no longer for an exit that works
    rejects: str = ""  # where the rejected items of all runs are; empty: nothing was rejected
    archive: str = ""
    store: str = ""
    dead_by_class: Mapping[str, int] = field(default_factory=dict)
    max_dead_exceeded: bool = False
    large: Mapping[str, ClosedPattern] = field(default_factory=dict)  # by pattern, of all runs
    closed: Mapping[str, ClosedPattern] = field(default_factory=dict)  # by shape, of all runs
    kept: Sequence[str] = ()  # outputs of the last generation that this one has not replaced: it has failed
    new_data: Sequence[str] = ()  # where its items are instead, beside these
    dropped: Sequence[YieldDrop] = ()  # what it yielded out of the range of the generations before
    no_data: str = ""  # why it has no item, in one sentence; empty: it has, or needs none
    durable: bool = True  # the store outlives the run
    sandbox_warning: str = ""


@dataclass(frozen=True, slots=True)
class WorkStats:
    """What a worker has done for one crawl."""

    pages: int = 0
    items: int = 0
    bytes: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)  # attempts, by class
    handed_on: int = 0  # pages fetched here and parsed by another worker, which counts them
    lost_turns: int = 0  # turns of hosts that came too late from the store
    meter: AttemptMeter | None = None
    unlogged: int = 0  # rows of the fetch log that could not be written

    def __add__(self, other: "WorkStats") -> "WorkStats":
        return WorkStats(
            self.pages + other.pages,
            self.items + other.items,
            self.bytes + other.bytes,
            Counter(self.failures) + Counter(other.failures),
            self.handed_on + other.handed_on,
            self.lost_turns + other.lost_turns,
            merged_meters([one for one in (self.meter, other.meter) if one is not None]),
            self.unlogged + other.unlogged,
        )


@dataclass(frozen=True, slots=True)
class WorkerStats:
    slots: int  # 0: this worker does not fetch
    busy: int
    draining: bool
    done: Mapping[str, WorkStats]  # by crawl
    parsing: int = 0  # pages in the parse processes
    written: Mapping[str, int] = field(default_factory=dict)  # items in outputs of a fleet, by crawl
    committing_s: float = 0.0  # for which a commit has been in progress
    oldest_lease_s: float = 0.0  # age of the oldest lease without an outcome
