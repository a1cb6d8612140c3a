"""One log line per request for people who watch a crawl (`-v`), and what each page brought (`-vv`).

The lines have a separate logger, so that they can be shown without the other events of a worker. Where
it is off there is no `RequestLog`, and a page pays for one comparison.
"""

import logging
from collections.abc import Mapping

import msgspec

from shoal.fetch.contract import Attempt
from shoal.model.levels.ladder import PLAIN
from shoal.model.outcome import Dead, Filtered, Gone, Lease, Released, Retry
from shoal.model.page import Item, ParseResult
from shoal.model.request import trace_id
from shoal.model.scope import Scope

log = logging.getLogger("shoal.requests")

MAX_URLS = 20_000  # latest pages whose URL is known, to name the page that a link was found on
MAX_ITEMS = 20  # of one page that are shown
MAX_ITEM_CHARS = 300


class RequestLog:
    """Logs the attempts of one crawl; `details`: and the items and skipped links of its pages."""

    def __init__(self, crawl: str, *, details: bool) -> None:
        self._crawl = crawl
        self._details = details
        self._urls: dict[int, str] = {}  # by fingerprint, oldest first

    def attempted(self, attempt: Attempt, elapsed: float) -> None:
        """Log an attempt that took `elapsed` seconds; one that sent nothing has no line."""
        lease, response, outcome = attempt.lease, attempt.response, attempt.outcome
        if isinstance(outcome, Released):
            return
        seconds = elapsed if response is None else response.elapsed
        facts: dict[str, object] = {"status": 0 if response is None else response.status}
        facts |= self._about(lease) | {"ms": round(seconds * 1000)}
        if response is not None:
            facts["bytes"] = len(response.wire)
        if attempt.timing.level != PLAIN:
            facts["level"] = attempt.timing.level
        match outcome:
            case None if attempt.following is not None and not attempt.parse:
                self._log("request.redirected", facts, to=attempt.following.url)
            case None:
                self._remember(lease)
                self._log("request.done", facts)
            case Gone():
                self._log("request.gone", facts)
            case Filtered(rule=rule, reason=reason):
                self._log("request.filtered", facts, rule=rule.value, reason=reason)
            case Retry(failure=failure, delay=delay):
                why = {"failure": failure.failure_class.value, "reason": failure.reason}
                self._log("request.retried", facts, **why, retry_in_s=round(delay, 1))
            case Dead(failure=failure):
                why = {"failure": failure.failure_class.value, "reason": failure.reason}
                self._log("request.failed", facts, **why)

    def filtered(self, lease: Lease, outcome: Filtered) -> None:
        """Log a request that a rule filtered before it was sent."""
        facts = {"status": 0, **self._about(lease), "ms": 0}
        self._log("request.filtered", facts, rule=outcome.rule.value, reason=outcome.reason)

    def parsed(self, url: str, fingerprint: int, result: ParseResult, links: int) -> None:
        """Log what a page brought: its items, and the links that were not followed."""
        if not self._details:
            return
        about = {"trace": trace_id(fingerprint)}  # of the page: a link that is not followed has none
        for item in result.items[:MAX_ITEMS]:
            log.debug("item.found", extra={"url": url, "item": first_fields(item), **about})
        for skipped, rule in result.skipped:
            log.debug("link.skipped", extra={"url": skipped, "rule": rule, "from": url, **about})
        facts = {"items": len(result.items), "links": links, "duplicates": result.repeats}
        rules = {f"filtered_{rule.value}": count for rule, count in result.dropped.items()}
        log.debug("page.parsed", extra={"url": url, **facts, **rules, **about})

    def _about(self, lease: Lease) -> dict[str, object]:
        request = lease.request
        facts: dict[str, object] = {"url": request.url, "trace": trace_id(lease.fingerprint)}
        if request.method != "GET":
            facts["method"] = request.method
        if lease.tries > 1:
            facts["attempt"] = lease.tries
        if request.found_on:
            facts["from"] = self._urls.get(request.found_on) or trace_id(request.found_on)
        return facts

    def _remember(self, lease: Lease) -> None:
        self._urls[lease.fingerprint] = lease.request.url
        if len(self._urls) > MAX_URLS:
            del self._urls[next(iter(self._urls))]

    def _log(self, event: str, facts: Mapping[str, object], **more: object) -> None:
        log.info(event, extra={**facts, **more, "crawl": self._crawl})


def open_request_log(crawl: str) -> RequestLog | None:
    """Return the log of a crawl's requests; None: it is not shown."""
    if not log.isEnabledFor(logging.INFO):
        return None
    return RequestLog(crawl, details=log.isEnabledFor(logging.DEBUG))


def with_reasons(scope: Scope) -> Scope:
    """Return the scope with which parse children name the links that they skip, if those are logged."""
    return msgspec.structs.replace(scope, name_skipped=True) if log.isEnabledFor(logging.DEBUG) else scope


def first_fields(item: Item) -> str:
    """Return an item as text of limited length: its first fields."""
    text = item.json[: 4 * MAX_ITEM_CHARS].decode("utf-8", "replace")
    return text if len(text) <= MAX_ITEM_CHARS else f"{text[:MAX_ITEM_CHARS]}…"
