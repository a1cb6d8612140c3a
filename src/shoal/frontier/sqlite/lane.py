"""A lane: the requests of one crawl to one host in one pool that wait to be leased.

Only their ids are in RAM, eight bytes each: a request's place in the order of acceptance is its id, so ids
in order are the queue. The rows themselves are read when they are leased.

Suspects (requests with a crash on their account) wait in a lane of their own, beside the one they come from.
"""

from array import array
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.frontier.sqlite.host import HostState
    from shoal.frontier.sqlite.scheduler import Roster, Ticket
    from shoal.frontier.sqlite.state import CrawlState

COMPACT = 1024  # used-up places at the front of a queue that are worth a move of what follows


class Band:
    """The ids of one priority class, smallest first.

    New requests have the largest id so far and go to the end of an array. What comes back later than its
    successors (a retry, a release) goes to a small heap instead of into the middle of the array.
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
        if begin >= COMPACT and 2 * begin >= len(ids):
            id = ids[begin - 1]
            del ids[:begin]
            self._begin = 0
            return id
        return ids[begin - 1]

    def __len__(self) -> int:
        return len(self._ids) - self._begin + (len(self._late) if self._late else 0)


class Lane:
    __slots__ = (
        "_bands", "cooling", "crawl", "host", "id", "moment", "pool", "roster", "size", "suspect", "suspects",
        "ticket",
    )  # fmt: skip

    def __init__(
        self, id: int, crawl: "CrawlState", host: "HostState", pool: str, roster: "Roster", *, suspect: bool
    ) -> None:
        self.id = id
        self.crawl = crawl
        self.host = host
        self.pool = pool
        self.roster = roster
        self.suspect = suspect
        self.suspects: Lane | None = None  # the lane beside this one
        self.size = 0
        self.moment = 0.0  # when it was last served, or ceased to be empty
        self.ticket: Ticket | None = None  # its one valid place in the roster
        self.cooling = False  # whether that place is among the lanes whose host is not due
        self._bands: list[Band] = []  # best first, none of them empty

    @property
    def band(self) -> int:
        """The priority class of the request that is next."""
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
        """Take in at once the ids, in order, of a class that is empty."""
        self.size += len(ids)
        self._bands.append(Band(band, ids))
        self._bands.sort(key=lambda band: band.number)

    def pop(self) -> int:
        """Take out the request that is next."""
        self.size -= 1
        best = self._bands[0]
        id = best.pop()
        if not best:
            del self._bands[0]
        return id
