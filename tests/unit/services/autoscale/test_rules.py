"""How many workers a stage needs: a table, and simulated fleets."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from shoal.services.autoscale.rules import (
    Limit,
    Recent,
    ScaleRules,
    StageLoad,
    combined,
    slot_rate,
    stabilize,
    waiting_leases,
    wanted_workers,
)

RULES = ScaleRules(min=1, max=10, drain_s=100.0, shrink_after_s=60.0)


@pytest.mark.parametrize(
    ("load", "workers", "limit"),
    [
        (StageLoad(role="fetch"), 1, Limit.MINIMUM),
        (StageLoad(role="fetch", queued=10, worker_rate=10), 1, Limit.QUEUE),
        (StageLoad(role="fetch", queued=5_000, worker_rate=10), 5, Limit.QUEUE),
        (StageLoad(role="fetch", queued=5_000, inflow=20, worker_rate=10), 7, Limit.QUEUE),
        (StageLoad(role="fetch", queued=50_000, worker_rate=10), 10, Limit.MAXIMUM),
        (StageLoad(role="fetch", queued=50_000, worker_rate=10, ceiling=2.0), 1, Limit.POLITENESS),
        (StageLoad(role="fetch", queued=50_000, worker_rate=10, ceiling=25.0), 3, Limit.POLITENESS),
        (StageLoad(role="fetch", queued=50_000, worker_rate=10, ceiling=0.0), 1, Limit.POLITENESS),
        (StageLoad(role="fetch", queued=100, worker_rate=10, ceiling=25.0), 1, Limit.QUEUE),
        (StageLoad(role="fetch", queued=50_000, exits_out=True), 1, Limit.EXITS),
        (StageLoad(role="fetch", queued=25_600), 2, Limit.QUEUE),  # nothing measured: 128 per second
        # 4 slots, 6 seconds a page: leases count like requests that are not leased.
        (StageLoad(role="fetch", queued=196, in_progress=4, worker_rate=4 / 6), 3, Limit.QUEUE),
        (StageLoad(role="fetch", in_progress=200, worker_rate=4 / 6), 3, Limit.QUEUE),
        (StageLoad(role="parse", queued=20_000), 2, Limit.QUEUE),  # nothing measured: 100 per second
        (StageLoad(role="sink", queued=20_000, writers=3), 3, Limit.WRITERS),
        (StageLoad(role="sink", queued=20_000, writers=30), 10, Limit.MAXIMUM),
    ],
)
def test_the_number_of_workers_of_a_stage(load: StageLoad, workers: int, limit: Limit) -> None:
    wanted = wanted_workers(load, RULES)
    assert (wanted.workers, wanted.limit) == (workers, limit)


def test_leases_beyond_the_slots_of_workers_wait() -> None:
    assert waiting_leases(28, 4, 4) == 24
    assert waiting_leases(28, 0, 0) == 28  # their workers were killed
    assert waiting_leases(4, 4, 4) == 0
    assert waiting_leases(3, 4, 4) == 0  # the heartbeat is older than the counters
    assert [waiting_leases(40, busy, 20) for busy in (15, 5)] == [15, 5]


def test_it_does_not_say_that_nothing_waits_while_leases_do() -> None:
    wanted = wanted_workers(StageLoad(role="fetch", queued=24, in_progress=4, worker_rate=4 / 6), RULES)
    assert wanted.why.startswith("24 queued and 4 in progress, 0.0 more per second")


def test_it_says_that_politeness_is_the_limit() -> None:
    load = StageLoad(role="fetch", queued=720, worker_rate=10, ceiling=2.0)
    assert wanted_workers(load, RULES).why == (
        "the pace of the hosts allows 2.0 requests per second together, which takes 6m 00s; 1 worker can do that,"
        " more would wait"
    )


def test_what_a_worker_does_follows_from_its_slots_and_the_latency() -> None:
    assert slot_rate(rate=20.0, in_flight=10, slots=64) == 128.0  # half a second each
    assert slot_rate(rate=0.0, in_flight=0, slots=64) == 0.0


def test_workers_with_every_role_are_as_many_as_the_busiest_stage_needs() -> None:
    loads = [StageLoad(role="fetch", queued=3_000, worker_rate=10), StageLoad(role="parse", queued=5)]
    assert combined([wanted_workers(load, RULES) for load in loads], RULES).workers == 3
    assert combined([], RULES).workers == 1


def test_numbers_rise_at_once_and_fall_after_a_while() -> None:
    recent, seen = Recent(), []
    for now, wanted in [(0, 1), (10, 5), (20, 2), (69, 2), (71, 2), (81, 2), (82, 9), (100, 1), (143, 1)]:
        recent, number = stabilize(recent, wanted, now, RULES)
        seen.append(number)
    assert seen == [1, 5, 5, 5, 2, 2, 9, 9, 1]


def test_a_clock_that_is_set_back_forgets_what_was_wanted_later() -> None:
    recent, _ = stabilize(Recent(), 9, 1_000.0, RULES)
    assert stabilize(recent, 1, 10.0, RULES)[1] == 1


@dataclass
class Simulation:
    """A queue, workers that take a while to start, and a rule that is asked every two seconds."""

    arrivals: Callable[[float], float]  # per second
    ceiling: float = math.inf
    worker_rate: float = 10.0
    start_s: float = 2.0
    worker_seconds: float = 0.0
    numbers: list[int] = field(default_factory=list)

    def run(self, rules: ScaleRules, *, fixed: int | None = None, until: float = 2_000.0) -> float:
        """Return when the last request was done."""
        queued, recent, target, now, finished = 0.0, Recent(), fixed or rules.min, 0.0, 0.0
        ready = [0.0] * target  # when each worker has started
        while now < until:
            arrived = self.arrivals(now)
            queued += arrived
            done = min(queued, self.ceiling, self.worker_rate * sum(at <= now for at in ready))
            queued -= done
            finished = now if done else finished
            if fixed is None and not now % 2:
                load = StageLoad(
                    role="fetch",
                    queued=round(queued),
                    inflow=arrived,
                    ceiling=self.ceiling,
                    worker_rate=self.worker_rate,
                )
                recent, target = stabilize(recent, wanted_workers(load, rules).workers, now, rules)
                ready = [*ready[:target], *[now + self.start_s] * (target - len(ready))]
            self.worker_seconds += len(ready) if queued or now <= finished + 60 else 0
            self.numbers.append(len(ready))
            now += 1.0
        return finished


def bursts(now: float) -> float:
    """Return 1,500 requests at once every five minutes, and a trickle between them."""
    return 1_500.0 if now % 300 == 0 and now < 1_500 else 1.0 if now < 1_500 else 0.0


def test_bursts_take_fewer_worker_seconds_than_a_fixed_fleet_and_as_long() -> None:
    rules = ScaleRules(min=1, max=8, drain_s=15.0, shrink_after_s=20.0)
    fixed, scaled = Simulation(bursts), Simulation(bursts)
    alone, together = fixed.run(rules, fixed=8), scaled.run(rules)

    assert together <= alone * 1.1
    assert scaled.worker_seconds < fixed.worker_seconds / 2
    rises = sum(later > before for before, later in zip(scaled.numbers, scaled.numbers[1:], strict=False))
    assert rises <= 2 * 5  # five bursts: no flapping


def test_a_host_that_is_the_limit_gets_no_more_workers() -> None:
    simulation = Simulation(bursts, ceiling=4.0)
    simulation.run(ScaleRules(min=1, max=8, drain_s=15.0))
    assert set(simulation.numbers) == {1}
