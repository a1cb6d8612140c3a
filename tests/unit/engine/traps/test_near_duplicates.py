"""Lookalikes: a pattern with too many near-identical pages is watched, and only what looks alike is a trap."""

import logging
import random

import pytest

from shoal.engine.traps.near_duplicates import NearDuplicateTrap
from shoal.model.crawl_totals import ClosedPattern
from shoal.model.simhash import SAMPLE

MOST = 10 * SAMPLE
SAME = 0x0123_4567_89AB_CDEF


def url(number: int, path: str = "calendar") -> str:
    return f"https://a.test/{path}/{number}"


def nearly(number: int) -> int:
    """Change one bit: what one word more or less does to a page."""
    return SAME ^ 1 << number % 64


def test_after_too_many_pages_alike_further_ones_are_a_trap(caplog: pytest.LogCaptureFixture) -> None:
    watched: dict[str, ClosedPattern] = {}
    told: list[str] = []
    lookalikes = NearDuplicateTrap(MOST, watched, told.append)
    with caplog.at_level(logging.WARNING):
        judged = [lookalikes.is_trap(url(number), nearly(number)) for number in range(20)]

    # The first page is nobody's double; then `MOST` of them, one page standing for `SAMPLE`, may come.
    assert judged == [False] * 11 + [True] * 9
    assert told == list(watched) == ["a.test/calendar/0"]
    assert watched["a.test/calendar/0"] == ClosedPattern(MOST, url(11))
    assert [record.message for record in caplog.records] == ["pages.lookalike"]


def test_pages_that_say_something_else_are_no_trap_even_where_others_are() -> None:
    rng = random.Random(1)
    lookalikes = NearDuplicateTrap(
        MOST, {"a.test/calendar/0": ClosedPattern(MOST, url(0))}, lambda pattern: None
    )
    assert not lookalikes.is_trap(url(1), SAME)
    assert lookalikes.is_trap(url(2), SAME)
    assert not any(lookalikes.is_trap(url(number), rng.getrandbits(64)) for number in range(100))
    assert not lookalikes.is_trap(url(3, "elsewhere"), SAME)


def test_without_a_limit_nothing_is_a_trap() -> None:
    lookalikes = NearDuplicateTrap(0, {}, lambda pattern: None)
    assert not any(lookalikes.is_trap(url(number), SAME) for number in range(1000))
