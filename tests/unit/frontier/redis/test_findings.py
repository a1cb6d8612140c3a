"""What a repair says: a line for each kind, with an example if there is one."""

from shoal.frontier.redis.repair.findings import Findings


def test_nothing_wrong_is_nothing_to_say() -> None:
    findings = Findings()
    findings.note("a request in two places", number=0)
    findings.note_counter("c", "done", by=2)
    findings.note_counter("c", "done", by=-2)
    assert findings.told() == []


def test_a_kind_is_said_once_with_its_first_example() -> None:
    findings = Findings()
    findings.note("a lane in none", "a.test http")
    findings.note("a date without a dead letter")
    findings.note("a lane in none", "b.test http")
    findings.note("a request in two places", number=3)
    assert findings.told() == [
        "a lane in none: a.test http, and 1 more",
        "a date without a dead letter",
        "a request in two places (3)",
    ]


def test_a_counter_is_told_by_how_much_it_was_off_over_all_shards() -> None:
    findings = Findings()
    findings.note_counter("c", "waiting", by=2)
    findings.note_counter("c", "waiting", by=1)
    findings.note_counter("d", "done", by=-1)
    assert findings.told() == [
        "c: the counter of waiting was off by -3",
        "d: the counter of done was off by +1",
    ]
