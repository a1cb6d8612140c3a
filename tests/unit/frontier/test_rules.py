"""Decisions that all backends share."""

import pytest

from shoal.frontier.rules import LOWEST_BAND, HostRecord, applied_pace, band, host_responded, parsed_again
from shoal.model.adaptive_delay import SlowdownRules
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


@pytest.mark.parametrize(
    ("outcome", "blocked", "sent", "expected"),
    [
        (Done(PageRecord(PageRef("s", 0, 1), 200, 0.0)), False, True, True),
        (Gone(404), False, True, True),
        (Gone(404), False, False, False),
        (Dead(Failure(FailureClass.IP_BLOCKED, "403", 403)), True, True, True),
        (Dead(Failure(FailureClass.ANTI_BOT, "challenge")), True, True, True),
        (Retry(Failure(FailureClass.TARGET_ERROR, "500", 500), 1.0), False, True, True),
        (Retry(Failure(FailureClass.TIMEOUT, "no answer"), 1.0), False, True, False),
        (Filtered(FailureClass.ROBOTS), False, True, False),
        (Released(), False, True, False),
    ],
)
def test_only_a_response_counts_for_slow_down(
    outcome: Outcome, blocked: bool, sent: bool, expected: bool
) -> None:
    assert host_responded(Settlement(LEASE, outcome, blocked=blocked, sent=sent)) is expected


def test_a_page_is_parsed_again_only_if_it_is_archived_and_at_fault() -> None:
    assert parsed_again(FailureClass.PARSE_ERROR, archived=True)
    assert parsed_again(FailureClass.POISON, archived=True)
    assert not parsed_again(FailureClass.POISON, archived=False)
    assert not parsed_again(FailureClass.HTTP_ERROR, archived=True)
