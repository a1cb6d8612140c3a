"""What an answer means: a page, a redirect, or a failure with a class. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

import ada_url
import msgspec

from shoal.fetch.challenge import challenged_by
from shoal.fetch.http.guard import Guard
from shoal.fetch.http_date import http_date
from shoal.model.errors import Rejected
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits, LinkLimits
from shoal.model.page import Response
from shoal.model.request import Request
from shoal.model.url import canonical

REDIRECTS = frozenset({301, 302, 303, 307, 308})
LONGEST_REST = 86_400.0  # seconds of a Retry-After that are believed

# What a request of ours may say to another origin; all else may be meant for the first one only.
_FOR_ANYBODY = frozenset({"accept", "accept-language", "user-agent", "cache-control", "pragma"})
_ABOUT_A_BODY = frozenset({"content-type", "content-encoding", "content-language", "content-location"})
_REFRESH = re.compile(r"\s*\d+(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"']*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """An answer to keep. `parse` is false where there is nothing in it for a spider."""

    parse: bool = True
    next: Request | None = None  # where a Refresh header leads


@dataclass(frozen=True, slots=True)
class Redirect:
    """An answer that sends the request elsewhere."""

    request: Request


Meaning = FetchedPage | Redirect | Failure

_A_PAGE = FetchedPage()  # by far the most frequent meaning


@dataclass(frozen=True, slots=True)
class RedirectRules:
    guard: Guard
    hops: int = FetchLimits().redirects  # in a row
    url_bytes: int = LinkLimits().url_bytes


class SentRequest(Enum):
    """Whether a request could be answered with "not modified"."""

    PLAINLY = auto()
    BY_ITSELF = auto()  # it brought conditions of its own
    WITH_A_COPY = auto()  # the caller has the page, and means that one then


def interpret(
    request: Request, response: Response, rules: RedirectRules, *, asked: SentRequest, now: float
) -> Meaning:
    """Say what `response` means for `request`."""
    status = response.status
    resting = status in (429, 503) and _has_retry_after(response)
    if not resting and (service := challenged_by(response)):
        return Failure(FailureClass.ANTI_BOT, f"a challenge by {service}", status)
    if status < 300:
        # 206 is one or many parts of something: kept as it came.
        following = _refresh(request, response, rules)
        return (
            _A_PAGE
            if status == 200 and following is None
            else FetchedPage(status not in (204, 205, 206), following)
        )
    if status == 304:
        if asked is SentRequest.PLAINLY:
            return Failure(FailureClass.PROTOCOL, "304 although nothing was known", status)
        return FetchedPage(parse=asked is SentRequest.WITH_A_COPY)
    if status < 400:
        return _redirect(request, response, rules)
    return error_of(response, now)


def error_of(response: Response, now: float) -> Failure:
    """Name the failure that a status of 400 and above is."""
    status = response.status
    if status == 429 or (status == 503 and _has_retry_after(response)):
        retry_after = parse_retry_after(response.header("retry-after"), now)
        return Failure(FailureClass.RATE_LIMITED, f"status {status}", status, retry_after)
    if status in (404, 410):
        kind = FailureClass.GONE
    elif status == 403:
        kind = FailureClass.IP_BLOCKED
    elif 500 <= status < 600:
        kind = FailureClass.TARGET_ERROR
    else:
        kind = FailureClass.HTTP_ERROR
    return Failure(kind, f"status {status}", status)


def _has_retry_after(response: Response) -> bool:
    return any(name == "retry-after" for name, _ in response.headers)


def parse_retry_after(value: str, now: float) -> float | None:
    """Read seconds or a date, at most a day ahead; None: nothing that makes sense."""
    value = value.strip()
    if value.isascii() and value.isdecimal() and len(value) <= 12:
        seconds = float(value)
    else:
        when = http_date(value)
        seconds = 0.0 if when is None else when - now
    return min(seconds, LONGEST_REST) if seconds > 0 else None


def _redirect(request: Request, response: Response, rules: RedirectRules) -> Redirect | Failure:
    status = response.status
    if status not in REDIRECTS:
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
        msgspec.structs.replace(request, url=target, method=method, body=body, headers=headers, chain=chain)
    )


def _refresh(request: Request, response: Response, rules: RedirectRules) -> Request | None:
    """Follow a Refresh header like a redirect, but keep the page that sent it."""
    value = response.header("refresh")
    found = _REFRESH.match(value) if value else None
    if found is None or request.method != "GET":
        return None
    target = resolve(response.url, found.group(1), rules)
    if isinstance(target, Failure) or _chain_fault(request, target, rules.hops):
        return None
    same_origin = _origin(target) == _origin(request.url)
    headers = _headers_after(request.headers, same_origin=same_origin, has_body=False)
    chain = (*request.chain, request.url)
    return msgspec.structs.replace(request, url=target, headers=headers, chain=chain)


def resolve(base: str, location: str, rules: RedirectRules) -> str | Failure:
    """Resolve a Location; refuse what no request may be made of."""
    try:
        # Header text is latin-1 to us; what servers mean by more than ASCII is UTF-8.
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
        if (same_origin or name.lower() in _FOR_ANYBODY) and (has_body or name.lower() not in _ABOUT_A_BODY)
    }


def _origin(url: str) -> str:
    return url[: url.index("/", 8)]


def _failed(reason: str, status: int = 0) -> Failure:
    return Failure(FailureClass.REDIRECT, reason, status)
