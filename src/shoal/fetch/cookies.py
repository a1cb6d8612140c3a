"""The cookies of one crawl: RFC 6265 with limits, and stricter in some points.

A Secure cookie is neither accepted nor sent over plain HTTP, and is sent only to the port it came from. A
cookie for a public suffix (`co.uk`) is refused. Servers cannot make the jar grow without limit: there are
limits on the size of a cookie, the cookies of a domain, the domains and bytes of the jar, and the length of
the header we send.
"""

from collections.abc import Iterable
from functools import cache
from urllib.parse import urlsplit

import msgspec
from publicsuffixlist import PublicSuffixList

from shoal.fetch.http.guard import DEFAULT_PORTS, is_ip_literal
from shoal.fetch.http_date import http_date

MAX_PER_DOMAIN = 50
MAX_DOMAINS = 5_000
MAX_JAR_BYTES = 8 << 20  # names, values and paths; the jar is written to the store after every change
MAX_COOKIE_BYTES = 4096  # name and value
MAX_LINE_BYTES = 2 * MAX_COOKIE_BYTES  # a whole Set-Cookie line; a longer one is not parsed
MAX_HEADER_BYTES = 8192  # of cookies in one request


class Cookie(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    value: str
    domain: str
    path: str
    port: int
    expires: float | None = None  # epoch seconds; None: valid for the whole crawl
    host_only: bool = True
    secure: bool = False

    @property
    def size(self) -> int:
        return len(self.name) + len(self.value) + len(self.path)


class CookieJar:
    """Stores cookies and returns those for a URL."""

    def __init__(self) -> None:
        self._domains: dict[str, dict[tuple[str, str], Cookie]] = {}  # domain -> (path, name) -> cookie
        self._bytes = 0
        self.version = 0  # increases with every change, so that the caller knows when to save
        self.dropped = 0  # cookies refused, for any reason

    def __len__(self) -> int:
        return sum(map(len, self._domains.values()))

    def store(self, url: str, lines: list[str], now: float) -> None:
        """Store the Set-Cookie lines of a response from `url`."""
        place = _Place.of(url)
        for line in lines:
            cookie = _parse(line, place, now) if len(line) <= MAX_LINE_BYTES else None
            if cookie is None or not self._keep(cookie, place, now):
                self.dropped += 1

    def put(self, cookies: Iterable[Cookie], now: float) -> None:
        """Store cookies from the settings; they replace existing ones."""
        for cookie in cookies:
            self._keep(cookie, _Place(cookie.domain, cookie.port, cookie.path, secure=True), now)

    def header(self, url: str, now: float) -> str:
        """Return the Cookie header for `url`; an empty string if there are no cookies for it."""
        if not self._domains:
            return ""
        place = _Place.of(url)
        found = [
            cookie
            for domain in _parents(place.host)
            for cookie in self._domains.get(domain, {}).values()
            if _belongs(cookie, place, now)
        ]
        found.sort(key=lambda cookie: -len(cookie.path))
        pairs: list[str] = []
        room = MAX_HEADER_BYTES
        for cookie in found:
            pair = f"{cookie.name}={cookie.value}" if cookie.name else cookie.value
            room -= len(pair) + 2
            if room < 0:
                break
            pairs.append(pair)
        return "; ".join(pairs)

    def dump(self) -> bytes:
        """Return the jar as JSON."""
        return msgspec.json.encode([c for kept in self._domains.values() for c in kept.values()])

    @classmethod
    def load(cls, dumped: bytes) -> "CookieJar":
        """Return the jar that `dump` has written."""
        jar = cls()
        for cookie in msgspec.json.decode(dumped, type=list[Cookie]):
            jar._domains.setdefault(cookie.domain, {})[cookie.path, cookie.name] = cookie
            jar._bytes += cookie.size
        return jar

    def _keep(self, cookie: Cookie, place: "_Place", now: float) -> bool:
        kept = self._domains.get(cookie.domain, {})
        key = (cookie.path, cookie.name)
        old = kept.get(key)
        if old is not None and old.secure and not place.secure:
            return False  # plain HTTP must not overwrite what came over TLS
        if cookie.expires is not None and cookie.expires <= now:
            if old is not None:  # the usual way to delete one
                self._drop(kept, key)
                self.version += 1
            return True
        if old is None and len(kept) >= MAX_PER_DOMAIN:
            gone = [key for key, other in kept.items() if other.expires is not None and other.expires <= now]
            for expired in gone or [next(iter(kept))]:
                self._drop(kept, expired)
        if old is None or old != cookie:
            self.version += 1
        self._bytes += cookie.size - (0 if old is None else old.size)
        self._domains.setdefault(cookie.domain, kept)[key] = cookie
        while len(self._domains) > MAX_DOMAINS or self._bytes > MAX_JAR_BYTES:
            oldest = self._domains.pop(next(iter(self._domains)))
            self._bytes -= sum(one.size for one in oldest.values())
        return True

    def _drop(self, kept: dict[tuple[str, str], Cookie], key: tuple[str, str]) -> None:
        self._bytes -= kept.pop(key).size


class _Place(msgspec.Struct, frozen=True):
    """The target of a request, or the source of a response."""

    host: str
    port: int
    path: str
    secure: bool

    @classmethod
    def of(cls, url: str) -> "_Place":
        parts = urlsplit(url)
        return cls(
            parts.hostname or "",
            parts.port or DEFAULT_PORTS[parts.scheme],
            parts.path or "/",
            parts.scheme == "https",
        )


def _parse(line: str, place: _Place, now: float) -> Cookie | None:
    """Return the cookie in a Set-Cookie line; None if it is refused."""
    pair, _, rest = line.partition(";")
    name, equals, value = pair.partition("=")
    if not equals:
        name, value = "", name
    name, value = name.strip(), value.strip()
    if not (name or value) or len(name) + len(value) > MAX_COOKIE_BYTES:
        return None
    attributes: dict[str, str] = {}
    for part in rest.split(";"):
        key, _, text = part.partition("=")
        attributes[key.strip().lower()] = text.strip()
    secure = "secure" in attributes
    domain = _domain(attributes.get("domain", ""), place.host)
    path = attributes.get("path", "")
    if domain is None or (secure and not place.secure):
        return None
    if name.startswith("__Secure-") and not secure:
        return None
    if name.startswith("__Host-") and not (secure and path == "/" and not attributes.get("domain")):
        return None
    return Cookie(
        name,
        value,
        domain or place.host,
        path if path.startswith("/") else _default_path(place.path),
        place.port,
        _expiry(attributes, now),
        not domain,
        secure,
    )


def _domain(wanted: str, host: str) -> str | None:
    """Return the domain of a Domain attribute; "" for this host only, None if the cookie is refused."""
    wanted = wanted.removeprefix(".").lower()
    if not wanted or wanted == host:
        # A cookie for the host itself is always allowed, even if the host is a public suffix.
        return "" if not wanted or is_ip_literal(host) or _is_public_suffix(host) else wanted
    if is_ip_literal(host) or not host.endswith(f".{wanted}") or _is_public_suffix(wanted):
        return None
    return wanted


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()  # takes 50 ms: created when the first Domain attribute is seen


def _is_public_suffix(domain: str) -> bool:
    return bool(_suffixes().is_public(domain))


def _expiry(attributes: dict[str, str], now: float) -> float | None:
    age = attributes.get("max-age", "")
    if age.removeprefix("-").isdecimal():
        return now + min(int(age[:12]), 400 * 86_400)  # the longest that browsers allow
    return http_date(attributes.get("expires", "").replace("-", " "))


def _default_path(path: str) -> str:
    return path[: path.rindex("/")] or "/"


def _parents(host: str) -> list[str]:
    """Return `host` and its parent domains."""
    if is_ip_literal(host):
        return [host]
    labels = host.split(".")
    return [".".join(labels[n:]) for n in range(len(labels))]


def _belongs(cookie: Cookie, place: _Place, now: float) -> bool:
    if cookie.host_only and cookie.domain != place.host:
        return False
    if cookie.secure and not (place.secure and cookie.port == place.port):
        return False
    if cookie.expires is not None and cookie.expires <= now:
        return False
    if not place.path.startswith(cookie.path):
        return False
    rest = place.path[len(cookie.path) :]
    return not rest or cookie.path.endswith("/") or rest.startswith("/")
