"""The cookies of one crawl: RFC 6265 with limits, and stricter in some points.

A Secure cookie is neither accepted nor sent over plain HTTP, and is sent only to the port it came from. A
cookie for a public suffix (`co.uk`) is refused.

Servers cannot make the jar grow without limit: there are limits on the size of a cookie, the cookies of a
domain and of a site (a registrable domain with all its subdomains), the sites and bytes of the jar, and the
length of the header we send. Where a limit is reached, cookies make room in this order: expired ones, then
those set without `Secure`, then those not used for longest. A site only displaces its own cookies, until the
jar as a whole is full.

Cookies that the user has given are never displaced, are sent first, go only to the origin that they were
given for, and can be replaced or deleted only by their own host. They are not written to the store of a crawl
that is given them anew with every run.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import count
from urllib.parse import urlsplit

import msgspec
from publicsuffixlist import PublicSuffixList

from shoal.fetch.http.guard import DEFAULT_PORTS, is_ip_literal
from shoal.fetch.http_date import http_date

MAX_PER_DOMAIN = 50
MAX_PER_SITE = 150
MAX_SITES = 5_000
MAX_JAR_BYTES = 8 << 20  # names, values and paths; the jar is written to the store after every change
MAX_COOKIE_BYTES = 4096  # name and value
MAX_LINE_BYTES = 2 * MAX_COOKIE_BYTES  # a whole Set-Cookie line; a longer one is not parsed
MAX_HEADER_BYTES = 8192  # of cookies in one request

ANY_PORT = 0


class Cookie(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    value: str
    domain: str
    path: str
    port: int
    expires: float | None = None  # epoch seconds; None: valid for the whole crawl
    host_only: bool = True
    secure: bool = False
    given: bool = False  # by the user

    @property
    def size(self) -> int:
        return len(self.name) + len(self.value) + len(self.path)


class _Entry:
    """A cookie in the jar."""

    __slots__ = ("cookie", "used")

    def __init__(self, cookie: Cookie, used: int) -> None:
        self.cookie = cookie
        self.used = used  # increases with every use of the jar


_Key = tuple[str, str]  # path and name


class _Site:
    """The cookies of a registrable domain and its subdomains."""

    __slots__ = ("count", "domains")

    def __init__(self) -> None:
        self.domains: dict[str, dict[_Key, _Entry]] = {}
        self.count = 0

    def entries(self) -> Iterator[_Entry]:
        for kept in self.domains.values():
            yield from kept.values()


class CookieJar:
    """Stores cookies and returns those for a URL."""

    def __init__(self) -> None:
        self._sites: OrderedDict[str, _Site] = OrderedDict()  # not used for longest first
        self._bytes = 0
        self._ticks = count()
        self.version = 0  # increases with every change, so that the caller knows when to save
        self.dropped = 0  # cookies refused, for any reason

    def __len__(self) -> int:
        return sum(site.count for site in self._sites.values())

    def store(self, url: str, lines: list[str], now: float) -> None:
        """Store the Set-Cookie lines of a response from `url`."""
        place = _Place.of(url)
        for line in lines:
            cookie = _parse(line, place, now) if len(line) <= MAX_LINE_BYTES else None
            if cookie is None or not self._keep(cookie, place, now):
                self.dropped += 1

    def put(self, cookies: Iterable[Cookie], now: float) -> None:
        """Store cookies that the user has given; they replace existing ones."""
        for cookie in cookies:
            place = _Place(cookie.domain, cookie.port, cookie.path, secure=True)
            self._keep(msgspec.structs.replace(cookie, given=True), place, now)

    def header(self, url: str, now: float) -> str:
        """Return the Cookie header for `url`; an empty string if there are no cookies for it."""
        if not self._sites:
            return ""
        place = _Place.of(url)
        name = site_of(place.host)
        site = self._sites.get(name)
        if site is None:
            return ""
        found = [
            entry
            for domain in _parents(place.host)
            for entry in site.domains.get(domain, {}).values()
            if _belongs(entry.cookie, place, now)
        ]
        if not found:
            return ""
        self._sites.move_to_end(name)
        tick = next(self._ticks)
        found.sort(key=lambda entry: (not entry.cookie.given, -len(entry.cookie.path)))
        pairs: list[str] = []
        room = MAX_HEADER_BYTES
        for entry in found:
            cookie = entry.cookie
            pair = f"{cookie.name}={cookie.value}" if cookie.name else cookie.value
            room -= len(pair) + 2
            if room < 0:
                break
            entry.used = tick
            pairs.append(pair)
        return "; ".join(pairs)

    def dump(self, *, given: bool = False) -> bytes:
        """Return the jar as JSON, with or without the cookies that the user has given."""
        cookies = (entry.cookie for site in self._sites.values() for entry in site.entries())
        return msgspec.json.encode([cookie for cookie in cookies if given or not cookie.given])

    @classmethod
    def load(cls, dumped: bytes) -> "CookieJar":
        """Return the jar that `dump` has written."""
        jar = cls()
        for cookie in msgspec.json.decode(dumped, type=list[Cookie]):
            jar._insert(cookie)
        return jar

    def _keep(self, cookie: Cookie, place: "_Place", now: float) -> bool:
        name = site_of(cookie.domain)
        site = self._sites.get(name)
        kept = site.domains.get(cookie.domain, {}) if site is not None else {}
        key = (cookie.path, cookie.name)
        entry = kept.get(key)
        old = entry.cookie if entry is not None else None
        if old is not None and not _may_replace(cookie, old, place):
            return False
        if cookie.expires is not None and cookie.expires <= now:
            if old is not None:  # the usual way to delete one
                self._drop(name, old)
                self.version += 1
            return True
        if old is not None:
            cookie = msgspec.structs.replace(cookie, given=cookie.given or old.given)
            if old == cookie:
                return True
            self._drop(name, old)
        self._insert(cookie)
        self.version += 1
        if not cookie.given:
            self._make_room(name, cookie.domain, now)
        return True

    def _insert(self, cookie: Cookie) -> None:
        name = site_of(cookie.domain)
        site = self._sites.get(name)
        if site is None:
            site = self._sites[name] = _Site()
        entry = _Entry(cookie, next(self._ticks))
        site.domains.setdefault(cookie.domain, {})[cookie.path, cookie.name] = entry
        site.count += 1
        self._bytes += cookie.size

    def _drop(self, name: str, cookie: Cookie) -> None:
        site = self._sites[name]
        kept = site.domains[cookie.domain]
        del kept[cookie.path, cookie.name]
        site.count -= 1
        self._bytes -= cookie.size
        if not kept:
            del site.domains[cookie.domain]
        if not site.count:
            del self._sites[name]

    def _make_room(self, name: str, domain: str, now: float) -> None:
        """Drop cookies until the limits hold: of the domain, of the site, of the jar."""
        site = self._sites[name]
        while len(kept := site.domains.get(domain, {})) > MAX_PER_DOMAIN:
            if not self._drop_first(name, kept.values(), now):
                break
        while site.count > MAX_PER_SITE:
            if not self._drop_first(name, site.entries(), now):
                break
        if len(self._sites) > MAX_SITES or self._bytes > MAX_JAR_BYTES:
            for other in list(self._sites):
                for entry in list(self._sites[other].entries()):
                    if not entry.cookie.given:
                        self._drop(other, entry.cookie)
                if len(self._sites) <= MAX_SITES and self._bytes <= MAX_JAR_BYTES:
                    break

    def _drop_first(self, name: str, entries: Iterable[_Entry], now: float) -> bool:
        """Drop the cookie that may be missed least; return False if the user has given all of them."""
        dropped = False
        left = [entry for entry in entries if not entry.cookie.given]
        for entry in left:
            if entry.cookie.expires is not None and entry.cookie.expires <= now:
                self._drop(name, entry.cookie)
                dropped = True
        if not dropped and left:
            self._drop(name, min(left, key=lambda entry: (entry.cookie.secure, entry.used)).cookie)
        return bool(left)


def _may_replace(new: Cookie, old: Cookie, place: "_Place") -> bool:
    """Return whether a cookie from `place` may take the place of `old`, or delete it."""
    if old.secure and not place.secure:
        return False  # plain HTTP must not overwrite what came over TLS
    # A sibling must not overwrite, by a cookie for their common domain, what the user gave for one host.
    return new.given or not old.given or not old.host_only or place.host == old.domain


@lru_cache(maxsize=20_000)
def site_of(host: str) -> str:
    """Return the registrable domain of a host; the host itself if it has none."""
    if is_ip_literal(host):
        return host
    return _suffixes().privatesuffix(host) or host


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
    prefix = (name or value).lower()  # servers ignore case, and read a cookie without a name as its value
    if not name and prefix.startswith(("__secure-", "__host-")):
        return None
    if prefix.startswith("__secure-") and not secure:
        return None
    if prefix.startswith("__host-") and not (secure and path == "/" and not attributes.get("domain")):
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
    return PublicSuffixList()  # takes 50 ms: created with the first cookie


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
    if cookie.secure and not place.secure:
        return False
    if (cookie.secure or cookie.given) and cookie.port not in (ANY_PORT, place.port):
        return False
    if cookie.expires is not None and cookie.expires <= now:
        return False
    if not place.path.startswith(cookie.path):
        return False
    rest = place.path[len(cookie.path) :]
    return not rest or cookie.path.endswith("/") or rest.startswith("/")
