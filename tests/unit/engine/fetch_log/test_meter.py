"""What is counted of attempts, for metrics."""

import pytest
from tests.unit.engine.leased import lease

from shoal.engine.fetch_log import meter as meter_module
from shoal.engine.fetch_log.meter import BUCKETS_S, AttemptMeter, merged_meters
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Filtered,
    Gone,
    Outcome,
    Released,
    Retry,
    Settlement,
)
from shoal.model.page import PageRecord, PageRef, ParseResult, Timing

PAGE = PageRecord(PageRef("s", 0, 1), 200, 0.0)
BROKEN = Failure(FailureClass.TARGET_ERROR, "status 503", 503)
LIMITED = Failure(FailureClass.RATE_LIMITED, "status 429", 429)


def settle(meter: AttemptMeter, outcome: Outcome, *, host: str = "a.test", sent: bool = True) -> None:
    timing = Timing(total=0.3, queue=0.1, first_byte=0.15, body=0.02)
    meter.settled(Settlement(lease(1, host=host), outcome, timing=timing, sent=sent), None)


@pytest.mark.parametrize(
    ("outcome", "status", "name"),
    [
        (Done(PAGE), "success", "done"),
        (Gone(404), "success", "gone"),
        (Filtered(FailureClass.ROBOTS), "success", "filtered"),
        (Retry(BROKEN, 1.0), "error", "retry"),
        (Dead(BROKEN), "error", "dead"),
        (Retry(LIMITED, 1.0, charged=False, rest=30.0), "rate_limited", "retry"),
    ],
)
def test_every_outcome_is_a_task_with_one_of_three_results(outcome: Outcome, status: str, name: str) -> None:
    meter = AttemptMeter()
    settle(meter, outcome)
    assert meter.tasks == {"success": 0, "error": 0, "rate_limited": 0} | {status: 1}
    assert meter.outcomes == {name: 1}


def test_what_was_given_back_or_came_too_late_is_no_task() -> None:
    meter = AttemptMeter()
    settle(meter, Released())
    meter.settled(Settlement(lease(1), Done(PAGE)), None, lost=True)
    assert (sum(meter.tasks.values()), meter.lost) == (0, 1)


def test_phases_are_counted_where_they_took_place() -> None:
    meter = AttemptMeter()
    settle(meter, Done(PAGE))
    assert meter.duration.sum == pytest.approx(0.2)  # without the queue
    counts = {name: sum(histogram.counts) for name, histogram in meter.phases.items()}
    assert counts == {"queue": 1, "dns": 0, "connect": 0, "tls": 0, "first_byte": 1, "body": 1, "parse": 0}
    buckets = dict(meter.phases["first_byte"].cumulative())
    assert (buckets["0.1"], buckets["0.25"], buckets["+Inf"]) == (0, 1, 1)
    assert len(buckets) == len(BUCKETS_S) + 1
    meter.acknowledged(Acknowledgement("c", 1, Done(PAGE)), ParseResult(1, cpu=0.2))
    assert meter.phases["parse"].sum == 0.2


def test_hosts_are_active_for_a_minute_and_rest_as_long_as_they_asked() -> None:
    now = [1000.0]
    meter = AttemptMeter(clock=lambda: now[0])
    settle(meter, Done(PAGE))
    settle(meter, Retry(LIMITED, 90.0, charged=False, rest=90.0), host="b.test")
    settle(meter, Filtered(FailureClass.ROBOTS), host="c.test", sent=False)
    assert (meter.hosts_active(), meter.hosts_resting()) == (2, 1)
    assert [(one.host, one.failures) for one in meter.top_hosts()] == [("a.test", 0), ("b.test", 1)]
    now[0] += 61
    assert (meter.hosts_active(), meter.hosts_resting()) == (0, 1)
    now[0] += 30
    assert meter.hosts_resting() == 0


def test_memory_is_bounded_however_many_hosts_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter_module, "MAX_HOSTS", 100)
    meter = AttemptMeter()
    for number in range(1000):
        settle(meter, Done(PAGE), host=f"h{number}.test")
    assert meter.hosts_active() <= 100
    assert len(meter.top_hosts()) == 20


def test_meters_add_up() -> None:
    one, other = AttemptMeter(), AttemptMeter()
    settle(one, Done(PAGE))
    settle(other, Dead(BROKEN))
    settle(other, Done(PAGE))
    total = merged_meters([one, other])
    assert total is not None
    assert (total.outcomes, total.tasks["success"], sum(total.duration.counts)) == (
        {"done": 2, "dead": 1},
        2,
        3,
    )
    assert [(host.attempts, host.failures) for host in total.top_hosts()] == [(3, 1)]
    assert merged_meters([]) is None


def test_trouble_at_hosts_is_that_of_the_window_and_a_429_is_not_a_failure() -> None:
    now = 1000.0
    meter = AttemptMeter(clock=lambda: now)
    meter.window_s = 10.0
    for outcome in (Done(PAGE), Dead(BROKEN), Dead(BROKEN), Retry(LIMITED, 1.0, charged=False, rest=30.0)):
        settle(meter, outcome)
    settle(meter, Done(PAGE), host="fine.test")
    [found] = meter.troubled_hosts()
    assert (found.host, found.attempts, found.failures, found.refused) == ("a.test", 3, 2, 1)
    assert (found.why, meter.hosts_slowed(), meter.hosts_resting()) == ("rate_limited", 1, 1)
    now += 6.0  # the next half of the window
    settle(meter, Done(PAGE))
    assert meter.troubled_hosts()[0].attempts == 4
    now += 6.0
    settle(meter, Done(PAGE))
    assert meter.troubled_hosts() == []
