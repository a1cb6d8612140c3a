"""Which shard is asked next."""

import math

from shoal.frontier.redis.shard_picker import IDLE_LONGEST_S, ShardPicker


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def asked_until_none(rota: ShardPicker) -> set[int]:
    asked: set[int] = set()
    while (shard := rota.pick(asked)) is not None:
        asked.add(shard)
    return asked


def test_every_shard_is_asked_once_in_a_call() -> None:
    assert asked_until_none(ShardPicker(5, Time())) == {0, 1, 2, 3, 4}


def test_a_shard_that_has_nothing_is_left_alone_until_its_time() -> None:
    time = Time()
    rota = ShardPicker(3, time)
    for shard, wait in ((0, 0.2), (1, math.inf), (2, 0.3)):
        rota.record(shard, found=0, wait=wait, best=math.inf)
    assert rota.wait == 0.2
    time.now = 0.25

    assert asked_until_none(rota) == {0}


def test_somebody_who_asks_for_work_asks_at_least_one_shard() -> None:
    rota = ShardPicker(2, Time())
    for shard in (0, 1):
        rota.record(shard, found=0, wait=math.inf, best=math.inf)

    assert rota.pick(()) is not None
    assert len(asked_until_none(rota)) == 1
    assert rota.wait == math.inf


def test_idle_shards_are_looked_at_less_and_less_often_but_always_again() -> None:
    time = Time()
    rota = ShardPicker(1, time)
    looks = []
    for _ in range(12):
        rota.record(0, found=0, wait=math.inf, best=math.inf)
        looks.append(rota.next_look)
        time.now += rota.next_look

    assert looks[0] < 1.0
    assert looks[-1] > looks[0]
    assert max(looks) <= IDLE_LONGEST_S * 1.25


def test_what_happens_in_a_shard_makes_it_due() -> None:
    rota = ShardPicker(2, Time())
    for shard in (0, 1):
        rota.record(shard, found=0, wait=60.0, best=math.inf)
    rota.wake(1)

    assert asked_until_none(rota) == {1}
    assert rota.wait == 0.0


def test_of_two_shards_the_one_with_the_better_request_goes_first() -> None:
    rota = ShardPicker(2, Time())
    rota.record(0, found=0, wait=0.0, best=9.0)
    rota.record(1, found=0, wait=0.0, best=3.0)

    assert {rota.pick(()) for _ in range(20)} == {1}
