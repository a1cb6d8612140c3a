"""Decisions that all backends share."""

import pytest

from shoal.frontier.rules import LOWEST_BAND, HostRecord, applied_pace, band, host_signal, parsed_again
from shoal.model.adaptive_delay import Signal, SlowdownRules
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Done, Filtered, Gone, Lease, Outcome, Released, Retry, Settlement
from shoal.model.pace import Pace
from shoal.model.page import PageRecord, PageRef
from shoal.model.request import Request

RULES = SlowdownRules()
FAST, SLOW = Pace(0.0, 9, 9), Pace(2.0, 3, 4)
LEASE = Lease("c", 1, 1, "a.test", Request(url="https://a.test/"), 1, 0, 0, 0.0, 0.0, 1)


def test_every_attempt_costs_a_priority_class_down_to_the_lowest() -> None:
    assert [band(5, attempts) for attempts in range(3)] == [5, 6, 7]
    assert band(10, 99) == LOWEST_BAND
    assert band(-3, 0) == 0


@pytest.mark.parametrize(
    ("record", "paces", "expected"),
    [
        (HostRecord(), [FAST, SLOW], SLOW),
        (HostRecord(), [Pace(1.0, 1, 9), Pace(0.5, 5, 2)], Pace(1.0, 1, 2)),
        (HostRecord(interval=5.0, burst=2, concurrency=1), [FAST], Pace(5.0, 2, 1)),
        (HostRecord(interval=0.0), [SLOW], Pace(0.0, 3, 4)),  # the operator may also speed a host up
        (HostRecord(crawl_delay=3.0), [SLOW], Pace(3.0, 1, 4)),
        (HostRecord(crawl_delay=1.0), [SLOW], SLOW),
        (HostRecord(slow=2.0), [SLOW], Pace(4.0, 1, 4)),
        (HostRecord(slow=2.0, crawl_delay=3.0), [SLOW], Pace(6.0, 1, 4)),
        (HostRecord(), [], Pace()),
    ],
)
def test_the_slowest_pace_applies(record: HostRecord, paces: list[Pace], expected: Pace) -> None:
    assert applied_pace(record, paces, RULES) == expected


def failed(kind: FailureClass, status: int = 0) -> Retry:
    return Retry(Failure(kind, "why", status), 1.0)


@pytest.mark.parametrize(
    ("outcome", "sent", "expected"),
    [
        (Done(PageRecord(PageRef("s", 0, 1), 200, 0.0)), True, Signal.NORMAL),
        (Gone(404), True, Signal.NORMAL),
        (Gone(404), False, None),
        (Dead(Failure(FailureClass.IP_BLOCKED, "403", 403)), True, Signal.FORBIDDEN),
        (Dead(Failure(FailureClass.ANTI_BOT, "challenge")), True, Signal.CHALLENGED),
        (failed(FailureClass.ANTI_BOT, 200), True, Signal.CHALLENGED),
        (failed(FailureClass.RATE_LIMITED, 429), True, Signal.RATE_LIMITED),
        (failed(FailureClass.TARGET_ERROR, 500), True, Signal.FAILED),
        (failed(FailureClass.TARGET_ERROR, 503), True, Signal.RATE_LIMITED),
        (failed(FailureClass.HTTP_ERROR, 400), True, Signal.NORMAL),
        (failed(FailureClass.TIMEOUT), True, Signal.TIMED_OUT),
        (failed(FailureClass.TIMEOUT), False, Signal.TIMED_OUT),
        (failed(FailureClass.CONNECT), False, Signal.RESET),
        (failed(FailureClass.TRUNCATED), True, Signal.RESET),
        (failed(FailureClass.DNS), False, None),
        (failed(FailureClass.PROXY_ERROR, 502), True, None),
        (Filtered(FailureClass.ROBOTS), True, None),
        (Released(), True, None),
    ],
)
def test_an_attempt_says_what_it_does_about_its_host(
    outcome: Outcome, sent: bool, expected: Signal | None
) -> None:
    assert host_signal(Settlement(LEASE, outcome, sent=sent)) is expected


def test_a_signal_that_the_fetcher_gives_goes_first() -> None:
    done = Done(PageRecord(PageRef("s", 0, 1), 200, 0.0))
    assert host_signal(Settlement(LEASE, done, signal=Signal.LATE)) is Signal.LATE


def test_a_page_is_parsed_again_only_if_it_is_archived_and_at_fault() -> None:
    assert parsed_again(FailureClass.PARSE_ERROR, archived=True)
    assert parsed_again(FailureClass.POISON, archived=True)
    assert not parsed_again(FailureClass.POISON, archived=False)
    assert not parsed_again(FailureClass.HTTP_ERROR, archived=True)
