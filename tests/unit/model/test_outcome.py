"""`judge` turns a failure into what happens next."""

import pytest

from shoal.model.failure import POLICY, Action, Failure, FailureClass
from shoal.model.outcome import OTHER_EXIT_S, Dead, Filtered, Gone, Retry, RetryRules, judge

RULES = RetryRules()


def judged(
    kind: FailureClass, *, attempt: int = 1, rests: int = 0, retry_after: float | None = None
) -> Gone | Retry | Dead | Filtered:
    return judge(
        Failure(kind, "why", 500, retry_after), attempt=attempt, rests=rests, rules=RULES, jitter=0.5
    )


def test_every_failure_class_has_a_policy() -> None:
    assert set(POLICY) == set(FailureClass)


@pytest.mark.parametrize(
    "kind", [k for k, p in POLICY.items() if p.action is Action.RETRY and p.retries is None]
)
def test_max_retries_of_three_means_four_attempts(kind: FailureClass) -> None:
    verdicts = [judged(kind, attempt=attempt) for attempt in (1, 2, 3, 4)]

    assert [type(verdict) for verdict in verdicts] == [Retry, Retry, Retry, Dead]


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        (FailureClass.TIMEOUT, 1.5, 2.5),
        (FailureClass.RATE_LIMITED, 1.5, 2.5),
        (FailureClass.PROXY_ERROR, OTHER_EXIT_S, 2 * OTHER_EXIT_S),
    ],
)
def test_a_delay_is_spread_around_its_mean(kind: FailureClass, least: float, most: float) -> None:
    for jitter, expected in ((0.0, least), (1.0, most)):
        verdict = judge(Failure(kind, "why"), attempt=1, rests=0, rules=RULES, jitter=jitter)
        assert isinstance(verdict, Retry)
        assert verdict.delay == expected


def test_each_retry_waits_twice_as_long() -> None:
    delays = [
        verdict.delay
        for attempt in (1, 2, 3)
        if isinstance(verdict := judged(FailureClass.TIMEOUT, attempt=attempt), Retry)
    ]

    assert delays == [2.0, 4.0, 8.0]


def test_a_bad_certificate_is_tried_once_more_only() -> None:
    assert isinstance(judged(FailureClass.TLS, attempt=1), Retry)
    assert isinstance(judged(FailureClass.TLS, attempt=2), Dead)


def test_a_rate_limited_request_rests_its_host_and_keeps_its_attempts() -> None:
    verdict = judged(FailureClass.RATE_LIMITED, attempt=4, retry_after=7.0)

    assert verdict == Retry(
        Failure(FailureClass.RATE_LIMITED, "why", 500, 7.0), delay=7.0, charged=False, rest=7.0
    )


def test_a_request_that_was_charged_for_its_refusals_is_given_up_after_its_attempts() -> None:
    assert isinstance(judged(FailureClass.RATE_LIMITED, attempt=5, retry_after=7.0, rests=1), Dead)


def test_a_host_that_never_stops_limiting_does_not_keep_the_crawl_alive() -> None:
    assert isinstance(judged(FailureClass.RATE_LIMITED, rests=RULES.max_rests), Dead)


def test_a_pause_of_a_host_is_at_most_a_day() -> None:
    verdict = judged(FailureClass.RATE_LIMITED, retry_after=1e9)

    assert isinstance(verdict, Retry)
    assert verdict.rest == 86_400.0


def test_a_missing_page_is_gone_and_not_dead() -> None:
    assert judged(FailureClass.GONE) == Gone(500)


@pytest.mark.parametrize("kind", [k for k, p in POLICY.items() if p.action is Action.DEAD])
def test_hopeless_failures_are_never_retried(kind: FailureClass) -> None:
    assert isinstance(judged(kind), Dead)


@pytest.mark.parametrize("kind", [k for k, p in POLICY.items() if p.action is Action.FILTER])
def test_rules_filter(kind: FailureClass) -> None:
    assert judged(kind) == Filtered(kind, "why")
