"""Pace: no window ever holds more than its burst and its rate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model.pace import DelayEstimate, Pace, clamp, next_turn, take, turns

# Whole eighths add and multiply without rounding, so that the bound can be compared exactly.
eighths = st.integers(0, 400).map(lambda number: number / 8)
intervals = st.integers(1, 40).map(lambda number: number / 8)
bursts = st.integers(1, 6)


@given(st.lists(st.tuples(eighths, st.integers(1, 9)), min_size=1, max_size=40), intervals, bursts)
def test_no_window_holds_more_than_its_burst_and_its_rate(
    asks: list[tuple[float, int]], interval: float, burst: int
) -> None:
    now, tat = 0.0, 0.0
    sent: list[float] = []
    for pause, wanted in asks:
        now += pause
        count = min(wanted, turns(tat, now=now, interval=interval, burst=burst))
        if count:
            tat = take(tat, now=now, interval=interval, count=count)
            sent += [now] * count
    for first, begin in enumerate(sent):
        for last in range(first, len(sent)):
            assert last - first + 1 <= burst + (sent[last] - begin) / interval


@given(eighths, eighths, intervals, bursts)
def test_a_turn_is_due_exactly_when_its_time_has_come(
    tat: float, now: float, interval: float, burst: int
) -> None:
    due = next_turn(tat, interval=interval, burst=burst) <= now
    assert (turns(tat, now=now, interval=interval, burst=burst) > 0) == due


@given(eighths, intervals, bursts)
def test_an_idle_host_has_its_whole_burst_and_no_more(now: float, interval: float, burst: int) -> None:
    assert turns(-1e6, now=now, interval=interval, burst=burst) == burst
    spent = take(-1e6, now=now, interval=interval, count=burst)
    assert turns(spent, now=now, interval=interval, burst=burst) == 0
    assert next_turn(spent, interval=interval, burst=burst) == now + interval


def test_an_interval_of_zero_means_no_limit() -> None:
    assert turns(0.0, now=0.0, interval=0.0, burst=1) > 1_000_000
    assert take(0.0, now=5.0, interval=0.0, count=1000) == 5.0
    assert next_turn(5.0, interval=0.0, burst=1) == 5.0


@given(eighths, eighths, intervals, bursts)
def test_after_the_clock_was_set_back_a_turn_is_at_most_one_interval_away(
    tat: float, now: float, interval: float, burst: int
) -> None:
    clamped = clamp(tat, now=now, interval=interval, burst=burst)
    assert clamped <= tat
    assert next_turn(clamped, interval=interval, burst=burst) <= now + interval


@pytest.mark.parametrize(
    ("calls", "typical", "worst"),
    [
        ([0.1], 0.1, 0.1),
        ([0.9, 0.1], 0.1, 0.1),  # the first call may have connected
        ([0.1, 0.1, 0.1], 0.1, 0.1),
        ([0.1, 0.1, 0.6], 0.2, 0.6),
        ([0.1, 0.1, 0.6, 0.2], 0.2, 0.56),
        ([0.5, 0.5, 0.1], 0.42, 0.492),
        ([9.0, 9.0], DelayEstimate.CEILING_S, DelayEstimate.CEILING_S),
    ],
)
def test_a_delay_follows_the_calls_and_an_outlier_fades(
    calls: list[float], typical: float, worst: float
) -> None:
    estimate = DelayEstimate()
    for seconds in calls:
        estimate.note(seconds)

    assert (estimate.typical, estimate.worst) == pytest.approx((typical, worst))


def test_without_settings_requests_leave_one_by_one_at_half_a_second() -> None:
    assert (Pace().interval, Pace().burst, Pace().concurrency) == (0.5, 1, 4)
