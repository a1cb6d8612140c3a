"""Which shard is asked, and when."""

import math

import pytest

from shoal.frontier.redis.rota import IDLE_LONGEST, Rota


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def asked(rota: Rota, clock: Clock, *, wait: float, seconds: float) -> int:
    """Count the looks at a lone shard that always answers the same, by a worker that comes when told to."""
    looks, until = 0, clock.now + seconds
    while clock.now < until:
        rota.heard(0, found=0, wait=wait, best=math.inf)
        looks += 1
        clock.now += rota.next_look
    return looks


def test_an_idle_worker_asks_less_and_less(clock: Clock) -> None:
    rota = Rota(1, clock)
    asked(rota, clock, wait=math.inf, seconds=60.0)
    assert asked(rota, clock, wait=math.inf, seconds=100 * IDLE_LONGEST) <= 100 / 0.75


def test_a_worker_that_others_overtake_asks_less_and_less(clock: Clock) -> None:
    rota = Rota(1, clock)
    assert asked(rota, clock, wait=0.01, seconds=100.0) < 200


def test_a_worker_that_gets_what_was_promised_comes_at_the_promised_time(clock: Clock) -> None:
    rota = Rota(1, clock)
    for _ in range(100):
        rota.heard(0, found=1, wait=0.01, best=math.inf)
        assert rota.next_look == pytest.approx(0.01)
        clock.now += rota.next_look


def test_news_of_a_shard_make_it_due_at_once(clock: Clock) -> None:
    rota = Rota(2, clock)
    for shard in (0, 1):
        rota.heard(shard, found=0, wait=math.inf, best=math.inf)
    assert rota.next_look > 0
    rota.wake(1)
    assert rota.next_look == 0
    assert rota.pick(()) == 1


def test_every_shard_that_is_due_is_asked_once(clock: Clock) -> None:
    rota, seen = Rota(4, clock), set[int]()
    while (shard := rota.pick(seen)) is not None:
        assert shard not in seen
        seen.add(shard)
        rota.heard(shard, found=0, wait=math.inf, best=math.inf)
    assert seen == {0, 1, 2, 3}
    assert rota.pick(()) is not None  # whoever asks is not sent away without a look
