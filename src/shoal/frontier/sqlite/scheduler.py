"""Which lane is next: two heaps for every crawl and pool, and no look at any host that is not due.

A lane with requests is in exactly one place: `eligible` (its host was due when we looked), `cooling` (by
when its host will be), or nowhere, because its host is paused or has enough requests out; whoever changes
that places the host's lanes again. Hosts move on without telling their other lanes: an eligible lane whose
host is not due any more is found out when it reaches the top, and cools. That costs each turn at most one
more step, however many lanes there are.

Among eligible lanes the best priority class goes first, then the lane that could have gone for longest
(`place_in_line`). A lane that waits therefore comes nearer to the front with every other that is served, and
none can starve.

A lane's valid place is its `ticket`; tickets left behind in a heap are skipped when they surface.
"""

import math
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from shoal.frontier.rules import LINE, next_moment, place_in_line
from shoal.frontier.sqlite.host import HostState
from shoal.frontier.sqlite.lane import Lane

# What the heap sorts by, the host, the lane's moment (never the same twice), the lane.
Ticket = tuple[float, str, float, Lane]

SPARE = 64  # tickets left behind that are not worth a clean-up


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

    def place(self, lane: Lane, now: float) -> None:
        """Put a lane where it belongs now."""
        host = lane.host
        if lane.size == 0 or not host.open:
            lane.ticket = None
            return
        lane.cooling = host.ready > now
        heap = lane.roster.cooling if lane.cooling else lane.roster.eligible
        place = host.ready if lane.cooling else place_in_line(lane.band, host.ready, lane.moment)
        lane.ticket = (place, host.name, lane.moment, lane)
        heappush(heap, lane.ticket)
        if len(heap) > 2 * lane.roster.lanes + SPARE:
            heap[:] = [ticket for ticket in heap if ticket[3].ticket is ticket]
            heapify(heap)

    def place_all(self, host: HostState, now: float) -> None:
        """Do the same for all lanes of a host: it may be asked sooner than they think."""
        for lane in host.lanes:
            self.place(lane, now)

    def push(self, lane: Lane, band: int, id: int, now: float) -> None:
        """Let a request wait in a lane."""
        lane.push(band, id)
        if lane.size == 1:
            self.stamp(lane, now)
            self.place(lane, now)
        elif lane.ticket is not None and not lane.cooling and band < lane.ticket[0] // LINE:
            self.place(lane, now)

    def stamp(self, lane: Lane, now: float) -> None:
        lane.moment = self._moment = next_moment(self._moment, now)

    def take(
        self, rosters: Sequence[Roster], suspects: Sequence[Roster], *, limit: int, now: float, token: int
    ) -> list[tuple[Lane, int]]:
        """Take up to `limit` requests that may go now, best first, and at most one from the suspects."""
        taken: list[tuple[Lane, int]] = []
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
            # Where another lane of its host was served meanwhile, its turn comes later.
            alone = len(host.lanes) == 1
            current = alone or ticket[0] == place_in_line(lane.band, host.ready, lane.moment)
            if current and host.ready <= now and host.open:
                taken.append((lane, lane.pop()))
                host.take(now, token)
                self.stamp(lane, now)
                if lane.suspect:
                    open_rosters = [roster for roster in open_rosters if roster not in suspects]
            self.place(lane, now)
        return taken

    def wait(self, rosters: Iterable[Roster], now: float) -> float:
        """Say in how many seconds the first of the cooling lanes may go."""
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
                self.place(lane, now)  # another lane of its host was served meanwhile
            heappop(cooling)
        return math.inf


def _best(rosters: Sequence[Roster]) -> Ticket | None:
    best: Ticket | None = None
    for roster in rosters:
        eligible = roster.eligible
        while eligible and eligible[0][3].ticket is not eligible[0]:
            heappop(eligible)
        if eligible and (best is None or eligible[0] < best):
            best = eligible[0]
    return best
