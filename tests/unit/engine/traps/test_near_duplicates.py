"""Near-duplicates: a pattern with too many is watched, and only pages that resemble another are a trap."""

import logging
import random

import pytest
from shoal.engine.traps.near_duplicates import NearDuplicateTrap

from shoal.model.crawl_totals import ClosedPattern
from shoal.model.traps.simhash import SAMPLE

LIMIT = 10 * SAMPLE
SAME = 0x0123_4567_89AB_CDEF


def url(number: int, path: str = "calendar") -> str:
    return f"https://a.test/{path}/{number}"


def nearly(number: int) -> int:
    """Change one bit: what one word more or less does to a page."""
    return SAME ^ 1 << number % 64


def test_after_too_many_near_duplicates_further_ones_are_a_trap(caplog: pytest.LogCaptureFixture) -> None:
    watched: dict[str, ClosedPattern] = {}
    reported: list[str] = []
    trap = NearDuplicateTrap(LIMIT, watched, reported.append)
    with caplog.at_level(logging.WARNING):
        judged = [trap.is_trap(url(number), nearly(number)) for number in range(20)]

    # The first page has no double; then `LIMIT` are allowed, and one page represents `SAMPLE`.
    assert judged == [False] * 11 + [True] * 9
    assert reported == list(watched) == ["a.test/calendar/0"]
    assert watched["a.test/calendar/0"] == ClosedPattern(LIMIT, url(11))
    assert [record.message for record in caplog.records] == ["pages.near_duplicates"]


def test_pages_with_other_text_are_not_a_trap() -> None:
    rng = random.Random(1)
    trap = NearDuplicateTrap(LIMIT, {"a.test/calendar/0": ClosedPattern(LIMIT, url(0))}, lambda pattern: None)
    assert not trap.is_trap(url(1), SAME)
    assert trap.is_trap(url(2), SAME)
    assert not any(trap.is_trap(url(number), rng.getrandbits(64)) for number in range(100))
    assert not trap.is_trap(url(3, "elsewhere"), SAME)


def test_without_a_limit_nothing_is_a_trap() -> None:
    trap = NearDuplicateTrap(0, {}, lambda pattern: None)
    assert not any(trap.is_trap(url(number), SAME) for number in range(1000))
