"""Schedules as a store keeps them: what to run and when, and what has become of each tick.

A store keeps two records per schedule, each replaced as a whole: the schedule, which commands write, and its
state, which schedulers write. `swap` replaces a record only if it is still the one that was read, so any
number of schedulers decide about a tick once.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

import msgspec

from shoal.model.configuration.crawl_definition import CrawlDefinition


class Overlap(StrEnum):
    """What happens to a tick while the crawl of an earlier one still runs."""

    SKIP = "skip"
    QUEUE = "queue"  # it starts when the earlier one has finished; one tick waits at most
    REPLACE = "replace"  # the earlier one is deleted; its outputs stay


class Missed(StrEnum):
    """What happens to ticks that no scheduler was there for."""

    ONE = "one"  # the latest runs, the others are skipped
    ALL = "all"
    SKIP = "skip"


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    folder: str  # where the command that added it ran: relative paths start there
    crawl: CrawlDefinition = CrawlDefinition()
    arguments: tuple[str, ...] = ()  # of an earlier version, instead of `crawl`; never run as they are
    cron: str = ""
    every_s: float = 0.0
    timezone: str = "UTC"
    jitter_s: float = 0.0
    overlap: Overlap = Overlap.SKIP
    missed: Missed = Missed.ONE
    created_at: float = 0.0
    paused: bool = False
    again: bool = False  # a tick begins a new generation of one crawl, and not another crawl
    adaptive: bool = False  # with `again`: only pages that are due are asked for
    budget: float = 0.0  # with `adaptive`: requests per day for known pages; 0: all that are due
    keep: int = 0  # finished runs that stay; older ones are removed with their files; 0: all stay
    resumed_at: float = 0.0  # when its last pause ended


class RunState(StrEnum):
    STARTING = "starting"  # a scheduler has claimed it and starts its crawl
    RUNNING = "running"  # its crawl is in the store
    QUEUED = "queued"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    REPLACED = "replaced"


OPEN = frozenset({RunState.STARTING, RunState.RUNNING})


class ScheduledRun(msgspec.Struct, frozen=True, kw_only=True):
    """One tick, and what has become of it."""

    tick: float  # epoch seconds, without jitter
    state: RunState
    crawl: str = ""
    why: str = ""  # it failed or was skipped; of one that is starting: why the last try to start it failed
    holder: str = ""  # the scheduler that has claimed it
    claimed_until: float = 0.0
    at: float = 0.0  # when it failed, was missed, or did not start for the first time; 0: it has not
    removed: bool = False  # its files, and the crawl if that is only its own


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True):
    cursor: float  # every tick up to this one is decided
    runs: tuple[ScheduledRun, ...] = ()  # those that are open or queued, and the latest of the others


class StoredSchedules(Protocol):
    """The records of schedules: `s/NAME` is the schedule, `t/NAME` its state."""

    async def all(self) -> Mapping[str, bytes]:
        """Return every record by its key."""

    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        """Replace a record and return True, unless it is not `before` any more; None: no record."""
