"""The spans of an attempt: one for each stage, and no secret in them."""

import pytest
from tests.unit.engine.leased import lease

from shoal.engine.logs.spans import (
    CommitTimes,
    acknowledgement_spans,
    is_sampled,
    otel_trace_id,
    public_url,
    settlement_spans,
)
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Acknowledgement, Dead, Done, Released, Retry, Settlement
from shoal.model.page import PageRecord, PageRef, ParseResult, Timing

NOW = 1_800_000_000.0
TIMES = CommitTimes(NOW + 2.0, NOW + 2.1, NOW + 2.3, NOW + 2.4)
PAGE = PageRecord(PageRef("s", 0, 1), 200, 0.0)
TIMING = Timing(
    started_at=NOW, total=1.5, queue=0.5, robots=0.2, dns=0.1, connect=0.1, tls=0.2, first_byte=0.4, body=0.2
)


def test_every_stage_has_a_span_within_the_attempt() -> None:
    settlement = Settlement(lease(1), Done(PAGE), timing=TIMING, sent=True)
    spans = settlement_spans(settlement, ParseResult(1, cpu=0.05), TIMES, worker="w1")
    assert [(span.name, span.parent) for span in spans] == [
        ("request", ""),
        ("robots", "request"),
        ("queue", "request"),
        ("fetch", "request"),
        ("dns", "fetch"),
        ("connect", "fetch"),
        ("tls", "fetch"),
        ("first_byte", "fetch"),
        ("body", "fetch"),
        ("parse", ""),
        ("archive", ""),
        ("sink", ""),
        ("commit", ""),
    ]
    whole = spans[0]
    assert (whole.start, whole.end) == (NOW, NOW + 2.4)
    assert all(whole.start <= span.start <= span.end <= whole.end + 1e-6 for span in spans)
    assert whole.attributes is not None
    assert whole.attributes["shoal.outcome"] == "done"


def test_a_failure_says_why_and_has_no_page() -> None:
    failed = Retry(Failure(FailureClass.RATE_LIMITED, "status 429", 429), 1.0)
    spans = settlement_spans(Settlement(lease(1), failed, timing=TIMING, sent=True), None, TIMES, worker="w")
    assert spans[0].failed == "rate_limited: status 429"
    assert spans[0].attributes is not None
    assert spans[0].attributes["http.response.status_code"] == 429
    assert "parse" not in [span.name for span in spans]


def test_a_request_that_was_given_back_has_no_span() -> None:
    assert settlement_spans(Settlement(lease(1), Released()), None, TIMES, worker="w") == []


def test_a_page_that_another_process_fetched_belongs_to_the_same_trace() -> None:
    spans = acknowledgement_spans(
        Acknowledgement("shop", 7, Done(PAGE)), ParseResult(1, cpu=0.5), TIMES, worker="w2"
    )
    assert [span.name for span in spans] == ["page", "parse", "archive", "sink", "commit"]
    assert otel_trace_id("shop", 7) == otel_trace_id("shop", 7) != otel_trace_id("shop", 8)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://a.test/x?q=1#part", "https://a.test/x?q=1"),
        ("https://user:pw@a.test:8443/x", "https://a.test:8443/x"),
        ("https://a.test/x?api_key=abc&q=1&access_token=xyz", None),
    ],
)
def test_secrets_stay_out_of_urls(url: str, shown: str | None) -> None:
    found = public_url(url)
    assert shown is None or found == shown
    assert all(secret not in found for secret in ("pw", "abc", "xyz"))


def test_failures_are_always_traced_and_of_the_others_a_share() -> None:
    assert is_sampled(9_999, 0.0, failed=True)
    assert sum(is_sampled(number, 0.05, failed=False) for number in range(10_000)) == 500
    assert is_sampled(9_999, 1.0, failed=False)
    assert Dead(Failure(FailureClass.TIMEOUT, "late")).failure.reason == "late"
