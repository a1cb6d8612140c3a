"""Failure classes: the closed set of what goes wrong, and one row of policy for each."""

from dataclasses import dataclass
from enum import StrEnum


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
    INTERNAL = "internal"


class Action(StrEnum):
    RETRY = "retry"
    REST_HOST = "rest_host"
    DEAD = "dead"
    GONE = "gone"
    FILTER = "filter"


CONSEQUENCE = {
    Action.RETRY: "back off and try again; a dead letter when the attempts are used up",
    Action.REST_HOST: "the host asked for silence: it rests, then the same again, no attempt charged",
    Action.DEAD: "given up at once; a dead letter",
    Action.GONE: "ends as `gone`: the page does not exist, which is no failure",
    Action.FILTER: "ends as `filtered`, counted by rule",
}


@dataclass(frozen=True, slots=True)
class Policy:
    action: Action
    when: str  # shown in the reference of failure classes
    retries: int | None = None  # None: the crawl's max_retries
    blocks: bool = False  # counts towards the host's adaptive slow-down


_RETRY, _DEAD, _FILTER = Action.RETRY, Action.DEAD, Action.FILTER

POLICY: dict[FailureClass, Policy] = {
    FailureClass.DNS: Policy(_RETRY, "the name does not resolve"),
    FailureClass.CONNECT: Policy(_RETRY, "no connection, or it was reset before the answer"),
    FailureClass.TIMEOUT: Policy(_RETRY, "connecting, handshake, first byte or body took too long"),
    # A certificate rarely mends itself within minutes, but a load balancer may have one bad member.
    FailureClass.TLS: Policy(_RETRY, "certificate or handshake refused", retries=1),
    FailureClass.PROTOCOL: Policy(_RETRY, "the answer is not valid HTTP"),
    FailureClass.TRUNCATED: Policy(_RETRY, "the body ended before its announced end"),
    FailureClass.DECODE: Policy(_RETRY, "the content encoding is unknown or corrupt"),
    FailureClass.PROXY_ERROR: Policy(_RETRY, "the proxy failed, not the target"),
    FailureClass.RATE_LIMITED: Policy(Action.REST_HOST, "429, or 503 with Retry-After", blocks=True),
    FailureClass.IP_BLOCKED: Policy(_RETRY, "403", blocks=True),
    FailureClass.ANTI_BOT: Policy(_RETRY, "a challenge page instead of the page", blocks=True),
    FailureClass.TARGET_ERROR: Policy(_RETRY, "5xx"),
    FailureClass.GONE: Policy(Action.GONE, "404 or 410"),
    FailureClass.HTTP_ERROR: Policy(_DEAD, "any other 4xx"),
    FailureClass.TOO_LARGE: Policy(_DEAD, "headers or body above the limit"),
    FailureClass.BOMB: Policy(
        _DEAD, "made to explode: decoded size, ratio or encodings above the limit, XML entities, a sitemap"
    ),
    FailureClass.REDIRECT: Policy(_DEAD, "a loop, too many hops, or a target that cannot be fetched"),
    FailureClass.REFUSED: Policy(_DEAD, "scheme, port or address not allowed"),
    FailureClass.ROBOTS: Policy(_FILTER, "robots.txt disallows it"),
    FailureClass.SCOPE: Policy(_FILTER, "outside the crawl's scope"),
    FailureClass.DEPTH: Policy(_FILTER, "deeper than the crawl's depth"),
    FailureClass.TRAP: Policy(_FILTER, "looks like an endless address space"),
    FailureClass.BUDGET: Policy(_FILTER, "beyond the page or host budget"),
    FailureClass.PARSE_ERROR: Policy(_DEAD, "the spider raised, or an item is invalid; the page is kept"),
    FailureClass.POISON: Policy(_DEAD, "a worker or parser died or overran while holding it"),
    FailureClass.INTERNAL: Policy(_DEAD, "a bug in Shoal"),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one attempt failed."""

    kind: FailureClass
    reason: str  # one line, no secrets
    status: int = 0  # HTTP status, if there was one
    retry_after: float | None = None  # seconds of silence the host asked for
