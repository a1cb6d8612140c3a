"""Adaptive slow-down: more trouble, longer pauses, within bounds; and close to what a server allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model.adaptive_delay import (
    WEIGHTS,
    Signal,
    SlowdownRules,
    next_slow_factor,
    stretch_interval,
    trouble_share,
)

RULES = SlowdownRules()
windows = st.text("01234567", min_size=1, max_size=100)


def test_too_few_responses_are_ignored_unless_they_are_429_or_503() -> None:
    assert next_slow_factor(1.0, "1" * 19, 0.5, RULES) == 1.0
    assert next_slow_factor(1.0, "1" * 20, 0.5, RULES) > 1.0
    assert next_slow_factor(1.0, "2", 0.5, RULES) > 1.0


@pytest.mark.parametrize(("signal", "weight"), list(zip(Signal, WEIGHTS, strict=True)))
def test_each_signal_slows_down_by_its_weight(signal: Signal, weight: float) -> None:
    window = "0" * 50 + "3" * 20 + "0" * 20 + str(int(signal))
    factor = next_slow_factor(2.0, window, 0.5, RULES)
    assert factor < 2.0 if weight == 0 else factor == pytest.approx(2.0 * (1 + 0.05 * weight), rel=1e-3)


def test_rare_trouble_slows_down_less() -> None:
    rare, often = "0" * 99 + "1", "0" * 90 + "1" * 4 + "00000" + "1"
    assert next_slow_factor(1.0, rare, 0.5, RULES) == pytest.approx(1 + 0.05 * 0.3935, rel=1e-3)
    assert next_slow_factor(1.0, often, 0.5, RULES) > next_slow_factor(1.0, rare, 0.5, RULES)


@given(windows, st.floats(1.0, 500.0), st.floats(0.001, 60.0))
def test_the_factor_stays_within_its_bounds(window: str, slow: float, interval: float) -> None:
    factor = next_slow_factor(slow, window, interval, RULES)
    assert 1.0 <= factor <= slow * 1.25 + 1e-6
    if window[-1] not in "02":
        assert factor <= max(slow, 1 + RULES.reach)
    if window[-1] == "0":
        assert factor <= slow
    assert 0 <= trouble_share(window) <= 1


@pytest.mark.parametrize(
    ("interval", "slow", "expected"),
    [
        (0.5, 1.0, 0.5),  # not slowed down
        (0.5, 4.0, 2.0),
        (0.02, 4.0, 0.08),
        (0.0, 1.0, 0.0),  # unlimited stays so until the host pushes back
        (0.0, 5.0, 0.5),  # then it counts as the floor
        (20.0, 9.0, 60.0),  # never beyond the ceiling
        (90.0, 9.0, 90.0),  # but never faster than it was configured
    ],
)
def test_an_interval_is_stretched_within_bounds(interval: float, slow: float, expected: float) -> None:
    assert stretch_interval(interval, slow, RULES) == pytest.approx(expected)


@pytest.mark.parametrize("configured", [0.02, 0.1, 0.19])
@pytest.mark.parametrize("burst", [1, 5])
def test_the_pace_settles_close_to_what_a_server_allows(configured: float, burst: int) -> None:
    """A server that serves 5 requests per second, with a bucket of `burst`, and refuses the rest."""
    now, bucket, filled_at, window, slow = 0.0, float(burst), 0.0, "", 1.0
    served: list[float] = []
    refused = 0
    while now < 300:
        interval = stretch_interval(configured, slow, RULES)
        now += interval
        bucket = min(bucket + (now - filled_at) * 5, burst)
        filled_at = now
        ok = bucket >= 1 - 1e-9
        bucket -= ok
        window = (window + ("0" if ok else "2"))[-RULES.window :]
        slow = next_slow_factor(slow, window, interval, RULES)
        if now > 30:
            served += [now] if ok else []
            refused += not ok
    assert 4.5 <= len(served) / 270 <= 5.0 + burst / 270
    assert refused / len(served) < 0.06
