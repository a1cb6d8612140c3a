"""Quarantine: a pattern that brings more URLs than any site has is closed, and nothing else is."""

import logging

import pytest

from shoal.model.request import Link, Request
from shoal.runtime.quarantine import SAMPLE, SPAN, Quarantine, pattern_of

MOST = 50 * SAMPLE


def links(path: str, start: int, count: int, host: str = "a.test") -> list[Link]:
    return [Link.to(Request(url=f"https://{host}/{path.format(n)}")) for n in range(start, start + count)]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_numbers_of_a_url_and_the_values_of_its_query_make_no_other_pattern() -> None:
    assert pattern_of("https://a.test/p/12/x-7?page=3&q=z") == pattern_of("https://a.test/p/9/x-1?page=4&q=y")
    assert pattern_of("https://a.test/p/12?page=3") != pattern_of("https://a.test/p/12?sort=3")
    assert pattern_of("http://a.test/p/1") == "a.test/p/0"
    assert pattern_of("https://a1.test/p/1") != pattern_of("https://a2.test/p/1")


def test_a_pattern_that_brings_too_much_is_closed_told_and_alone_in_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quarantine = Quarantine(MOST)
    with caplog.at_level(logging.WARNING):
        quarantine.admitted(links("calendar/{}", 0, 3 * MOST))

    assert not quarantine.admitted(links("calendar/{}", 9 * MOST, 100))
    assert len(quarantine.admitted(links("calendar/{}/day", 0, 100))) == 100
    assert len(quarantine.admitted(links("calendar/{}", 0, 100, host="b.test"))) == 100
    [told] = [record for record in caplog.records if record.message == "links.quarantined"]
    assert vars(told)["pattern"] == "a.test/calendar/0"


def test_what_comes_slowly_enough_is_never_closed() -> None:
    clock = Clock()
    quarantine = Quarantine(MOST, clock)
    for hour in range(5):
        clock.now = hour * (SPAN + 1)
        found = links("p/{}", hour * MOST, MOST // 2)
        assert quarantine.admitted(found) == found


def test_without_a_limit_nothing_is_looked_at() -> None:
    broken = [Link(0, "a.test", 5, "http", b"not a request")] * 100
    assert Quarantine(0).admitted(broken) is broken
