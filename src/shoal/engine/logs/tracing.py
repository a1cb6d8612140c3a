"""Sends the spans of attempts to an OpenTelemetry collector (OTLP over HTTP), with the extra `tracing`.

Spans are made after the commit of their attempt and wait in a bounded queue, from which a thread sends them.
A collector that is slow or gone costs spans, never pages: they are dropped, and one line in the log says so.
"""

import logging
import secrets
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from shoal.engine.logs.spans import (
    CommitTimes,
    Span,
    acknowledgement_spans,
    attempt_failed,
    is_sampled,
    otel_trace_id,
    settlement_spans,
)
from shoal.model.errors import Misconfigured
from shoal.model.outcome import Acknowledgement, Dead, Settlement
from shoal.model.page import ParseResult
from shoal.model.settings import TracingSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

log = logging.getLogger(__name__)

MAX_WAITING = 4_096  # spans; more are dropped
EVERY_MS = 2_000
EXPORT_S = 5.0  # for one request to the collector
FLUSH_MS = 3_000  # at the end of a crawl
NS = 1_000_000_000


class Tracer:
    """Traces the attempts of one crawl in this process; see `AttemptLog`."""

    def __init__(self, rules: TracingSettings, *, worker: str, times: Callable[[], CommitTimes]) -> None:
        self._share = rules.sample
        self._worker = worker
        self._times = times
        self._processor = open_processor(rules.endpoint)
        self._faulty = False

    def settled(self, settlement: Settlement, result: ParseResult | None, *, lost: bool = False) -> None:
        lease = settlement.lease
        if not is_sampled(lease.fingerprint, self._share, failed=lost or attempt_failed(settlement)):
            return
        try:
            spans = settlement_spans(settlement, result, self._times(), worker=self._worker, lost=lost)
            self._send(lease.crawl, lease.fingerprint, spans)
        except Exception:
            self._report()

    def acknowledged(self, end: Acknowledgement, result: ParseResult | None) -> None:
        if not is_sampled(end.fingerprint, self._share, failed=isinstance(end.outcome, Dead)):
            return
        try:
            spans = acknowledgement_spans(end, result, self._times(), worker=self._worker)
            self._send(end.crawl, end.fingerprint, spans)
        except Exception:
            self._report()

    def _report(self) -> None:
        """Log a bug, once: traces must not stop a crawl."""
        if not self._faulty:
            log.exception("tracing.failed")
        self._faulty = True

    def _send(self, crawl: str, fingerprint: int, spans: Sequence[Span]) -> None:
        trace = otel_trace_id(crawl, fingerprint)
        for span in otel_spans(trace, spans):
            self._processor.on_end(span)

    def flush(self) -> None:
        """Send what waits, for a few seconds at most. Blocks: call it in a thread."""
        self._processor.force_flush(FLUSH_MS)


def otel_spans(trace: int, spans: Sequence[Span]) -> "list[ReadableSpan]":
    """Return spans as the SDK has them; those without a parent belong to the first one."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    sampled = TraceFlags(TraceFlags.SAMPLED)
    contexts = {
        span.name: SpanContext(trace, secrets.randbits(63) + 1, is_remote=False, trace_flags=sampled)
        for span in spans
    }
    first = spans[0].name if spans else ""
    return [
        ReadableSpan(
            name=span.name,
            context=contexts[span.name],
            parent=None if span.name == first else contexts[span.parent or first],
            resource=_resource(),
            attributes=span.attributes,
            kind=SpanKind.CLIENT if span.name == "fetch" else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.failed) if span.failed else Status(StatusCode.UNSET),
            start_time=int(span.start * NS),
            end_time=int(max(span.end, span.start) * NS),
        )
        for span in spans
    ]


@lru_cache(maxsize=1)
def _resource() -> "Resource":
    from opentelemetry.sdk.resources import Resource

    from shoal import __version__

    return Resource.create({"service.name": "shoal", "service.version": __version__})


@lru_cache(maxsize=4)  # one per process: crawls of a worker share it
def open_processor(endpoint: str) -> "BatchSpanProcessor":
    """Return what sends spans to a collector; raise `Misconfigured` without the extra."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise Misconfigured("tracing.endpoint: run  pip install 'shoal[tracing]'  first") from error
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # what it says is said below, once
    return BatchSpanProcessor(
        _quiet_exporter(OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_S)),
        max_queue_size=MAX_WAITING,
        schedule_delay_millis=EVERY_MS,
        export_timeout_millis=EXPORT_S * 1000,
    )


def _quiet_exporter(inner: "SpanExporter") -> "SpanExporter":
    """Return an exporter that logs an outage once, without the address, which may hold a secret."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class QuietExporter(SpanExporter):
        def __init__(self) -> None:
            self._lost = 0  # spans of this outage

        def export(self, spans: "Sequence[ReadableSpan]") -> "SpanExportResult":
            try:
                result = inner.export(spans)
            except Exception:
                result = SpanExportResult.FAILURE
            if result is SpanExportResult.SUCCESS:
                if self._lost:
                    log.info("tracing.recovered", extra={"lost": self._lost})
                self._lost = 0
            else:
                if not self._lost:
                    log.warning("tracing.unavailable", extra={"setting": "tracing.endpoint"})
                self._lost += len(spans)
            return result

        def shutdown(self) -> None:
            inner.shutdown()

    return QuietExporter()
