"""Choosing the shard to ask next."""

import math

from shoal.frontier.redis.shard_picker import IDLE_LONGEST_S, ShardPicker


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def asked_until_none(picker: ShardPicker) -> set[int]:
    asked: set[int] = set()
    while shards := picker.pick(asked):
        asked.update(shards)
    return asked


def test_every_shard_is_asked_once_in_a_call() -> None:
    assert asked_until_none(ShardPicker(5, Time())) == {0, 1, 2, 3, 4}


def test_a_shard_without_work_is_not_asked_before_its_time() -> None:
    time = Time()
    picker = ShardPicker(3, time)
    for shard, wait in ((0, 0.2), (1, math.inf), (2, 0.3)):
        picker.record(shard, found=0, wait=wait, best=math.inf)
    assert picker.wait == 0.2
    time.now = 0.25

    assert asked_until_none(picker) == {0}


def test_every_lease_call_asks_at_least_one_shard() -> None:
    picker = ShardPicker(2, Time())
    for shard in (0, 1):
        picker.record(shard, found=0, wait=math.inf, best=math.inf)

    assert len(picker.pick(())) == 1
    assert len(asked_until_none(picker)) == 1
    assert picker.wait == math.inf


def test_idle_shards_are_polled_less_and_less_often_but_never_dropped() -> None:
    time = Time()
    picker = ShardPicker(1, time)
    looks = []
    for _ in range(12):
        picker.record(0, found=0, wait=math.inf, best=math.inf)
        looks.append(picker.next_look)
        time.now += picker.next_look

    assert looks[0] < 1.0
    assert looks[-1] > looks[0]
    assert max(looks) <= IDLE_LONGEST_S * 1.25


def test_a_change_in_a_shard_makes_it_due() -> None:
    picker = ShardPicker(2, Time())
    for shard in (0, 1):
        picker.record(shard, found=0, wait=60.0, best=math.inf)
    picker.wake(1)

    assert asked_until_none(picker) == {1}
    assert picker.wait == 0.0


def test_of_two_shards_the_one_with_the_better_request_goes_first() -> None:
    picker = ShardPicker(2, Time())
    picker.record(0, found=0, wait=0.0, best=9.0)
    picker.record(1, found=0, wait=0.0, best=3.0)

    assert {*picker.pick(())} == {1}
    assert list(picker.pick((), at_once=5)) == [1, 0]
