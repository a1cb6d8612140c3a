"""Which exit a host gets, and when it changes."""

from collections import Counter

import pytest

from shoal.model.exits import choice
from shoal.model.exits.choice import ExitSession, Rotation, should_rotate
from shoal.model.exits.exit import parse_exit

EXITS = [parse_exit(f"http://10.0.0.{number}:3128") for number in range(1, 9)]
HOSTS = [f"shop{number}.example" for number in range(400)]


@pytest.mark.parametrize(
    ("session", "rotation", "expected"),
    [
        (ExitSession("a", 0.0), Rotation.REQUEST, True),
        (ExitSession("a", 0.0), Rotation.TIMED, False),
        (ExitSession("a", -300.0), Rotation.TIMED, True),
        (ExitSession("a", -300.0), Rotation.WORKER, False),
        (ExitSession("a", 0.0, blocks=1), Rotation.TIMED, True),
        (ExitSession("a", 0.0, blocks=1), Rotation.WORKER, True),
        (ExitSession("a", 0.0, run=2), Rotation.WORKER, False),
        (ExitSession("a", 0.0, run=3), Rotation.WORKER, True),
    ],
)
def test_a_session_ends_when_it_is_blocked_fails_or_its_time_is_over(
    session: ExitSession, rotation: Rotation, expected: bool
) -> None:
    assert should_rotate(session, rotation=rotation, sticky=300.0, now=0.0) is expected


def test_a_burned_session_raises_the_generation_and_avoids_its_exit() -> None:
    burned = choice.next_session(ExitSession("a", 0.0, generation=2, blocks=1), 5.0)
    assert (burned.generation, burned.avoid, burned.started_at) == (3, "a", 5.0)
    assert choice.next_session(ExitSession("a", 0.0, generation=2), 300.0).generation == 2


def test_hosts_change_their_exits_at_different_times_and_each_after_the_whole_period() -> None:
    starts = [choice.period_start(host, 10_000.0, 300.0) for host in HOSTS]
    assert len({round(start) for start in starts}) > 200
    for host, start in zip(HOSTS, starts, strict=True):
        assert start <= 10_000.0 < start + 300.0
        number = choice.period(host, 10_000.0, 300.0)
        assert choice.period(host, start + 299.9, 300.0) == number
        assert choice.period(host, start + 300.1, 300.0) == number + 1


def test_hosts_are_spread_over_all_exits_and_only_those_of_a_lost_exit_move() -> None:
    before = {host: choice.rank(EXITS, host)[0] for host in HOSTS}
    assert min(Counter(exit.name for exit in before.values()).values()) > 20
    after = {host: choice.rank(EXITS[1:], host)[0] for host in HOSTS}
    assert {host for host in HOSTS if before[host] != after[host]} == {
        host for host in HOSTS if before[host] == EXITS[0]
    }


def test_exits_take_turns() -> None:
    last, order = "", []
    for _ in range(14):
        exit = choice.next_in_turn(EXITS, last, lambda exit: exit is not EXITS[2])
        assert exit is not None
        last = exit.name
        order.append(last)
    assert order == [exit.name for exit in EXITS if exit is not EXITS[2]] * 2
    assert choice.next_in_turn(EXITS, last, lambda exit: False) is None
    assert choice.next_in_turn([], last, lambda exit: True) is None


@pytest.mark.parametrize("count", [1, 3, 4, 8])
def test_slices_are_disjoint_and_use_every_exit(count: int) -> None:
    slices = [choice.slice_of(EXITS, number, count) for number in range(count)]
    assert sorted(exit.name for part in slices for exit in part) == sorted(exit.name for exit in EXITS)


def test_more_workers_than_exits_share_them() -> None:
    assert all(choice.slice_of(EXITS[:2], number, 5) for number in range(5))
    assert choice.slice_of([], 0, 1) == ()


def test_a_session_name_has_nothing_in_it_that_a_user_name_cannot_have() -> None:
    name = choice.session_id("worker:1", "shop.example:8080", 7)
    assert name.isalnum()
    assert name != choice.session_id("worker:1", "shop.example:8080", 8)
