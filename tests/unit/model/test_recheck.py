"""When a page is due again: a table of checks, the line of a generation, and a simulated site."""

import msgspec
import pytest
from bench.recheck import compare

from shoal.model.generations.page_history import PageHistory
from shoal.model.generations.recheck import DueLine, RecheckRules, budget_since, draw_line, load_line

HOUR, DAY = 3_600, 86_400
RULES = RecheckRules(first_s=DAY, shortest_s=HOUR, longest_s=30 * DAY)
NOW = 1_700_000_000


def page(interval_s: int = 0, waited_s: int = 0) -> PageHistory:
    return PageHistory(status=200, interval_s=interval_s, checked_at=NOW - waited_s)


@pytest.mark.parametrize(
    ("interval", "waited", "changed", "after"),
    [
        (0, DAY, False, 1.5 * DAY),  # not known yet: the first one
        (0, DAY, True, DAY / 2),
        (4 * DAY, 4 * DAY, False, 6 * DAY),
        (4 * DAY, 4 * DAY, True, 2 * DAY),
        (4 * DAY, 8 * DAY, False, 12 * DAY),  # it was late, and nothing had changed
        (4 * DAY, 8 * DAY, True, 2 * DAY),
        (4 * DAY, DAY, True, DAY / 2),  # it was early, and found a change
        (4 * DAY, DAY, False, 6 * DAY),
        (HOUR, HOUR, True, HOUR),
        (29 * DAY, 29 * DAY, False, 30 * DAY),
        (4 * DAY, -DAY, True, 2 * DAY),  # the clock was set back
    ],
)
def test_an_interval_follows_the_changes(interval: int, waited: int, changed: bool, after: float) -> None:
    assert RULES.after_check(page(interval, waited), NOW, changed=changed) == after


def chosen(pages: dict[int, PageHistory], budget: int | None) -> list[int]:
    line = draw_line(pages.items(), NOW, RULES, budget=budget)
    return [number for number, history in pages.items() if line.is_due(number, history)]


PAGES = {
    1: page(DAY, 2 * DAY),
    2: page(DAY, 4 * DAY),
    3: page(4 * DAY, 6 * DAY),
    4: page(4 * DAY, DAY),
    5: page(0, 3 * DAY),
    6: page(HOUR, HOUR // 2),  # asked a moment ago
}


@pytest.mark.parametrize(
    ("budget", "due"),
    [
        (None, [1, 2, 3, 5]),
        (1, [2]),
        (2, [2, 5]),
        (3, [1, 2, 5]),
        (100, [1, 2, 3, 4, 5]),
        (0, [2]),  # never none at all
    ],
)
def test_a_budget_goes_to_the_pages_that_are_most_overdue(budget: int | None, due: list[int]) -> None:
    assert chosen(PAGES, budget) == due


def test_pages_that_are_equally_overdue_do_not_exceed_a_budget() -> None:
    assert chosen({number: page(DAY, 2 * DAY) for number in range(100)}, 7) == list(range(93, 100))


def test_a_line_survives_the_store_and_junk_is_none() -> None:
    line = draw_line(PAGES.items(), NOW, RULES, budget=2)
    assert load_line(msgspec.msgpack.encode(line)) == line
    assert load_line(None) is load_line(b"junk") is None
    assert not DueLine(NOW).is_due(1, page(HOUR, HOUR - 1))


@pytest.mark.parametrize(
    ("per_day", "hours", "budget"), [(0, 5, None), (240, 1, 10), (24, 0.5, 0), (24, -5, 0), (1000, 48, 2000)]
)
def test_a_budget_per_day_counts_from_the_last_generation(
    per_day: float, hours: float, budget: int | None
) -> None:
    assert budget_since(per_day, NOW - hours * HOUR, NOW) == budget


def test_on_a_simulated_site_the_same_requests_see_more_changes_sooner() -> None:
    fixed, adaptive = compare().values()

    assert fixed.requests == adaptive.requests
    assert adaptive.seen > 1.7 * fixed.seen
    assert adaptive.mean_late_h < fixed.mean_late_h
