"""When an exit rests, and how it comes back."""

import pytest

from shoal.model.exits import health
from shoal.model.exits.health import (
    ExitDelta,
    ExitRecord,
    is_out,
    is_unhealthy,
    merge,
    needs_probe,
    success_rate,
)

NOW = 1_000_000.0


def seen(text: str) -> ExitDelta:
    """Return what a process has seen: one letter per request, `+` or `-`."""
    delta = ExitDelta()
    for letter in text:
        delta.succeed() if letter == "+" else delta.fail("timed out")
    return delta


def after(*texts: str, record: ExitRecord | None = None, now: float = NOW) -> ExitRecord:
    found = record or ExitRecord()
    for text in texts:
        found = merge(found, seen(text), now, cool_off=30.0)
    return found


@pytest.mark.parametrize(
    ("requests", "rests"),
    [
        ("", False),
        ("----", False),  # fewer than five: no evidence
        ("-----", True),
        ("+-+-+-", False),  # half of them succeed
        ("--+--+-", True),  # fewer than half
        ("++++++++++-----", True),  # five in a row, whatever was before
        ("-----+", False),
    ],
)
def test_an_exit_rests_below_half_success_or_after_five_failures_in_a_row(requests: str, rests: bool) -> None:
    assert is_out(after(requests), NOW) is rests


@pytest.mark.parametrize("cut", range(1, 6))
def test_it_makes_no_difference_which_process_has_seen_a_failure(cut: int) -> None:
    text = "+-----"
    assert is_out(after(text[:cut], text[cut:]), NOW)


def test_an_exit_without_requests_succeeds_always() -> None:
    assert success_rate(ExitRecord(), NOW) == (1.0, 0)


def test_what_is_long_past_does_not_count() -> None:
    burned = after("+" * 1000)
    later = NOW + health.WINDOW_S + health.BUCKET_S
    assert success_rate(burned, later) == (1.0, 0)
    record = merge(burned, seen("---+--"), later, cool_off=30.0)
    assert is_out(record, later)
    assert record.total == 1006
    assert record.successes == 1001


def test_a_rest_ends_with_a_probe_that_brings_the_exit_back_or_lets_it_rest_for_twice_as_long() -> None:
    record = after("-----")
    for seconds in (30.0, 60.0, 120.0):
        began = record.last_failure
        assert record.rest_until == began + seconds
        assert not needs_probe(record, began + seconds - 1)
        later = began + seconds + 1
        assert needs_probe(record, later)
        probing = health.probed(record, later)
        assert is_out(probing, later), "only one request at a time probes it"
        record = merge(probing, seen("-"), later, cool_off=30.0)
    back = merge(record, seen("+"), record.rest_until + 1, cool_off=30.0)
    assert not is_out(back, record.rest_until + 1)
    assert not needs_probe(back, record.rest_until + 1)
    assert not is_unhealthy(back, record.rest_until + 1)
    assert back.rests == 0


def test_a_failure_of_a_request_that_was_under_way_does_not_lengthen_a_rest() -> None:
    record = after("-----")
    assert merge(record, seen("---"), NOW + 1, cool_off=30.0).rest_until == record.rest_until


def test_a_refused_password_rests_at_once_and_for_long() -> None:
    delta = ExitDelta()
    delta.fail("status 407", login=True)
    record = merge(after("++++++++"), delta, NOW, cool_off=30.0)
    assert (record.cause, record.rest_until) == (health.LOGIN, NOW + health.LOGIN_REST_S)


def test_a_rest_by_hand_lasts_although_requests_succeed() -> None:
    record = health.rested_by_hand(ExitRecord(), NOW, 600.0)
    assert is_out(after("+++", record=record), NOW)


def test_the_success_of_an_exit_that_rests_is_that_of_its_failures() -> None:
    record = merge(ExitRecord(), ExitDelta(failures=5, run=5), 1_000.0, cool_off=30.0)
    assert record.rest_until
    assert success_rate(record, 1_000.0) == (0.0, 5)
    assert success_rate(record, 10_000.0) == (0.0, 0), "of all requests, if the window is empty"
