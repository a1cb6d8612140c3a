"""The row of one attempt. Pure; runs for every page, so it is plain code without objects in between."""

import re
from collections.abc import Sequence
from time import time

from shoal.archive.fetch_log.columns import Row
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Filtered,
    Gone,
    Outcome,
    Released,
    Retry,
    Settlement,
)
from shoal.model.page import Item, PageRecord, ParseResult, Timing

FETCH, PARSE = "fetch", "parse"
LOST = "lost"  # the lease had expired: the outcome was discarded
MAX_REASON_CHARS = 300
MAX_KEYS, MAX_KEY_CHARS = 100, 4_000  # of one page

_NO_TIMING = Timing()
_NO_PAGE = ("", 0, 0)
_default_key = re.compile(r"[0-9a-f]{16}-\d+").fullmatch


def settlement_row(
    settlement: Settlement, result: ParseResult | None, *, worker: str, version: str, lost: bool = False
) -> Row | None:
    """Return the row of an attempt; None: nothing was attempted, the request was given back."""
    outcome = settlement.outcome
    if type(outcome) is Released:
        return None
    lease = settlement.lease
    request = lease.request
    timing = settlement.timing or _NO_TIMING
    name, status, failure, reason, page = describe(outcome)
    ref = page.ref if page is not None else None
    return (
        int((timing.started_at or time()) * 1_000_000),
        FETCH,
        lease.crawl,
        lease.fingerprint,
        request.found_on,
        request.url,
        lease.host,
        request.method,
        status,
        LOST if lost else name,
        failure,
        reason,
        lease.tries,
        worker,
        request.pool,
        timing.level,
        timing.exit,
        timing.address,
        int(settlement.sent),
        milliseconds(timing.total or settlement.elapsed),
        milliseconds(timing.queue),
        # 0 on a connection that is used again, as most are.
        milliseconds(timing.dns) if timing.dns else 0.0,
        milliseconds(timing.connect) if timing.connect else 0.0,
        milliseconds(timing.tls) if timing.tls else 0.0,
        milliseconds(timing.first_byte),
        milliseconds(timing.body),
        0.0 if result is None else milliseconds(result.cpu),
        timing.wire_bytes,
        timing.body_bytes,
        *(_NO_PAGE if ref is None else (ref.segment, ref.offset, ref.length)),
        0 if page is None else page.items,
        len(settlement.links),
        "" if result is None else version,
        "" if result is None else item_keys(result.items),
    )


def acknowledgement_row(
    end: Acknowledgement, result: ParseResult | None, *, worker: str, version: str
) -> Row:
    """Return the row of a page that was fetched before it was parsed."""
    name, status, failure, reason, page = describe(end.outcome)
    ref = page.ref if page is not None else None
    return (
        int(time() * 1_000_000),
        PARSE,
        end.crawl,
        end.fingerprint,
        0,
        "",
        end.host,
        "",
        status,
        name,
        failure,
        reason,
        0,
        worker,
        "",
        "",
        "",
        "",
        0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0 if result is None else milliseconds(result.cpu),
        0,
        0,
        *(_NO_PAGE if ref is None else (ref.segment, ref.offset, ref.length)),
        0 if page is None else page.items,
        len(end.links),
        version,
        "" if result is None else item_keys(result.items),
    )


def describe(outcome: Outcome) -> tuple[str, int, str, str, PageRecord | None]:
    """Return name, status, failure class or rule, reason and page of an outcome."""
    kind = type(outcome)
    if kind is Done or kind is Fetched:
        page = outcome.page  # type: ignore[union-attr]
        assert page is not None
        return ("done" if kind is Done else "fetched"), page.status, "", "", page
    match outcome:
        case Retry(failure=failure):
            return "retry", failure.status, failure.failure_class, failure.reason[:MAX_REASON_CHARS], None
        case Dead(failure=failure, page=page):
            return "dead", failure.status, failure.failure_class, failure.reason[:MAX_REASON_CHARS], page
        case Gone(status=status):
            return "gone", status, "gone", "", None
        case Filtered(rule=rule, reason=reason):
            return "filtered", 0, rule, reason[:MAX_REASON_CHARS], None
    return "released", 0, "", "", None


def milliseconds(seconds: float) -> float:
    """Return milliseconds with one decimal: more is noise, and takes twice the bytes."""
    return round(seconds * 10_000) / 10


def item_keys(items: Sequence[Item]) -> str:
    """Return the keys of items, one per line; none if they are fingerprint and position, which are known.

    Of a page with very many items, only the first keys.
    """
    if not items or _default_key(items[0].key):
        return ""
    text = "\n".join(item.key.replace("\n", "\\n") for item in items[:MAX_KEYS])
    return text if len(text) <= MAX_KEY_CHARS else text[:MAX_KEY_CHARS].rpartition("\n")[0]
