"""Counts of several workers, and what each of them takes from the others."""

from shoal.engine.traps.identical_pages import IdenticalPages
from shoal.model.traps.text_digest import SAMPLE

from shoal.engine.traps.counts import SPAN_S, TrapCounters, share_traps
from shoal.model.crawl_totals import ClosedPattern, CrawlTotals
from shoal.model.limits import LinkLimits

LIMIT = 10 * SAMPLE


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def url(n: int) -> str:
    return f"https://h{n}.a.example.com/s/{n}x/home"


def test_what_two_workers_have_counted_adds_up() -> None:
    one, other = TrapCounters("traps/one"), TrapCounters("traps/other")
    closed: dict[str, ClosedPattern] = {}
    pages = IdenticalPages(LIMIT, closed, other)
    for n in range(8):
        IdenticalPages(LIMIT, {}, one).count(url(n), 7)
        pages.count(url(100 + n), 7)
    assert not closed
    share_traps({"traps/one": one.dump(), "traps/other": other.dump()}, LinkLimits(), CrawlTotals(), other)
    pages.count(url(1000), 7)
    assert list(closed) == ["example.com/s/*/home"]
    assert pages.is_closed(url(5))
    assert not pages.is_closed("https://a.example.com/s/home")


def test_pages_that_differ_and_traps_that_are_a_minority_close_nothing() -> None:
    counters, closed = TrapCounters(), dict[str, ClosedPattern]()
    pages = IdenticalPages(LIMIT, closed, counters)
    for n in range(100):
        pages.count(url(n), n)
    for n in range(30):
        pages.count(url(n), 1)
    assert not closed


def test_a_limit_of_zero_allows_any_number() -> None:
    closed: dict[str, ClosedPattern] = {}
    pages = IdenticalPages(0, closed, TrapCounters())
    for n in range(100):
        pages.count(url(n), 7)
    assert not closed


def test_a_restart_continues_with_the_counts_but_urls_are_counted_per_hour() -> None:
    clock = Clock()
    counters = TrapCounters("traps/one", clock)
    counters.identical.add("x", 2 * SAMPLE)
    counters.identical.add("one sample", SAMPLE)
    counters.count_url("p", 128)
    stored = counters.dump()

    again = TrapCounters("traps/one", clock)
    again.restore(stored)
    assert (again.identical.add("x", 1), again.count_url("p", 64)) == (2 * SAMPLE + 1, 192)
    assert again.identical.get("one sample") == 0, "most names have one sample, and are not stored"

    clock.now += SPAN_S + 1
    late = TrapCounters("traps/one", clock)
    late.restore(stored)
    assert (late.identical.add("x", 1), late.count_url("p", 64)) == (2 * SAMPLE + 1, 64)
    late.set_others([stored])
    assert (late.identical.add("x", 1), late.count_url("p", 64)) == (4 * SAMPLE + 2, 128)


def test_what_cannot_be_read_counts_as_nothing() -> None:
    counters = TrapCounters()
    counters.restore(b"junk")
    counters.set_others([b"junk", b""])
    assert counters.identical.add("x", 1) == 1


def test_what_others_have_closed_is_closed_here_unless_the_limit_was_raised() -> None:
    theirs = CrawlTotals(identical={"s": ClosedPattern(500, "u")}, quarantined={"p": ClosedPattern(9, "u")})
    ours = CrawlTotals()
    limits = LinkLimits(identical_pages=500, per_pattern=10)
    share_traps({"sums/other": theirs.dump(), "sums/damaged": b"junk"}, limits, ours, TrapCounters())
    assert (list(ours.identical), list(ours.quarantined)) == (["s"], [])
