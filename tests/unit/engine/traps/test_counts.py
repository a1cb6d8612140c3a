"""Counts of several workers, and what each of them takes from the others."""

from shoal.engine.traps.counts import SPAN_S, TrapCounters, share_traps
from shoal.engine.traps.novelty import Novelty, Scores, ShapeVerdict
from shoal.model.crawl_totals import RELEASED, ClosedPattern, CrawlTotals
from shoal.model.limits import LinkLimits
from shoal.model.page import PageEvidence
from shoal.model.traps.page_evidence import SAMPLE

LIMIT = 10 * SAMPLE


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def judge(counters: TrapCounters, novelty: Novelty | None = None) -> ShapeVerdict:
    """Take in a page of which every worker has seen the text before."""
    novelty = novelty or Novelty(LIMIT, Scores(counters.nothing_new, counters.repeated, counters.doubts))
    return novelty.judge("example.com/s/*/home", PageEvidence(text=7), (), series=0, watched=False)


def test_what_two_workers_have_counted_adds_up() -> None:
    one, other = TrapCounters("traps/one"), TrapCounters("traps/other")
    workers = [(it, Novelty(LIMIT, Scores(it.nothing_new, it.repeated, it.doubts))) for it in (one, other)]
    for _ in range(8):
        assert {judge(*worker) for worker in workers}.isdisjoint({ShapeVerdict.CLOSE})
    share_traps({"traps/one": one.dump(), "traps/other": other.dump()}, LinkLimits(), CrawlTotals(), other)

    assert judge(*workers[1]) is ShapeVerdict.CLOSE
    assert judge(*workers[0]) is not ShapeVerdict.CLOSE


def test_a_restart_continues_with_the_counts_but_urls_are_counted_per_hour() -> None:
    clock = Clock()
    counters = TrapCounters("traps/one", clock)
    counters.repeated.add("x", 2 * SAMPLE)
    counters.repeated.add("one sample", SAMPLE)
    counters.held.add("x", 3)
    counters.count_url("p", 128)
    stored = counters.dump()

    again = TrapCounters("traps/one", clock)
    again.restore(stored)
    assert (again.repeated.add("x", 1), again.count_url("p", 64)) == (2 * SAMPLE + 1, 192)
    assert again.repeated.get("one sample") == 0, "most names have one sample, and are not stored"
    assert again.held.get("x") == 3

    clock.now += SPAN_S + 1
    late = TrapCounters("traps/one", clock)
    late.restore(stored)
    assert (late.repeated.add("x", 1), late.count_url("p", 64)) == (2 * SAMPLE + 1, 64)
    late.set_others([stored])
    assert (late.repeated.add("x", 1), late.count_url("p", 64)) == (4 * SAMPLE + 2, 128)


def test_what_cannot_be_read_counts_as_nothing() -> None:
    counters = TrapCounters()
    counters.restore(b"junk")
    counters.set_others([b"junk", b""])
    assert counters.repeated.add("x", 1) == 1


def test_what_others_have_closed_is_closed_here_unless_the_limit_was_raised_or_it_was_released() -> None:
    closed = {"s": ClosedPattern(500, "u"), "low": ClosedPattern(9, "u"), "free": ClosedPattern(500, "u")}
    theirs = CrawlTotals(closed=closed, large={"p": ClosedPattern(9, "u")})
    ours = CrawlTotals()
    limits = LinkLimits(nothing_new=500, per_pattern=10)
    values = {"sums/other": theirs.dump(), "sums/damaged": b"junk", RELEASED: b'["free"]'}
    share_traps(values, limits, ours, TrapCounters())
    assert (list(ours.closed), list(ours.large)) == (["s"], [])
    assert ours.released == {"free"}
