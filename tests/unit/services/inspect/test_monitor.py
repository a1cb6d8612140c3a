"""A store looked at over and over."""

from shoal.frontier.results import STATES, HostQueue
from shoal.services.inspect.monitor import StoreMonitor, count_held, seconds_left, slowest
from shoal.services.inspect.status import CrawlStatus, StoreStatus

NOW = 1_800_000_000.0


class Frontier:
    """A frontier that gets further with every look."""

    def __init__(self) -> None:
        self.looks = self.queues_times = 0

    async def status(self) -> StoreStatus:
        self.looks += 1
        counts = {**dict.fromkeys(STATES, 0), "done": 10 * self.looks}
        return StoreStatus("shoal-data", "process 7", [CrawlStatus("shop", 100, counts, {}, {})])

    async def queues(self, most: int | None = None) -> list[HostQueue]:
        self.queues_times += 1
        return [HostQueue("a.test", 5, 1.0, 1, False, slow=2.0)]


async def test_speed_is_told_from_the_second_look_on_and_hosts_are_not_asked_for_each_time() -> None:
    frontier = Frontier()
    monitor = StoreMonitor(frontier, frontier.status)

    first, second = await monitor.look(), await monitor.look()

    assert first.rate is None
    assert second.rate is not None
    assert second.rate > 0
    assert second.hosts == first.hosts
    assert frontier.queues_times == 1
    assert second.held == {"slowed": 1}


def test_the_queues_of_a_host_are_one_and_paused_hosts_come_first() -> None:
    quick = HostQueue("quick.test", 1_000, 0.1, 4, False)
    slow = HostQueue("slow.test", 30, 5.0, 1, False)
    off = HostQueue("off.test", 1, 0.1, 4, True)

    names = [host.host for host in slowest([quick, slow, off], NOW)]
    assert names == ["off.test", "slow.test", "quick.test"]
    assert slowest([slow, slow], NOW)[0].queued == 60


def test_a_rest_is_part_of_the_time_that_a_host_takes() -> None:
    slow = HostQueue("slow.test", 30, 5.0, 1, False)
    resting = HostQueue("resting.test", 1, 1.0, 1, False, rest_until=NOW + 600)

    assert seconds_left(resting, NOW) == 601
    assert [host.host for host in slowest([slow, resting], NOW)] == ["resting.test", "slow.test"]
    assert seconds_left(resting, NOW + 700) == 1


def test_hosts_are_counted_by_what_holds_them_up_each_once() -> None:
    off = HostQueue("off.test", 1, 0.1, 4, True, rest_until=NOW + 600)
    slowed = HostQueue("slowed.test", 1, 0.1, 4, False, slow=1.5)
    usual = HostQueue("usual.test", 1, 0.1, 4, False, rest_until=NOW - 1)

    assert count_held([off, off, slowed, usual], NOW) == {"paused": 1, "slowed": 1}
