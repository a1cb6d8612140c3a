"""The report of a repair: one line per kind of fault, with an example if there is one."""

from shoal.frontier.redis.repair.shard import FaultReport


def test_no_fault_makes_no_line() -> None:
    report = FaultReport()
    report.add("a request in two places", number=0)
    report.add_counter("c", "done", by=2)
    report.add_counter("c", "done", by=-2)
    assert report.lines() == []


def test_a_kind_has_one_line_with_its_first_example() -> None:
    report = FaultReport()
    report.add("a lane in none", "a.test http")
    report.add("a date without a dead letter")
    report.add("a lane in none", "b.test http")
    report.add("a request in two places", number=3)
    assert report.lines() == [
        "a lane in none: a.test http, and 1 more",
        "a date without a dead letter",
        "a request in two places (3)",
    ]


def test_a_counter_is_reported_by_its_difference_over_all_shards() -> None:
    report = FaultReport()
    report.add_counter("c", "waiting", by=2)
    report.add_counter("c", "waiting", by=1)
    report.add_counter("d", "done", by=-1)
    assert report.lines() == [
        "c: the counter of waiting was off by -3",
        "d: the counter of done was off by +1",
    ]
