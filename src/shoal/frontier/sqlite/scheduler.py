"""The scheduler: which lane is next. Two heaps per crawl and pool; hosts that are not due cost nothing.

A lane with requests is in exactly one place: in `eligible` (its host was due when the lane was placed), in
`cooling` (sorted by when its host will be due), or in neither, because its host is paused or has its number
of requests out. The code that changes the latter calls `place_all` for the host. Serving one lane of a host
does not update its other lanes: an eligible lane whose host is no longer due is detected when it reaches the
top, and moves to `cooling`. That costs each turn at most one more step, for any number of lanes.

Among eligible lanes the best priority class goes first, then the lane that could have gone for longest
(`place_in_line`). So a waiting lane moves towards the front whenever another one is served, and none
starves.

Several processes may lease, each for its own crawls, from the same hosts. The one that asks at the very
moment when a host is due would take every turn. So a lane lets another one go first that has waited longer,
if the process of that one is about to ask.

A lane's valid entry is its `ticket`. Other tickets of the lane stay in a heap and are skipped at the top.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from shoal.frontier.rules import LINE, next_moment, place_in_line
from shoal.frontier.sqlite.lane import HostState, Lane

if TYPE_CHECKING:
    from shoal.frontier.sqlite.state import CrawlState

# The sort key, the host, the lane's moment (unique), the lane.
Ticket = tuple[float, str, float, Lane]

GRACE_S = 0.1  # by which a process may be late that is about to ask, before its turn goes to another one
SPARE_TICKETS = 64  # invalid tickets in a heap that are not worth a clean-up


class Roster:
    """The lanes of one crawl in one pool: the ordinary ones, or those of suspects."""

    __slots__ = ("cooling", "eligible", "lanes")

    def __init__(self) -> None:
        self.eligible: list[Ticket] = []
        self.cooling: list[Ticket] = []
        self.lanes = 0


class Scheduler:
    def __init__(self) -> None:
        self._moment = 0.0
        self.deferred: list[Lane] = []  # lanes that the last `take` has not served in favour of others

    def place(self, lane: Lane, now: float) -> None:
        """Put a lane into the heap where it belongs now, or into none."""
        host = lane.host
        if lane.size == 0 or not host.open:
            lane.ticket = None
            return
        lane.cooling = host.ready > now
        heap = lane.roster.cooling if lane.cooling else lane.roster.eligible
        place = host.ready if lane.cooling else place_in_line(lane.band, host.ready, lane.moment)
        lane.ticket = (place, host.name, lane.moment, lane)
        heappush(heap, lane.ticket)
        if len(heap) > 2 * lane.roster.lanes + SPARE_TICKETS:
            heap[:] = [ticket for ticket in heap if ticket[3].ticket is ticket]
            heapify(heap)

    def place_all(self, host: HostState, now: float) -> None:
        """Place all lanes of a host again, because it is due earlier than they assume."""
        for lane in host.lanes:
            self.place(lane, now)

    def push(self, lane: Lane, band: int, id: int, now: float) -> None:
        """Queue a request in a lane."""
        lane.push(band, id)
        if lane.size == 1:
            self.stamp(lane, now)
            self.place(lane, now)
        elif lane.ticket is not None and not lane.cooling and band < lane.ticket[0] // LINE:
            self.place(lane, now)

    def stamp(self, lane: Lane, now: float) -> None:
        lane.moment = self._moment = next_moment(self._moment, now)

    def take(
        self,
        rosters: Sequence[Roster],
        suspects: Sequence[Roster],
        *,
        crawls: Collection["CrawlState"],
        limit: int,
        now: float,
        token: int,
    ) -> list[tuple[Lane, int]]:
        """Pop up to `limit` requests whose host is due, best first, at most one of them a suspect.

        The rosters are those of `crawls`.
        """
        taken: list[tuple[Lane, int]] = []
        self.deferred = []
        open_rosters = [*rosters, *suspects]
        for roster in open_rosters:
            self._warm(roster, now)
        open_rosters = [roster for roster in open_rosters if roster.eligible]
        while len(taken) < limit:
            ticket = _best(open_rosters)
            if ticket is None:
                break
            lane = ticket[3]
            host = lane.host
            heappop(lane.roster.eligible)
            # If another lane of its host was served since it was placed, its turn comes later.
            alone = len(host.lanes) == 1
            current = alone or ticket[0] == place_in_line(lane.band, host.ready, lane.moment)
            due = current and host.ready <= now and host.open
            if due and not alone and _another_goes_first(lane, crawls, now):
                lane.ticket = None
                self.deferred.append(lane)
                continue
            if due:
                taken.append((lane, lane.pop()))
                host.take(now, token)
                self.stamp(lane, now)
                if lane.suspect:
                    open_rosters = [roster for roster in open_rosters if roster not in suspects]
            self.place(lane, now)
        for lane in self.deferred:
            self.place(lane, now)
        return taken

    def wait(self, rosters: Iterable[Roster], now: float) -> float:
        """Return the seconds until the first of the cooling lanes is due."""
        return min((self._next_turn(roster, now) for roster in rosters), default=math.inf) - now

    def _warm(self, roster: Roster, now: float) -> None:
        cooling = roster.cooling
        while cooling and cooling[0][0] <= now:
            ticket = heappop(cooling)
            if ticket[3].ticket is ticket:
                self.place(ticket[3], now)

    def _next_turn(self, roster: Roster, now: float) -> float:
        cooling = roster.cooling
        while cooling:
            ticket = cooling[0]
            lane = ticket[3]
            if lane.ticket is ticket:
                if lane.host.open and lane.host.ready == ticket[0]:
                    return ticket[0]
                self.place(lane, now)  # another lane of its host was served since
            heappop(cooling)
        return math.inf


def _another_goes_first(lane: Lane, crawls: Collection["CrawlState"], now: float) -> bool:
    """Return whether a lane of another process has waited longer for this host and will be asked for."""
    return any(
        (other.crawl.guest or lane.crawl.guest)  # else both are crawls of the process that owns the store
        and other.crawl not in crawls
        and other.size > 0
        and other.moment < lane.moment
        and now < other.crawl.asks_at + GRACE_S
        and other.pool == lane.pool
        and not other.suspect
        and not other.crawl.paused
        for other in lane.host.lanes
    )


def _best(rosters: Sequence[Roster]) -> Ticket | None:
    best: Ticket | None = None
    for roster in rosters:
        eligible = roster.eligible
        while eligible and eligible[0][3].ticket is not eligible[0]:
            heappop(eligible)
        if eligible and (best is None or eligible[0] < best):
            best = eligible[0]
    return best
