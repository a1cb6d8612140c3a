"""Sums of a crawl's life: what a new run takes over, and what it lets go."""

from shoal.model.crawl_totals import ClosedPattern, CrawlTotals

CLOSED = {"a.test/p/0": ClosedPattern(100, "https://a.test/p/1")}


def test_they_are_the_same_after_a_restart() -> None:
    sums = CrawlTotals({"trap": 7}, rejected=2, hook_items=3, hook_faults=1, closed=dict(CLOSED))
    assert CrawlTotals.load(sums.dump()) == sums
    assert CrawlTotals.load(None) == CrawlTotals(items=0)


def test_items_are_not_added_up_where_an_earlier_version_has_not_begun_to() -> None:
    sums = CrawlTotals.load(b'{"rejected":1}')

    assert not sums.add_items(5)
    assert CrawlTotals.load(sums.dump()).items == -1


def test_a_run_with_higher_limits_reopens_closed_patterns() -> None:
    def after(*, per_pattern: int, nothing_new: int) -> tuple[bool, bool]:
        sums = CrawlTotals(large=dict(CLOSED), closed=dict(CLOSED))
        sums.reopen(per_pattern=per_pattern, nothing_new=nothing_new)
        return bool(sums.large), bool(sums.closed)

    assert after(per_pattern=100, nothing_new=50) == (True, True)
    assert after(per_pattern=101, nothing_new=100) == (False, True)
    assert after(per_pattern=100, nothing_new=0) == (True, False)
