"""Quarantine: a pattern that brings more URLs than any site has is closed, and nothing else is."""

import logging

import pytest

from shoal.engine.traps.counts import SPAN_S, TrapCounters
from shoal.engine.traps.counts import URL_SAMPLE as SAMPLE
from shoal.engine.traps.url_patterns import PatternQuarantine
from shoal.model.crawl_totals import ClosedPattern
from shoal.model.request import Link, Request

MOST = 50 * SAMPLE


def links(path: str, start: int, count: int, host: str = "a.test") -> list[Link]:
    return [Link.to(Request(url=f"https://{host}/{path.format(n)}")) for n in range(start, start + count)]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_pattern_that_brings_too_much_is_closed_told_and_alone_in_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quarantine = PatternQuarantine(MOST)
    with caplog.at_level(logging.WARNING):
        quarantine.admitted(links("calendar/{}", 0, 3 * MOST))

    assert not quarantine.admitted(links("calendar/{}", 9 * MOST, 100))
    assert len(quarantine.admitted(links("calendar/{}/day", 0, 100))) == 100
    assert len(quarantine.admitted(links("calendar/{}", 0, 100, host="b.test"))) == 100
    [told] = [record for record in caplog.records if record.message == "links.quarantined"]
    assert vars(told)["pattern"] == "a.test/calendar/0"
    assert vars(told)["example"].startswith("https://a.test/calendar/")


def test_what_comes_slowly_enough_is_never_closed() -> None:
    clock = Clock()
    quarantine = PatternQuarantine(MOST, counters=TrapCounters(clock=clock))
    for hour in range(5):
        clock.now = hour * (SPAN_S + 1)
        found = links("p/{}", hour * MOST, MOST // 2)
        assert quarantine.admitted(found) == found


def test_the_same_urls_over_and_over_are_no_more_than_they_are() -> None:
    quarantine = PatternQuarantine(MOST)
    found = links("p/{}", 0, MOST // 2)
    for _ in range(10):
        assert quarantine.admitted(found) == found


def test_what_an_earlier_run_closed_stays_closed_and_is_kept_for_the_next() -> None:
    closed = {"a.test/calendar/0": ClosedPattern(MOST, "https://a.test/calendar/1")}
    quarantine = PatternQuarantine(MOST, closed)

    assert not quarantine.admitted(links("calendar/{}", 0, 10))
    quarantine.admitted(links("p/{}", 0, 3 * MOST))
    assert list(closed) == ["a.test/calendar/0", "a.test/p/0"]


def test_without_a_limit_nothing_is_looked_at() -> None:
    broken = [Link(0, "a.test", 5, "http", b"not a request")] * 100
    assert PatternQuarantine(0).admitted(broken) is broken
