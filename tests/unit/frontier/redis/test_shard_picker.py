"""Choosing the shard to ask next."""

import math

from shoal.frontier.redis.shard_picker import (
    IDLE_LONGEST_S,
    LONGEST_POLL_S,
    POLLING_CRAWLS,
    ShardPicker,
    ShardPickers,
    longest_idle_s,
)


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


def test_what_a_shard_has_for_one_crawl_says_nothing_about_another() -> None:
    pickers = ShardPickers(3, Time())
    for shard in range(3):
        pickers.of(("a",)).record(shard, found=0, wait=math.inf, best=math.inf)
        pickers.of(("b",)).record(shard, found=0, wait=math.inf, best=math.inf)
    pickers.wake(1, {"a"})

    assert asked_until_none(pickers.of(("a",))) == {1}
    assert pickers.of(("b",)).wait == math.inf
    pickers.wake(2)  # a host there is free again: for every crawl
    assert asked_until_none(pickers.of(("b",))) == {2}
    assert asked_until_none(pickers.of(None)) == {0, 1, 2}


def test_a_picker_that_is_not_in_use_any_more_is_removed() -> None:
    time = Time()
    pickers = ShardPickers(1, time)
    first = pickers.of(("a",))
    pickers.of(("b",))
    assert pickers.of(("a",)) is first
    time.now = 2 * LONGEST_POLL_S
    pickers.of(("c",))

    assert pickers.of(("a",)) is not first


def test_many_crawls_together_poll_about_as_often_as_some() -> None:
    assert longest_idle_s(1) == longest_idle_s(POLLING_CRAWLS) == IDLE_LONGEST_S
    assert longest_idle_s(3 * POLLING_CRAWLS) == 3 * IDLE_LONGEST_S
    assert longest_idle_s(1_200) == LONGEST_POLL_S
