"""Adaptive slow-down: more blocks, longer pauses, within bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model.adaptive_delay import ResponseWindow, SlowdownRules, slow_factor, stretch_interval

RULES = SlowdownRules()


def test_too_few_responses_are_ignored() -> None:
    assert slow_factor(19, 19, RULES) == 1.0
    assert slow_factor(20, 20, RULES) > 1.0


def test_no_blocks_no_slow_down() -> None:
    assert slow_factor(0, 1000, RULES) == 1.0


def test_the_threshold_is_where_two_thirds_of_the_reach_are_used() -> None:
    assert slow_factor(2, 100, RULES) == pytest.approx(1 + 9 * (1 - 0.36788), rel=1e-4)


@given(st.integers(20, 500), st.data())
def test_more_blocks_never_shorten_the_interval(answers: int, data: st.DataObject) -> None:
    blocked = data.draw(st.integers(0, answers - 1))
    less, more = slow_factor(blocked, answers, RULES), slow_factor(blocked + 1, answers, RULES)
    assert 1.0 <= less <= more <= 1.0 + RULES.reach


@pytest.mark.parametrize(
    ("interval", "slow", "expected"),
    [
        (0.5, 1.0, 0.5),  # not slowed down
        (0.5, 4.0, 2.0),
        (0.0, 1.0, 0.0),  # unlimited stays so until the host pushes back
        (0.0, 5.0, 0.5),  # then it counts as the floor
        (20.0, 9.0, 60.0),  # never beyond the ceiling
        (90.0, 9.0, 90.0),  # but never faster than it was configured
    ],
)
def test_an_interval_is_stretched_within_bounds(interval: float, slow: float, expected: float) -> None:
    assert stretch_interval(interval, slow, RULES) == pytest.approx(expected)


@given(st.lists(st.booleans(), max_size=60))
def test_a_window_holds_only_the_last_responses(answers: list[bool]) -> None:
    rules = SlowdownRules(at_least=3, window=10)
    window = ResponseWindow(rules)
    for count, blocked in enumerate(answers, 1):
        last = answers[max(0, count - 10) : count]
        assert window.note(blocked) == slow_factor(sum(last), len(last), rules)
        assert window.is_significant == (count >= 3)


def test_a_window_without_blocks_restores_the_pace() -> None:
    window = ResponseWindow(SlowdownRules(at_least=2, window=5))
    window.note(True)
    assert window.note(False) > 1.0
    assert [window.note(False) for _ in range(4)][-1] == 1.0
