"""The governor: a host never gets more requests than its pace allows, whatever changes."""

import math

from hypothesis import given
from hypothesis import strategies as st

from shoal.frontier.governor import Governor
from shoal.frontier.rules import HostRecord
from shoal.model.adaptive_delay import Signal, SlowdownRules
from shoal.model.pace import Pace

RULES = SlowdownRules(at_least=3, window=6)


def governed(pace: Pace, *, last: float = -math.inf) -> Governor:
    governor = Governor(HostRecord(), last=last)
    governor.follow([pace], RULES)
    return governor


def sends(governor: Governor, now: float, wanted: int = 100) -> int:
    """Send as many requests as allowed now; each lands at once. Return how many."""
    sent = 0
    while sent < wanted and governor.open and governor.ready <= now:
        governor.take(now, token=1)
        governor.inflight -= 1
        sent += 1
    return sent


def test_a_new_host_may_get_its_burst_at_once() -> None:
    assert sends(governed(Pace(1.0, 3, 4)), now=0.0) == 3


def test_after_a_restart_a_host_rests_one_interval() -> None:
    governor = governed(Pace(1.0, 3, 4), last=100.0)
    assert sends(governor, now=100.9) == 0
    assert sends(governor, now=101.0) == 1


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.sampled_from((0.5, 1.0, 4.0)), st.integers(1, 4)),
        min_size=1,
        max_size=30,
    )
)
def test_after_a_change_of_pace_the_next_request_is_a_whole_interval_away(
    steps: list[tuple[int, float, int]],
) -> None:
    governor = governed(Pace(1.0, 2, 100))
    now, latest, before = 0.0, -math.inf, (1.0, 2)
    for pause, interval, burst in steps:
        now += pause / 4
        governor.follow([Pace(interval, burst, 100)], RULES)
        if before != (interval, burst):
            assert governor.ready == max(latest + interval, 0.0)
            before = (interval, burst)
        if sent := sends(governor, now):
            assert sent <= burst
            latest = now


def test_a_turn_is_returned_only_by_the_batch_that_took_the_latest() -> None:
    governor = governed(Pace(10.0, 1, 9))
    governor.take(0.0, token=1)
    governor.return_turn(1, governor.interval)
    assert governor.ready <= 0.0
    governor.take(0.0, token=2)
    governor.take(10.0, token=3)
    governor.return_turn(2, governor.interval)
    assert governor.ready == 20.0


def test_a_turn_is_not_returned_after_the_pace_has_changed() -> None:
    governor = governed(Pace(0.5, 2, 9))
    governor.take(0.0, token=1)
    governor.take(0.0, token=1)
    governor.follow([Pace(5.0, 1, 9)], RULES)
    governor.return_turn(1, 0.5)
    assert governor.ready == 5.0  # the other one of the two was sent


def test_a_rest_only_gets_longer() -> None:
    governor = governed(Pace(1.0, 1, 9))
    governor.rest(50.0)
    governor.rest(20.0)
    assert governor.ready == 50.0


def test_responses_before_the_first_trouble_count() -> None:
    """The window is created late, and equals one that existed from the beginning."""
    governor = governed(Pace(1.0, 1, 9))
    for _ in range(20):
        assert not governor.record_response(Signal.NORMAL)
    assert governor.responses == ""
    assert governor.record_response(Signal.FORBIDDEN)
    assert governor.responses == "000001"


def test_after_a_restart_a_slow_down_ends_with_normal_responses() -> None:
    governor = Governor(HostRecord(slow=1.5))
    factors = []
    for _ in range(200):
        governor.record_response(Signal.NORMAL)
        factors.append(governor.record.slow)
    assert factors == sorted(factors, reverse=True)
    assert (factors[0] > 1.4, factors[49]) == (True, 1.0)


def test_requests_in_flight_and_pauses_close_a_host() -> None:
    governor = governed(Pace(0.0, 1, 1))
    assert governor.open
    governor.take(0.0, token=1)
    assert not governor.open
    governor.inflight -= 1
    governor.record.paused = True
    assert not governor.open


def test_a_clock_set_back_leaves_at_most_one_interval() -> None:
    governor = governed(Pace(2.0, 3, 9))
    sends(governor, now=1000.0)
    governor.set_back(10.0)
    assert governor.ready == 12.0
