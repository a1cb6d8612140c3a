"""The row of an attempt says what the settlement says."""

import pytest
from tests.unit.engine.leased import lease

from shoal.archive.fetch_log import COLUMNS, LoggedAttempt
from shoal.engine.fetch_log.rows import acknowledgement_row, item_keys, settlement_row
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Filtered,
    Gone,
    Outcome,
    Released,
    Retry,
    Settlement,
)
from shoal.model.page import Item, PageRecord, PageRef, ParseResult, Timing

PAGE = PageRecord(PageRef("s-20261117-00001.warc.gz", 7, 9), 200, 1.0, items=2, links=3)
FAILED = Failure(FailureClass.TARGET_ERROR, "status 503", 503)


def logged(outcome: Outcome, *, result: ParseResult | None = None, lost: bool = False) -> LoggedAttempt:
    timing = Timing(
        started_at=5.0,
        total=0.25,
        queue=0.1,
        dns=0.01,
        connect=0.02,
        first_byte=0.05,
        wire_bytes=10,
        body_bytes=20,
    )
    row = settlement_row(
        Settlement(lease(4), outcome, timing=timing), result, worker="w", version="v1", lost=lost
    )
    assert row is not None
    assert len(row) == len(COLUMNS)
    return LoggedAttempt(*row)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Done(PAGE), ("done", 200, "", "")),
        (Fetched(PAGE), ("fetched", 200, "", "")),
        (Gone(410), ("gone", 410, "gone", "")),
        (Retry(FAILED, 2.0), ("retry", 503, "target_error", "status 503")),
        (Dead(FAILED), ("dead", 503, "target_error", "status 503")),
        (Filtered(FailureClass.ROBOTS, "disallowed"), ("filtered", 0, "robots", "disallowed")),
    ],
)
def test_a_row_has_the_outcome(outcome: Outcome, expected: tuple[str, int, str, str]) -> None:
    row = logged(outcome)
    assert (row.outcome, row.status, row.failure, row.reason) == expected
    assert (row.started_at, row.total_ms, row.queue_ms, row.dns_ms, row.first_byte_ms) == (
        5_000_000,
        250,
        100,
        10,
        50,
    )
    assert (row.wire_bytes, row.body_bytes, row.url, row.host) == (10, 20, "http://a.test/4", "a.test")
    assert (row.worker, row.attempt, row.pool, row.level, row.exit) == ("w", 1, "http", "plain", "")


def test_a_page_is_logged_with_its_place_and_what_it_brought() -> None:
    row = logged(Done(PAGE), result=ParseResult(1, (Item("a", b"{}"), Item("b\nc", b"{}")), cpu=0.004))
    assert (row.segment, row.offset, row.length, row.items) == (PAGE.ref.segment, 7, 9, 2)
    assert (row.version, row.parse_ms, row.item_keys) == ("v1", 4.0, "a\nb\\nc")
    assert logged(Done(PAGE)).version == ""  # not parsed


def test_the_exit_of_an_attempt_is_logged() -> None:
    through = Settlement(lease(4), Gone(404), timing=Timing(exit="gate-1"))
    row = settlement_row(through, None, worker="w", version="")
    assert row is not None
    assert LoggedAttempt(*row).exit == "gate-1"


def test_what_was_given_back_is_no_attempt() -> None:
    assert settlement_row(Settlement(lease(4), Released()), None, worker="w", version="") is None


def test_an_outcome_that_was_discarded_is_logged_as_lost() -> None:
    assert logged(Done(PAGE), lost=True).outcome == "lost"


def test_a_page_that_was_parsed_later_has_a_row_for_that() -> None:
    end = Acknowledgement("c", 4, Done(PAGE), host="a.test")
    row = LoggedAttempt(*acknowledgement_row(end, ParseResult(1), worker="p", version="v2"))
    assert (row.stage, row.outcome, row.fingerprint, row.worker, row.version) == (
        "parse",
        "done",
        4,
        "p",
        "v2",
    )
    assert (row.segment, row.items, row.sent) == (PAGE.ref.segment, 2, 0)


def test_keys_that_anyone_can_compute_and_those_beyond_the_limit_are_left_out() -> None:
    assert item_keys([Item("00000000000000ff-0", b"{}")]) == ""
    keys = item_keys([Item("k" * 60 + str(number), b"{}") for number in range(1000)]).split("\n")
    assert len(keys) < 70
    assert all(key.startswith("k" * 60) and key[60:].isdigit() for key in keys)
