"""Hosts and lanes. A lane holds the waiting requests of one crawl to one host in one pool.

Only their ids are in RAM, eight bytes each. The id of a request is its place in the order of acceptance, so
sorted ids are the queue. The rows themselves are read when they are leased.

Suspects (requests that were charged with a crash) wait in a separate lane next to the one they come from.
"""

import math
from array import array
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from shoal.frontier.governor import USUAL_RULES, Governor
from shoal.frontier.rules import HostRecord

if TYPE_CHECKING:
    from shoal.frontier.sqlite.scheduler import Roster, Ticket
    from shoal.frontier.sqlite.state import CrawlState

COMPACT_AFTER_IDS = 1024  # popped ids at the front of an array that make moving the rest worthwhile


class Band:
    """The ids of one priority class, smallest first.

    New requests have the largest id so far and are appended to an array. A request that returns after its
    successors (a retry, a release) goes into a small heap instead of into the middle of the array.
    """

    __slots__ = ("_begin", "_ids", "_late", "number")

    def __init__(self, number: int, ids: "array[int] | None" = None) -> None:
        self.number = number
        self._ids = array("q") if ids is None else ids
        self._begin = 0
        self._late: list[int] | None = None

    def push(self, id: int) -> None:
        if not self._ids or id > self._ids[-1]:
            self._ids.append(id)
        else:
            if self._late is None:
                self._late = []
            heappush(self._late, id)

    def pop(self) -> int:
        ids, begin = self._ids, self._begin
        if self._late and (begin == len(ids) or self._late[0] < ids[begin]):
            return heappop(self._late)
        self._begin = begin = begin + 1
        if begin >= COMPACT_AFTER_IDS and 2 * begin >= len(ids):
            id = ids[begin - 1]
            del ids[:begin]
            self._begin = 0
            return id
        return ids[begin - 1]

    def __len__(self) -> int:
        return len(self._ids) - self._begin + (len(self._late) if self._late else 0)


class HostState(Governor):
    """A host: its governor, and the lanes that share it."""

    __slots__ = ("id", "lanes", "name")

    def __init__(self, id: int, name: str, record: HostRecord, *, last: float = -math.inf) -> None:
        super().__init__(record, last=last)
        self.id = id
        self.name = name
        self.lanes: list[Lane] = []

    def join(self, lane: "Lane") -> None:
        """Add a lane: from now on its crawl's pace applies here, too."""
        self.lanes.append(lane)
        self.update_pace()

    def leave(self, crawl: "CrawlState") -> None:
        """Remove the lanes of a crawl: its pace no longer applies here."""
        self.lanes = [lane for lane in self.lanes if lane.crawl is not crawl]
        self.update_pace()

    def update_pace(self) -> None:
        """Recompute the pace. The crawl that joined first decides how the host slows down."""
        crawls = [lane.crawl for lane in self.lanes]
        self.follow(
            {crawl.terms.pace_at(self.name) for crawl in crawls},
            crawls[0].terms.slowdown if crawls else USUAL_RULES,
        )


class Lane:
    __slots__ = (
        "_bands", "cooling", "crawl", "host", "id", "moment", "pool", "roster", "size", "suspect", "suspects",
        "ticket",
    )  # fmt: skip

    def __init__(
        self, id: int, crawl: "CrawlState", host: HostState, pool: str, roster: "Roster", *, suspect: bool
    ) -> None:
        self.id = id
        self.crawl = crawl
        self.host = host
        self.pool = pool
        self.roster = roster
        self.suspect = suspect
        self.suspects: Lane | None = None  # the lane of its suspects
        self.size = 0
        self.moment = 0.0  # when it was last served, or last became non-empty
        self.ticket: Ticket | None = None  # its one valid entry in the roster
        self.cooling = False  # whether that entry is among the lanes whose host is not due
        self._bands: list[Band] = []  # best first, none of them empty

    @property
    def band(self) -> int:
        """The priority class of the next request."""
        return self._bands[0].number

    def push(self, band: int, id: int) -> None:
        self.size += 1
        for place, present in enumerate(self._bands):
            if present.number >= band:
                if present.number > band:
                    present = Band(band)
                    self._bands.insert(place, present)
                break
        else:
            present = Band(band)
            self._bands.append(present)
        present.push(id)

    def fill(self, band: int, ids: "array[int]") -> None:
        """Add the sorted ids of a priority class that is still empty."""
        self.size += len(ids)
        self._bands.append(Band(band, ids))
        self._bands.sort(key=lambda band: band.number)

    def pop(self) -> int:
        """Remove and return the next request."""
        self.size -= 1
        best = self._bands[0]
        id = best.pop()
        if not best:
            del self._bands[0]
        return id
