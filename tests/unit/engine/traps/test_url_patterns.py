"""Large patterns: one that brings very many URLs is named, and nothing is closed."""

import logging

import pytest

from shoal.engine.traps.counts import SPAN_S, TrapCounters
from shoal.engine.traps.counts import URL_SAMPLE as SAMPLE
from shoal.engine.traps.url_patterns import LargePatterns
from shoal.model.crawl_totals import ClosedPattern
from shoal.model.request import Link, Request

MOST = 50 * SAMPLE


def links(path: str, start: int, count: int, host: str = "a.test") -> list[Link]:
    return [Link.to(Request(url=f"https://{host}/{path.format(n)}")) for n in range(start, start + count)]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_pattern_with_very_many_urls_is_named_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    large: dict[str, ClosedPattern] = {}
    patterns = LargePatterns(MOST, large)
    with caplog.at_level(logging.WARNING):
        patterns.count(links("calendar/{}", 0, 3 * MOST))
        patterns.count(links("calendar/{}/day", 0, MOST // 2))

    assert list(large) == ["a.test/calendar/0"]
    [told] = [record for record in caplog.records if record.message == "links.large_pattern"]
    assert vars(told)["pattern"] == "a.test/calendar/0"
    assert vars(told)["example"].startswith("https://a.test/calendar/")


def test_what_comes_slowly_enough_is_never_named() -> None:
    clock, large = Clock(), dict[str, ClosedPattern]()
    patterns = LargePatterns(MOST, large, TrapCounters(clock=clock))
    for hour in range(5):
        clock.now = hour * (SPAN_S + 1)
        patterns.count(links("p/{}", hour * MOST, MOST // 2))
    assert not large


def test_the_same_urls_over_and_over_are_no_more_than_they_are() -> None:
    large: dict[str, ClosedPattern] = {}
    patterns = LargePatterns(MOST, large)
    found = links("p/{}", 0, MOST // 2)
    for _ in range(10):
        patterns.count(found)
    assert not large


def test_without_a_limit_nothing_is_looked_at() -> None:
    LargePatterns(0).count([Link(0, "a.test", 5, "http", b"not a request")] * 100)
