"""Sums of a crawl's life: what a new run takes over, and what it lets go."""

from shoal.model.crawl_totals import ClosedPattern, CrawlTotals

CLOSED = {"a.test/p/0": ClosedPattern(100, "https://a.test/p/1")}


def test_they_are_the_same_after_a_restart() -> None:
    sums = CrawlTotals({"trap": 7}, rejected=2, hook_items=3, hook_faults=1, quarantined=dict(CLOSED))
    assert CrawlTotals.load(sums.dump()) == sums
    assert CrawlTotals.load(None) == CrawlTotals()


def test_a_run_with_higher_limits_reopens_closed_patterns() -> None:
    def after(*, per_pattern: int, near_duplicates: int) -> tuple[bool, bool]:
        sums = CrawlTotals(quarantined=dict(CLOSED), near_duplicates=dict(CLOSED))
        sums.reopen(per_pattern=per_pattern, near_duplicates=near_duplicates)
        return bool(sums.quarantined), bool(sums.near_duplicates)

    assert after(per_pattern=100, near_duplicates=50) == (True, True)
    assert after(per_pattern=101, near_duplicates=100) == (False, True)
    assert after(per_pattern=100, near_duplicates=0) == (True, False)
