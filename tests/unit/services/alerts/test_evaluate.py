"""When conditions become alerts, and when alerts end."""

import pytest
from tests.unit.services.alerts.observed import NOW, crawl, figures, seen

from shoal.model.alert import MAX_RECENT, Alert, AlertBook, AlertKind, Level, dump_book, read_book
from shoal.model.settings import AlertSettings
from shoal.services.alerts.evaluate import MAX_OPEN, apply_conditions, clear_all, evaluate, stop_all
from shoal.services.alerts.watch import Claim
from shoal.services.alerts.window import since
from shoal.worker.figures import current_figures

RULES = AlertSettings(wait=10.0, calm=20.0)
DEEP = crawl(counts={"waiting": 200_000})


def condition(kind: AlertKind = AlertKind.QUEUE_DEPTH, about: str = "", *, at: float = NOW) -> Alert:
    return Alert(kind=kind, about=about, cause="why", since=at, held_at=at)


def test_a_condition_becomes_an_alert_when_it_has_held_for_long_enough() -> None:
    first = evaluate([seen(DEEP)], RULES, AlertBook(), by="w1")
    assert first.raised == []
    assert first.book.active == []
    soon = evaluate([seen(DEEP, at=NOW + 9)], RULES, first.book)
    assert soon.raised == []
    raised = evaluate([seen(DEEP, at=NOW + 10)], RULES, soon.book)
    [alert] = raised.raised
    assert (alert.since, alert.raised_at) == (NOW, NOW + 10)
    again = evaluate([seen(DEEP, at=NOW + 15)], RULES, raised.book)
    assert again.raised == []
    assert len(again.book.active) == 1


def test_a_condition_that_ends_early_never_becomes_an_alert() -> None:
    first = evaluate([seen(DEEP)], RULES, AlertBook())
    over = evaluate([seen(at=NOW + 5)], RULES, first.book)
    later = evaluate([seen(DEEP, at=NOW + 12)], RULES, over.book)
    assert later.raised == []
    assert later.cleared == []


def test_an_alert_is_cleared_when_its_condition_has_been_over_for_long_enough() -> None:
    book = AlertBook(open=(Alert(kind=AlertKind.LATENCY, cause="w", since=NOW, raised_at=NOW, held_at=NOW),))
    still = apply_conditions([], RULES, book, NOW + 19)
    assert still.cleared == []
    assert len(still.book.active) == 1
    back = apply_conditions([condition(AlertKind.LATENCY, at=NOW + 19.5)], RULES, still.book, NOW + 19.5)
    assert back.raised == []  # it was not over
    calm = apply_conditions([], RULES, back.book, NOW + 30)
    assert calm.cleared == []
    cleared = apply_conditions([], RULES, calm.book, NOW + 40)
    assert [alert.cleared_at for alert in cleared.cleared] == [NOW + 40]
    assert cleared.book.active == []
    assert len(cleared.book.recent) == 1


def test_events_are_raised_at_once() -> None:
    done = apply_conditions([condition(AlertKind.TRAP_CLOSED, "shop")], RULES, AlertBook(), NOW)
    assert len(done.raised) == 1


def test_what_was_done_stays_with_the_alert() -> None:
    held = Alert(
        kind=AlertKind.LATENCY, cause="w", since=NOW, raised_at=NOW, held_at=NOW, done="it is paused"
    )
    done = apply_conditions(
        [condition(AlertKind.LATENCY, at=NOW + 1)], RULES, AlertBook(open=(held,)), NOW + 1
    )
    assert done.book.open[0].text == "why; it is paused"


def test_the_worst_come_first() -> None:
    conditions = [
        condition(AlertKind.TRAP_CLOSED, "shop"),
        Alert(kind=AlertKind.STAGE_STALLED, level=Level.CRITICAL, cause="w", since=NOW, held_at=NOW),
    ]
    done = apply_conditions(conditions, RULES, AlertBook(), NOW)
    assert [alert.kind for alert in done.book.active] == [AlertKind.STAGE_STALLED, AlertKind.TRAP_CLOSED]


def test_what_is_kept_is_bounded() -> None:
    many = [condition(AlertKind.TRAP_CLOSED, str(number)) for number in range(1_000)]
    book = apply_conditions(many, RULES, AlertBook(), NOW).book
    assert len(book.open) == MAX_OPEN
    cleared = apply_conditions([], RULES, book, NOW + 100)
    assert len(cleared.book.recent) == MAX_RECENT
    assert len(dump_book(cleared.book)) < 20_000


def test_the_end_of_a_crawl_in_a_folder_clears_its_alerts() -> None:
    book = apply_conditions([condition(AlertKind.TRAP_CLOSED, "shop")], RULES, AlertBook(), NOW).book
    ended = clear_all(book, NOW + 1)
    assert ended.book.open == ()
    assert len(ended.cleared) == len(ended.book.recent) == 1


def test_a_stored_book_is_read_again_and_rubbish_counts_as_none() -> None:
    book = apply_conditions([condition()], RULES, AlertBook(), NOW).book
    assert read_book(dump_book(book)) == book
    assert read_book(b"\xff\x00") == read_book(b"") == read_book(None) == AlertBook()


def test_a_clock_that_was_set_back_neither_keeps_an_alert_nor_holds_one_up() -> None:
    ahead = NOW + 3600
    held = Alert(kind=AlertKind.LATENCY, cause="w", since=ahead, raised_at=ahead, held_at=ahead)
    pending = Alert(kind=AlertKind.QUEUE_DEPTH, cause="w", since=ahead, held_at=ahead)
    book = AlertBook(at=ahead, open=(held, pending))
    assert not book.is_current(NOW)
    done = apply_conditions([condition(at=NOW)], RULES, book, NOW)
    assert [alert.kind for alert in done.cleared] == [AlertKind.LATENCY]
    later = apply_conditions([condition(at=NOW + 10)], RULES, done.book, NOW + 10)
    assert [(alert.since, alert.raised_at) for alert in later.raised] == [(NOW, NOW + 10)]


def test_observations_from_before_a_clock_was_set_back_are_not_compared_with() -> None:
    kept = since([seen(at=NOW - 400), seen(at=NOW - 20), seen(at=NOW + 3600)], NOW, 300.0)
    assert [one.at for one in kept] == [NOW - 20]


def test_figures_of_a_clock_that_is_far_off_are_not_used() -> None:
    reported = {name: figures(name, at=at) for name, at in (("a", NOW), ("b", NOW + 900), ("c", NOW - 900))}
    assert [one.worker for one in current_figures(reported, NOW)] == ["a"]


@pytest.mark.parametrize(
    ("until", "length_s", "is_valid"),
    [
        (NOW + 10, 15.0, True),
        (NOW - 1, 15.0, False),  # it has expired
        (NOW + 3600, 15.0, False),  # its holder's clock was set back since, or is far ahead
        (NOW + 3600, 3600.0, True),
    ],
)
def test_a_claim_holds_for_as_long_as_it_was_taken_for(
    until: float, length_s: float, *, is_valid: bool
) -> None:
    assert Claim("w1", until, length_s).is_valid(NOW) is is_valid


def test_the_alerts_of_a_crawl_that_is_stopped_are_unknown_and_its_next_run_continues_with_them() -> None:
    begun = apply_conditions([condition(AlertKind.LATENCY, at=NOW - 60)], RULES, AlertBook(), NOW - 60).book
    book = apply_conditions([condition(AlertKind.LATENCY)], RULES, begun, NOW).book
    stopped = stop_all(book, NOW + 1)
    assert [alert.kind for alert in stopped.unknown] == [AlertKind.LATENCY]
    assert stopped.recent == ()  # nothing is known to be over
    again = NOW + 5_000
    first = apply_conditions([], RULES, stopped, again)
    assert (first.cleared, first.raised, first.book.unknown) == ([], [], [])
    assert len(first.book.active) == 1
    assert len(apply_conditions([], RULES, first.book, again + RULES.calm).cleared) == 1


def test_what_failed_by_the_records_of_a_schedule_outlives_the_crawl() -> None:
    book = apply_conditions([condition(AlertKind.SCHEDULE_FAILED, "a")], RULES, AlertBook(), NOW).book
    assert clear_all(book, NOW + 1).cleared == []
    assert len(clear_all(book, NOW + 1).book.active) == 1
    assert stop_all(book, NOW + 1).unknown == []


def test_a_value_that_swings_around_its_limit_is_one_alert() -> None:
    book, raised, cleared = AlertBook(), 0, 0
    for round_ in range(400):  # every five seconds; above the limit for a minute, then just below it for one
        waiting = 101_000 if round_ % 24 < 12 else 99_000
        done = evaluate([seen(crawl(counts={"waiting": waiting}), at=NOW + 5 * round_)], RULES, book)
        book, raised, cleared = done.book, raised + len(done.raised), cleared + len(done.cleared)
    assert (raised, cleared) == (1, 0)
    over = evaluate([seen(crawl(counts={"waiting": 80_000}), at=NOW + 5_000)], RULES, book)
    assert len(over.cleared) == 1


def test_an_alert_that_is_raised_again_and_again_ends_later_each_time() -> None:
    book, raised = AlertBook(), 0
    for round_ in range(180):  # 15 minutes; the condition holds for 30 s and is over for 30 s
        held = [condition(at=NOW + 5 * round_)] if round_ % 12 < 6 else []
        done = apply_conditions(held, RULES, book, NOW + 5 * round_)
        book, raised = done.book, raised + len(done.raised)
    assert raised == 2
