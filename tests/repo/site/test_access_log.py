"""The witness must be beyond doubt: hand-made cases, and the definition taken literally."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.site.access_log import Hit, by_host, fetches, gaps, peak_concurrency, violations


def hit(arrived: float = 0.0, ended: float = 0.0, host: str = "a.test", path: str = "/") -> Hit:
    return Hit(arrived, ended, host, 200, path)


def test_requests_exactly_at_the_rate_are_allowed() -> None:
    assert violations([0.0, 0.2, 0.4, 0.6], rate=5, burst=1) == []


def test_no_requests_at_all_break_nothing() -> None:
    assert violations([], rate=5) == []


def test_one_request_too_early_is_found() -> None:
    [window] = violations([0.0, 0.2, 0.3, 0.6], rate=5, burst=1)

    assert (window.start, window.end, window.requests) == (0.2, 0.3, 2)
    assert window.allowed == pytest.approx(1.5)


def test_a_pause_does_not_save_up_turns_beyond_the_burst() -> None:
    assert violations([0.0, 10.0, 10.0], rate=5, burst=1)
    assert not violations([0.0, 10.0, 10.0], rate=5, burst=2)
    assert violations([0.0, 10.0, 10.0, 10.0], rate=5, burst=2)


def test_a_slow_leak_above_the_rate_is_found_although_no_single_gap_is_short() -> None:
    times = [n * 0.19 for n in range(50)]

    assert violations(times[:2], rate=5, burst=2) == []
    assert violations(times, rate=5, burst=2)


def test_the_order_of_the_log_does_not_matter() -> None:
    assert violations([0.4, 0.0, 0.2], rate=5) == []
    assert violations([0.4, 0.0, 0.1], rate=5)


def test_slack_forgives_an_early_request_by_that_much_and_no_more() -> None:
    assert violations([0.0, 0.195], rate=5, slack_s=0.005) == []
    assert violations([0.0, 0.19], rate=5, slack_s=0.005)


# Whole milliseconds and a rate of 8 keep the arithmetic of the definition exact.
@given(st.lists(st.integers(0, 3000), max_size=25), st.integers(1, 4))
def test_it_agrees_with_the_definition_taken_over_every_window(millis: list[int], burst: int) -> None:
    times = sorted(millis)
    broken = any(
        (j - i + 1 - burst) * 1000 > 8 * (times[j] - times[i])
        for i in range(len(times))
        for j in range(i, len(times))
    )

    assert bool(violations([t / 1000 for t in millis], rate=8, burst=burst)) is broken


def test_gaps_are_taken_in_order_of_time() -> None:
    assert gaps([3.0, 1.0, 6.0]) == [2.0, 3.0]


def test_peak_concurrency_counts_overlapping_requests() -> None:
    assert peak_concurrency([hit(0, 2), hit(1, 3), hit(1.5, 1.75), hit(5, 6)]) == 3


def test_a_request_that_starts_as_another_ends_does_not_overlap_it() -> None:
    assert peak_concurrency([hit(0, 1), hit(1, 2)]) == 1


def test_a_request_without_an_end_stays_open() -> None:
    assert peak_concurrency([hit(0, math.inf), hit(5, 6)]) == 2


def test_fetches_are_counted_per_url_and_robots_is_left_out() -> None:
    log = [hit(path="/a"), hit(path="/a"), hit(path="/robots.txt"), hit(host="b.test", path="/a")]

    assert fetches(log) == {"http://a.test/a": 2, "http://b.test/a": 1}


def test_hosts_are_told_apart_and_kept_in_order() -> None:
    early, late, other = hit(1), hit(2), hit(1.5, host="b.test")

    assert by_host([late, other, early]) == {"a.test": [early, late], "b.test": [other]}
