"""A store looked at over and over."""

from shoal.frontier.answers import STATES, HostQueue, Measured
from shoal.runtime.looking.overview import Overseer, longest
from shoal.runtime.looking.status import CrawlStatus, StoreStatus


class Frontier:
    """A frontier that gets further with every look."""

    def __init__(self) -> None:
        self.looks = self.measured_times = 0

    async def status(self) -> StoreStatus:
        self.looks += 1
        counts = {**dict.fromkeys(STATES, 0), "done": 10 * self.looks}
        return StoreStatus("shoal-data", "somebody", [CrawlStatus("shop", 100, counts, {}, {})])

    async def measured(self, crawl: str) -> Measured:
        self.measured_times += 1
        return Measured(0, 0.0, 0.0, 0.0, [HostQueue("a.test", 5, 1.0, 1, False)])


async def test_speed_is_told_from_the_second_look_on_and_hosts_are_not_asked_for_each_time() -> None:
    frontier = Frontier()
    overseer = Overseer(frontier, frontier.status)  # type: ignore[arg-type]  # the part that it uses

    first, second = await overseer.look(), await overseer.look()

    assert first.rate is None
    assert second.rate is not None
    assert second.rate > 0
    assert second.hosts == first.hosts
    assert frontier.measured_times == 1


def test_the_queues_of_a_host_are_one_and_paused_hosts_come_first() -> None:
    quick = HostQueue("quick.test", 1_000, 0.1, 4, False)
    slow = HostQueue("slow.test", 30, 5.0, 1, False)
    off = HostQueue("off.test", 1, 0.1, 4, True)

    assert [host.host for host in longest([quick, slow, off])] == ["off.test", "slow.test", "quick.test"]
    assert longest([slow, slow])[0].queued == 60
