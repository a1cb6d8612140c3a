"""The spans of one attempt: what it did, stage by stage, with times. Pure.

The trace of a request is the same in every process: its id is derived from crawl and fingerprint, so a page
that one worker fetches and another parses is one trace.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from shoal.archive.redaction import redact_body
from shoal.engine.fetch_log.rows import LOST, describe
from shoal.model.outcome import Acknowledgement, Dead, Lease, Released, Retry, Settlement
from shoal.model.page import ParseResult, Timing
from shoal.model.request import trace_id

Attributes = dict[str, str | int | float]


class CommitTimes(NamedTuple):
    """When the commit of an attempt took place, in epoch seconds."""

    began: float
    archived: float  # its pages are in the archive
    flushed: float  # and its items in the outputs of a folder
    committed: float


class Span(NamedTuple):
    name: str
    parent: str  # the name of another span of the attempt; empty: this is the first one
    start: float  # epoch seconds
    end: float
    attributes: Mapping[str, str | int | float] | None = None
    failed: str = ""  # why


def is_sampled(fingerprint: int, share: float, *, failed: bool) -> bool:
    """Return whether an attempt is traced: failures always, of the others a share, the same everywhere."""
    return failed or fingerprint % 10_000 < share * 10_000


def otel_trace_id(crawl: str, fingerprint: int) -> int:
    return int.from_bytes(sha256(f"{crawl}\0{fingerprint}".encode()).digest()[:16], "big") or 1


def public_url(url: str) -> str:
    """Return a URL without a login, and without the values of query fields that look like secrets."""
    parts = urlsplit(url)
    query = redact_body(parts.query.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))


def attempt_failed(settlement: Settlement) -> bool:
    return isinstance(settlement.outcome, Retry | Dead)


def settlement_spans(
    settlement: Settlement, result: ParseResult | None, times: CommitTimes, *, worker: str, lost: bool = False
) -> list[Span]:
    """Return the spans of an attempt, the whole first; none if the request was given back."""
    outcome, lease = settlement.outcome, settlement.lease
    if isinstance(outcome, Released):
        return []
    name, status, failure, reason, _ = describe(outcome)
    timing = settlement.timing or Timing(started_at=times.began)
    began = timing.started_at or times.began
    attributes: Attributes = {
        **_about(lease, worker),
        "http.request.method": lease.request.method,
        "shoal.outcome": LOST if lost else name,
        "shoal.attempt": lease.tries,
        "shoal.pool": lease.request.pool,
    }
    if status:
        attributes["http.response.status_code"] = status
    if failure:
        attributes["error.type"] = failure
    if timing.exit:
        attributes["shoal.exit"] = timing.exit
    why = f"{failure}: {reason}" if failure else ""
    end = max(times.committed, began)
    fetched = began + timing.total if timing.total else began
    return [
        Span("request", "", began, end, attributes, why),
        *_fetch_spans(timing, began, sent=settlement.sent),
        *_parse_spans(result, fetched),
        *_commit_spans(times),
    ]


def acknowledgement_spans(
    end: Acknowledgement, result: ParseResult | None, times: CommitTimes, *, worker: str
) -> list[Span]:
    """Return the spans of a page that another process had fetched."""
    cpu = result.cpu if result is not None else 0.0
    began = times.began - cpu
    attributes: Attributes = {
        "shoal.crawl": end.crawl,
        "shoal.trace": trace_id(end.fingerprint),
        "shoal.worker": worker,
    }
    why = "parse_error" if isinstance(end.outcome, Dead) else ""
    return [
        Span("page", "", began, times.committed, attributes, why),
        *_parse_spans(result, began),
        *_commit_spans(times),
    ]


def _about(lease: Lease, worker: str) -> Attributes:
    return {
        "shoal.crawl": lease.crawl,
        "shoal.trace": trace_id(lease.fingerprint),
        "url.full": public_url(lease.request.url),
        "server.address": lease.host,
        "shoal.worker": worker,
    }


def _fetch_spans(timing: Timing, began: float, *, sent: bool) -> list[Span]:
    """Return the wait for the turn, robots.txt, and the fetch with its phases one after the other."""
    first = "request"
    spans = []
    if timing.robots:
        spans.append(Span("robots", first, began, began + timing.robots))
    if timing.queue:
        spans.append(Span("queue", first, began, began + timing.queue))
    if not sent:
        return spans
    at = began + timing.queue
    spans.append(Span("fetch", first, at, max(began + timing.total, at), {"shoal.bytes": timing.wire_bytes}))
    for phase in ("dns", "connect", "tls", "first_byte", "body"):
        if seconds := getattr(timing, phase):
            spans.append(Span(phase, "fetch", at, at + seconds))
            at += seconds
    return spans


def _parse_spans(result: ParseResult | None, at: float) -> list[Span]:
    if result is None:
        return []
    facts: Attributes = {"shoal.items": len(result.items), "shoal.links": len(result.requests)}
    fault = "the spider failed" if result.fault is not None else ""
    return [Span("parse", "", at, at + result.cpu, facts, fault)]


def _commit_spans(times: CommitTimes) -> list[Span]:
    spans = [Span("archive", "", times.began, times.archived)]
    if times.flushed > times.archived:
        spans.append(Span("sink", "", times.archived, times.flushed))
    return [*spans, Span("commit", "", times.flushed, times.committed)]
