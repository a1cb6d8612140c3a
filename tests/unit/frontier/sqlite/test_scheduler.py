"""The scheduler: what is in its heaps, and how little of it a lease reads."""

from types import SimpleNamespace
from typing import Any

from shoal.frontier.rules import HostRecord
from shoal.frontier.sqlite.lane import HostState, Lane
from shoal.frontier.sqlite.scheduler import SPARE_TICKETS, Roster, Scheduler
from shoal.frontier.sqlite.state import CrawlTerms
from shoal.model.pace import Pace


class Schedule:
    """One roster with a few lanes; the clock is an argument."""

    def __init__(self, pace: Pace) -> None:
        self.crawl: Any = SimpleNamespace(terms=CrawlTerms(pace=pace), guest=False)
        self.roster = Roster()
        self.scheduler = Scheduler()
        self._ids = 0

    def lane(self, host: HostState | str) -> Lane:
        host = HostState(1, host, HostRecord()) if isinstance(host, str) else host
        lane = Lane(1, self.crawl, host, "http", self.roster, suspect=False)
        self.roster.lanes += 1
        host.join(lane)
        return lane

    def push(self, lane: Lane, count: int = 1, *, band: int = 5, now: float = 0.0) -> None:
        for _ in range(count):
            self._ids += 1
            self.scheduler.push(lane, band, self._ids, now)

    def take(self, limit: int, now: float) -> list[str]:
        taken = self.scheduler.take([self.roster], [], crawls=[self.crawl], limit=limit, now=now, token=1)
        return [lane.host.name for lane, _ in taken]


def test_the_lane_that_was_served_least_recently_goes_first() -> None:
    schedule = Schedule(Pace(0.0, 1, 100))
    for name in ("a", "b", "c"):
        schedule.push(schedule.lane(name), 3)
    assert schedule.take(4, now=0.0) == ["a", "b", "c", "a"]
    assert schedule.take(9, now=0.0) == ["b", "c", "a", "b", "c"]


def test_a_lane_that_was_empty_joins_at_the_end() -> None:
    schedule = Schedule(Pace(0.0, 1, 100))
    first, second = schedule.lane("a"), schedule.lane("b")
    schedule.push(first)
    schedule.push(second, 2)
    assert schedule.take(1, now=0.0) == ["a"]
    schedule.push(first)
    assert schedule.take(9, now=0.0) == ["b", "a", "b"]


def test_hosts_that_are_not_due_are_not_read() -> None:
    schedule = Schedule(Pace(10.0, 1, 100))
    for number in range(500):
        schedule.push(schedule.lane(f"{number}"), 2)
    assert len(schedule.take(1000, now=0.0)) == 500
    assert not schedule.roster.eligible  # nothing left for the next lease to read
    assert schedule.scheduler.wait([schedule.roster], now=3.0) == 7.0
    assert len(schedule.take(1000, now=10.0)) == 500


def test_a_lane_cools_after_another_lane_of_its_host_was_served() -> None:
    schedule = Schedule(Pace(10.0, 1, 100))
    host = HostState(1, "a", HostRecord())
    one, other = schedule.lane(host), schedule.lane(host)
    schedule.push(one, 2)
    schedule.push(other, 2)
    assert len(schedule.take(9, now=0.0)) == 1
    assert schedule.scheduler.wait([schedule.roster], now=0.0) == 10.0
    assert len(schedule.take(9, now=10.0)) == 1
    assert (one.size, other.size) == (1, 1)


def test_a_host_at_its_concurrency_limit_is_placed_again_when_a_request_lands() -> None:
    schedule = Schedule(Pace(0.0, 1, 1))
    lane = schedule.lane("a")
    schedule.push(lane, 2)
    assert schedule.take(9, now=0.0) == ["a"]
    assert lane.ticket is None
    lane.host.inflight -= 1
    schedule.scheduler.place_all(lane.host, 0.0)
    assert schedule.take(9, now=0.0) == ["a"]


def test_invalid_tickets_are_removed() -> None:
    schedule = Schedule(Pace(10.0, 1, 100))
    lanes = [schedule.lane(f"{number}") for number in range(3)]
    for lane in lanes:
        schedule.push(lane, 5)
    for step in range(10_000):
        schedule.scheduler.place_all(lanes[step % 3].host, now=0.0)
    assert len(schedule.roster.eligible) <= 2 * 3 + SPARE_TICKETS
    assert sorted(schedule.take(9, now=0.0)) == ["0", "1", "2"]
    for step in range(10_000):
        schedule.scheduler.place_all(lanes[step % 3].host, now=1.0)
    assert len(schedule.roster.cooling) <= 2 * 3 + SPARE_TICKETS
    assert sorted(schedule.take(9, now=10.0)) == ["0", "1", "2"]
