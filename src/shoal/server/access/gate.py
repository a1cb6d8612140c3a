"""Every check that a request passes before its handler runs.

1. Host names this server: a page of another site that points its own name at this address (DNS rebinding)
   sends its own name. Origin and Sec-Fetch-Site, where a browser sends them, name this server as well.
2. A token (`Authorization: Bearer ...`), or the session cookie that the dashboard got for one. With a cookie,
   requests that change something carry the session's CSRF token in `X-Shoal-CSRF`.
3. The role of the token includes that of the route.
4. The rate limit of the token.

Wrong tokens are limited per address; the limit never applies to a request with a good token.
"""

import hmac
import ipaddress
import secrets
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from shoal.model.api.problem import ApiError
from shoal.model.api.roles import Role
from shoal.model.configuration.listen_address import host_of
from shoal.server.access.rate_limit import Rate, RateLimiter
from shoal.server.access.tokens import Holder, TokenBook, digest_of

COOKIE = "shoal_session"
CSRF = "x-shoal-csrf"
SESSION_S = 12 * 3600.0
MAX_SESSIONS = 1_000
MAX_SESSIONS_OF_ONE_TOKEN = 100
WRONG_TOKENS = Rate(per_s=1.0, burst=20.0)  # per address
REQUESTS = Rate(per_s=50.0, burst=200.0)  # per token
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class HeaderError(ApiError):
    def __init__(self, detail: str) -> None:
        super().__init__(400, "bad_header", detail)


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by lower-case name; raise for a repeated one that decides about access."""
    found: dict[str, str] = {}
    for name_bytes, value in raw:
        name = name_bytes.decode("latin-1")
        if name in found and name in ("authorization", "host", "origin", CSRF, "content-type"):
            raise HeaderError(f"send the header {name} once")
        text = value.decode("latin-1")
        found[name] = f"{found[name]}; {text}" if name == "cookie" and name in found else text
    return found


def accepts_host(name: str, allowed: Collection[str], *, any_address: bool) -> bool:
    """Return whether a Host header may name this server.

    A numeric address is safe where the server listens on all of them: rebinding needs a name.
    """
    if name in allowed:
        return True
    if not any_address:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_foreign(headers: Mapping[str, str]) -> bool:
    """Return whether a browser says that a request comes from a page of another site.

    The scheme of a page of this server is https where a proxy in front of it speaks TLS.
    """
    origin, host = headers.get("origin"), headers.get("host", "").lower()
    if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
        return True
    if origin is None and (referer := headers.get("referer")):
        try:
            if urlsplit(referer).netloc.lower() != headers.get("host", "").lower():
                return True
        except ValueError:
            return True
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def read_cookie(headers: Mapping[str, str], name: str) -> str:
    for part in headers.get("cookie", "").split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return ""


@dataclass(frozen=True, slots=True)
class BrowserSession:
    token: str  # hash of the token that it was made for: it ends with it
    csrf: str
    expires_at: float


class Sessions:
    """The sessions of browsers, in memory: after a restart people sign in again."""

    def __init__(self) -> None:
        self._sessions: dict[str, BrowserSession] = {}  # the oldest first

    def create(self, token_digest: str, now: float) -> tuple[str, BrowserSession]:
        key, session = (
            secrets.token_urlsafe(32),
            BrowserSession(token_digest, secrets.token_urlsafe(32), now + SESSION_S),
        )
        held = Counter(one.token for one in self._sessions.values())
        if held[token_digest] >= MAX_SESSIONS_OF_ONE_TOKEN:
            self._end_oldest(token_digest)
        elif len(self._sessions) >= MAX_SESSIONS:
            self._end_oldest(held.most_common(1)[0][0])
        self._sessions[digest_of(key)] = session
        return key, session

    def _end_oldest(self, token_digest: str) -> None:
        """End the oldest session of a token: signing in often signs no holder of another token out."""
        del self._sessions[next(key for key, one in self._sessions.items() if one.token == token_digest)]

    def find(self, key: str, now: float) -> BrowserSession | None:
        session = self._sessions.get(digest_of(key)) if key else None
        return None if session is None or now >= session.expires_at else session

    def end(self, key: str) -> None:
        self._sessions.pop(digest_of(key), None)


def has_csrf(headers: Mapping[str, str], session: BrowserSession) -> bool:
    return hmac.compare_digest(headers.get(CSRF, "").encode("latin-1"), session.csrf.encode())


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request, and how that is known."""

    holder: Holder
    digest: str  # of the token
    over_tls: bool = False  # a browser says that the page which sent it was loaded over https
    session_key: str = ""  # empty: a token was sent
    session: BrowserSession | None = None


class GuardedRoute(Protocol):
    """The part of a route that decides about access."""

    @property
    def role(self) -> Role: ...
    @property
    def cost(self) -> float: ...
    @property
    def changes(self) -> bool: ...


class AccessGate:
    def __init__(
        self,
        tokens: TokenBook,
        *,
        hosts: Collection[str] = LOOPBACK_NAMES,
        any_address: bool = False,
        requests: Rate = REQUESTS,
    ) -> None:
        self.tokens = tokens
        self.sessions = Sessions()
        self._hosts = hosts
        self._any_address = any_address
        self._wrong = RateLimiter(WRONG_TOKENS)
        self._requests = RateLimiter(requests)

    def check_source(self, headers: Mapping[str, str]) -> None:
        """Raise if a request was meant for another server, or was sent by a page of another site."""
        if not accepts_host(host_of(headers.get("host", "")), self._hosts, any_address=self._any_address):
            raise ApiError(
                403, "foreign_host", "this server has another name: start it with --allow-host to add one"
            )
        if is_foreign(headers):
            raise ApiError(403, "foreign_origin", "requests from pages of other sites are not accepted")

    def identify(self, headers: Mapping[str, str], address: str) -> Caller:
        """Return who sent a request; raise 401 if it carries no token, and 429 after many wrong ones."""
        now = time.time()
        over_tls = headers.get("origin", "").lower().startswith("https://")
        self.tokens.refresh()
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme:
            digest = digest_of(token.strip())
            holder = self.tokens.find(digest) if scheme.lower() == "bearer" else None
            if holder is not None:
                return Caller(holder, digest, over_tls)
        else:
            session = self.sessions.find(key := read_cookie(headers, COOKIE), now)
            holder = None if session is None else self.tokens.find(session.token)
            if session is not None and holder is not None:
                return Caller(holder, session.token, over_tls, key, session)
        if wait := self._wrong.take(address, 1.0, time.monotonic()):
            raise ApiError(
                429, "too_many_wrong_tokens", "wait before you try another token", retry_after_s=wait
            )
        if scheme:
            raise ApiError(
                401, "token_wrong", "the token is unknown or has expired: shoal token list shows all"
            )
        raise ApiError(401, "token_missing", "send a token: Authorization: Bearer TOKEN")

    def admit(self, caller: Caller, route: GuardedRoute, headers: Mapping[str, str]) -> None:
        """Raise unless the caller may use a route now."""
        if not caller.holder.role.includes(route.role):
            raise ApiError(
                403,
                "role_too_small",
                f"this needs a token with the role {route.role}, not {caller.holder.role}",
            )
        if caller.session is not None and route.changes and not has_csrf(headers, caller.session):
            raise ApiError(403, "csrf_missing", "send the CSRF token of the session in X-Shoal-CSRF")
        if wait := self._requests.take(caller.digest, route.cost, time.monotonic()):
            raise ApiError(429, "rate_limited", "this token sends too many requests", retry_after_s=wait)
