"""Interpret a response: a page, a redirect, or a failure with a class. Pure."""

import re
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Protocol

import ada_url
import msgspec

from shoal.fetch.challenge import find_block
from shoal.fetch.http.guard import Guard
from shoal.fetch.http_date import http_date
from shoal.model.errors import Rejected
from shoal.model.failure import Failure, FailureClass
from shoal.model.levels.ladder import BROWSER
from shoal.model.limits import FetchLimits, LinkLimits
from shoal.model.page import Response
from shoal.model.request import HTTP, Request
from shoal.model.url import canonical

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
MAX_RETRY_AFTER_S = 86_400.0  # a longer Retry-After is cut to this

# Request headers that may go to another origin after a redirect; others may be meant for the first one only.
_ANY_ORIGIN = frozenset({"accept", "accept-language", "user-agent", "cache-control", "pragma"})
_BODY_HEADERS = frozenset({"content-type", "content-encoding", "content-language", "content-location"})
_REFRESH = re.compile(r"\s*\d+(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"']*)", re.IGNORECASE)


class FetchedPage(msgspec.Struct, frozen=True):
    """A response to archive. `parse` is false if it has nothing for a spider."""

    parse: bool = True
    next: Request | None = None  # target of a Refresh header


class Redirect(msgspec.Struct, frozen=True):
    """A response that redirects the request."""

    request: Request


Interpretation = FetchedPage | Redirect | Failure

_PAGE = FetchedPage()  # shared: by far the most frequent result


class RedirectRules(msgspec.Struct, frozen=True):
    guard: Guard
    hops: int = FetchLimits().redirects  # in a row
    url_bytes: int = LinkLimits().url_bytes


class Conditional(Enum):
    """Whether a request was conditional, so that 304 is a valid response."""

    NO = auto()
    BY_SPIDER = auto()  # the spider's own headers made it conditional
    BY_CALLER = auto()  # the caller has an archived copy, which a 304 confirms


def interpret(
    request: Request,
    response: Response,
    rules: RedirectRules,
    *,
    conditional: Conditional,
    now: float,
    ranged: bool = False,
) -> Interpretation:
    """Return what `response` means for `request`. `ranged`: it was sent with a Range header."""
    status = response.status
    rate_limited = status in (429, 503) and _has_retry_after(response)
    if not rate_limited and (block := find_block(response, has_body=request.method != "HEAD")):
        return Failure(FailureClass.ANTI_BOT, str(block), status)
    if status < 300:
        # After a Range header, 206 has one or more parts of a resource: archived as it is, not parsed.
        # Without one, the client returns a 206 only if it has the whole page.
        following = _refresh(request, response, rules)
        return (
            _PAGE
            if status == 200 and following is None
            else FetchedPage(status not in (204, 205) and not (status == 206 and ranged), following)
        )
    if status == 304:
        if conditional is Conditional.NO:
            return Failure(FailureClass.PROTOCOL, "304 for a request that was not conditional", status)
        return FetchedPage(parse=conditional is Conditional.BY_CALLER)
    if status < 400:
        return _redirect(request, response, rules)
    return error_of(response, now)


def error_of(response: Response, now: float) -> Failure:
    """Return the failure for a status of 400 or above."""
    status = response.status
    if status == 429 or (status == 503 and _has_retry_after(response)):
        retry_after = parse_retry_after(response.header("retry-after"), now)
        return Failure(FailureClass.RATE_LIMITED, f"status {status}", status, retry_after)
    if status in (404, 410):
        failure_class = FailureClass.GONE
    elif status == 403:
        failure_class = FailureClass.IP_BLOCKED
    elif 500 <= status < 600:
        failure_class = FailureClass.TARGET_ERROR
    else:
        failure_class = FailureClass.HTTP_ERROR
    return Failure(failure_class, f"status {status}", status)


def _has_retry_after(response: Response) -> bool:
    return any(name == "retry-after" for name, _ in response.headers)


def parse_retry_after(value: str, now: float) -> float | None:
    """Return the seconds to wait, at most a day, from a number or a date; None if the value is not valid."""
    value = value.strip()
    if value.isascii() and value.isdecimal() and len(value) <= 12:
        seconds = float(value)
    else:
        when = http_date(value)
        seconds = 0.0 if when is None else when - now
    return min(seconds, MAX_RETRY_AFTER_S) if seconds > 0 else None


class Leading(Protocol):
    """The part of a response, or of an archived page, that says where it leads."""

    @property
    def url(self) -> str: ...
    @property
    def status(self) -> int: ...
    @property
    def leads_to(self) -> str: ...
    def header(self, name: str, /) -> str: ...


def target_of(request: Request, page: Leading, rules: RedirectRules) -> Request | None:
    """Return the request that a response leads to, by redirect or Refresh header; None: nowhere."""
    if page.status in REDIRECT_STATUSES:
        found = _redirect(request, page, rules)
        return found.request if isinstance(found, Redirect) else None
    return _refresh(request, page, rules) if page.status < 300 else None


def _redirect(request: Request, response: Leading, rules: RedirectRules) -> Redirect | Failure:
    status = response.status
    if status not in REDIRECT_STATUSES:
        return _failed(f"status {status}", status)
    location = response.header("location")
    if not location.strip():
        return _failed("no Location", status)
    target = resolve(response.url, location, rules)
    if isinstance(target, Failure):
        return Failure(target.failure_class, target.reason, status)
    if failure := _chain_fault(request, target, rules.hops):
        return Failure(failure.failure_class, failure.reason, status)
    same_origin = _origin(target) == _origin(request.url)
    method, body = _method_after(status, request)
    if body and not same_origin:
        return _failed(f"{status} would take a body to another origin", status)
    headers = _headers_after(request.headers, same_origin=same_origin, has_body=bool(body))
    chain = (*request.chain, request.url)
    return Redirect(
        msgspec.structs.replace(
            request,
            url=target,
            method=method,
            body=body,
            headers=headers,
            chain=chain,
            via=(),
            **_level_after(request),
            # Back where the redirects began, as after a log-in: that URL has only redirected so far.
            returned=method == "GET" and target in request.via,
        )
    )


def _refresh(request: Request, response: Leading, rules: RedirectRules) -> Request | None:
    """Return the request for a Refresh header, which is followed like a redirect; the page itself is kept.

    A rendered page that navigates by itself leads there in the same way.
    """
    leads_to = response.leads_to
    if not leads_to and (value := response.header("refresh")) and (found := _REFRESH.match(value)):
        leads_to = found.group(1)
    if not leads_to or request.method != "GET":
        return None
    target = resolve(response.url, leads_to, rules)
    if isinstance(target, Failure) or _chain_fault(request, target, rules.hops):
        return None
    same_origin = _origin(target) == _origin(request.url)
    headers = _headers_after(request.headers, same_origin=same_origin, has_body=False)
    chain = (*request.chain, request.url)
    return msgspec.structs.replace(
        request,
        url=target,
        headers=headers,
        chain=chain,
        via=(),
        returned=target in request.via,
        **_level_after(request),
    )


def _level_after(request: Request) -> dict[str, Any]:
    """Return the fields that let the target of a redirect start at the level that was learned for it."""
    if not request.escalated:
        return {}
    return {"escalated": "", **({"pool": HTTP, "render": None} if request.escalated == BROWSER else {})}


def resolve(base: str, location: str, rules: RedirectRules) -> str | Failure:
    """Return the canonical target of a Location header, or a failure if it must not be fetched."""
    try:
        # Headers are decoded as latin-1; servers that send more than ASCII here mean UTF-8.
        joined = ada_url.join_url(base, location.encode("latin-1").decode("utf-8").strip())
        origin = rules.guard.origin(joined)
        target = canonical(joined)
    except (ValueError, Rejected):
        return _failed("the Location is not a URL")
    if isinstance(origin, Failure):
        return origin
    if len(target) > rules.url_bytes:
        return _failed(f"the Location is longer than {rules.url_bytes} bytes")
    return target


def _chain_fault(request: Request, target: str, hops: int) -> Failure | None:
    if target == request.url or target in request.chain:
        return _failed("a loop")
    if len(request.chain) >= hops:
        return _failed(f"more than {hops} redirects in a row")
    return None


def _method_after(status: int, request: Request) -> tuple[str, bytes]:
    if request.method in ("GET", "HEAD"):
        return request.method, b""
    if status in (307, 308):
        return request.method, request.body
    return "GET", b""


def _headers_after(headers: Mapping[str, str], *, same_origin: bool, has_body: bool) -> Mapping[str, str]:
    if not headers:
        return headers
    return {
        name: value
        for name, value in headers.items()
        if (same_origin or name.lower() in _ANY_ORIGIN) and (has_body or name.lower() not in _BODY_HEADERS)
    }


def _origin(url: str) -> str:
    return url[: url.index("/", 8)]


def _failed(reason: str, status: int = 0) -> Failure:
    return Failure(FailureClass.REDIRECT, reason, status)
