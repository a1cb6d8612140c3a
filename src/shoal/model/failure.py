"""Failure classes: the closed set of reasons why an attempt fails, and the policy for each."""

from enum import StrEnum

import msgspec


class FailureClass(StrEnum):
    DNS = "dns"
    CONNECT = "connect"
    TIMEOUT = "timeout"
    TLS = "tls"
    PROTOCOL = "protocol"
    TRUNCATED = "truncated"
    DECODE = "decode"
    PROXY_ERROR = "proxy_error"
    RATE_LIMITED = "rate_limited"
    IP_BLOCKED = "ip_blocked"
    ANTI_BOT = "anti_bot"
    NEEDS_BROWSER = "needs_browser"
    TARGET_ERROR = "target_error"
    GONE = "gone"
    HTTP_ERROR = "http_error"
    TOO_LARGE = "too_large"
    BOMB = "bomb"
    REDIRECT = "redirect"
    REFUSED = "refused"
    ROBOTS = "robots"
    SCOPE = "scope"
    DEPTH = "depth"
    TRAP = "trap"
    BUDGET = "budget"
    PARSE_ERROR = "parse_error"
    POISON = "poison"
    RENDERER_CRASH = "renderer_crash"
    HOLDER_LOST = "holder_lost"
    UNREADABLE = "unreadable"
    INTERNAL = "internal"


class Action(StrEnum):
    RETRY = "retry"
    REST_HOST = "rest_host"
    OTHER_EXIT = "other_exit"
    OTHER_LEVEL = "other_level"
    DEAD = "dead"
    GONE = "gone"
    FILTER = "filter"


CONSEQUENCE = {
    Action.RETRY: "back off and retry; a dead letter after the last attempt",
    Action.REST_HOST: "pause the host as long as it asked, then retry; no attempt is charged",
    Action.OTHER_EXIT: "retry through another exit; no attempt is charged, up to `retry.max_rests` times",
    Action.OTHER_LEVEL: "retry at the next level ([levels](../levels.md)); no attempt is charged",
    Action.DEAD: "no retry; a dead letter",
    Action.GONE: "ends as `gone`: the page does not exist; not a dead letter",
    Action.FILTER: "ends as `filtered`, counted by rule",
}


class FailurePolicy(msgspec.Struct, frozen=True):
    action: Action
    when: str  # for the reference of failure classes
    retries: int | None = None  # None: the crawl's max_retries


_RETRY, _DEAD, _FILTER = Action.RETRY, Action.DEAD, Action.FILTER

POLICY: dict[FailureClass, FailurePolicy] = {
    FailureClass.DNS: FailurePolicy(_RETRY, "the name does not resolve"),
    FailureClass.CONNECT: FailurePolicy(_RETRY, "no connection, or it was reset before the response"),
    FailureClass.TIMEOUT: FailurePolicy(_RETRY, "connecting, handshake, first byte or body took too long"),
    # A certificate is rarely fixed within minutes, but one server behind a load balancer may be wrong.
    FailureClass.TLS: FailurePolicy(_RETRY, "certificate or handshake refused", retries=1),
    # A server writes its responses in the same way every time, but one behind a load balancer may be wrong.
    FailureClass.PROTOCOL: FailurePolicy(
        _RETRY, "the response is not HTTP, or its end cannot be told for sure", retries=1
    ),
    FailureClass.TRUNCATED: FailurePolicy(_RETRY, "the body is shorter than announced"),
    FailureClass.DECODE: FailurePolicy(_RETRY, "the body does not decode by its content encoding"),
    FailureClass.PROXY_ERROR: FailurePolicy(
        Action.OTHER_EXIT, "the exit cannot be reached, refuses us or does not answer as a proxy does"
    ),
    FailureClass.RATE_LIMITED: FailurePolicy(Action.REST_HOST, "429, or 503 with Retry-After"),
    FailureClass.IP_BLOCKED: FailurePolicy(_RETRY, "403"),
    FailureClass.ANTI_BOT: FailurePolicy(_RETRY, "a challenge page instead of the page"),
    FailureClass.NEEDS_BROWSER: FailurePolicy(
        Action.OTHER_LEVEL, "an empty page that JavaScript fills, where a browser is available"
    ),
    FailureClass.TARGET_ERROR: FailurePolicy(_RETRY, "5xx"),
    FailureClass.GONE: FailurePolicy(Action.GONE, "404 or 410"),
    FailureClass.HTTP_ERROR: FailurePolicy(_DEAD, "any other 4xx"),
    FailureClass.TOO_LARGE: FailurePolicy(_DEAD, "headers or body above the limit"),
    FailureClass.BOMB: FailurePolicy(
        _DEAD, "built to expand: decoded size, ratio or encodings above the limit, XML entities, a sitemap"
    ),
    FailureClass.REDIRECT: FailurePolicy(_DEAD, "a loop, too many hops, or a target that cannot be fetched"),
    FailureClass.REFUSED: FailurePolicy(_DEAD, "scheme, port or address not allowed"),
    FailureClass.ROBOTS: FailurePolicy(_FILTER, "robots.txt disallows it"),
    FailureClass.SCOPE: FailurePolicy(_FILTER, "outside the crawl's scope"),
    FailureClass.DEPTH: FailurePolicy(_FILTER, "deeper than the crawl's depth"),
    FailureClass.TRAP: FailurePolicy(_FILTER, "looks like a crawler trap: an endless set of URLs"),
    FailureClass.BUDGET: FailurePolicy(_FILTER, "beyond the page or host budget"),
    FailureClass.PARSE_ERROR: FailurePolicy(
        _DEAD, "the spider raised, or an item is invalid; the page is kept"
    ),
    FailureClass.POISON: FailurePolicy(_DEAD, "a worker or parse process died or hung on it"),
    FailureClass.RENDERER_CRASH: FailurePolicy(
        _RETRY, "the browser crashed on it, or used more memory than browser.memory_bytes", retries=1
    ),
    FailureClass.HOLDER_LOST: FailurePolicy(
        _RETRY, "its worker died or overran; after the second time it is tried alone, and then `poison`"
    ),
    FailureClass.UNREADABLE: FailurePolicy(
        _DEAD, "its entry in the store is damaged; `shoal status` counts what was quarantined"
    ),
    FailureClass.INTERNAL: FailurePolicy(_DEAD, "a bug in Shoal"),
}


class Failure(msgspec.Struct, frozen=True):
    """Why one attempt failed."""

    failure_class: FailureClass
    reason: str  # one line, no secrets
    status: int = 0  # HTTP status, if there was one
    retry_after: float | None = None  # seconds that the host asked us to wait
    detail: str = ""  # several lines: the traceback of a spider
    fault: str = ""  # on the way through an exit: a row of `model/exits/faults.py`

    @property
    def text(self) -> str:
        """The reason and, below it, the detail: what a dead letter stores."""
        return f"{self.reason}\n{self.detail}" if self.detail else self.reason


def split_text(text: str) -> tuple[str, str]:
    """Return the reason and the detail of a dead letter (`Failure.text`)."""
    reason, _, detail = text.partition("\n")
    return reason, detail
