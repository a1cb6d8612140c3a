"""An exit, and the line of text that describes one.

    http://user:password@gate.example:8000 kind=residential country=us price_gb=4.25
    socks5://192.0.2.7:1080 kind=isp price_month=2.08
    192.0.2.8:3128:user:password

A line is an address and options, separated by spaces. A gateway is an exit whose user name says which address
it should use: `template={user}-type-{type}-country-{geo}-session-{session}`. Parts of a template without a
value are left out, together with the word before them.

No error shows the text of a line: it may hold a password.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any
from urllib.parse import unquote, urlsplit

from shoal.model.errors import Rejected

SCHEMES = ("http", "https", "socks5")
_ALIASES = {"socks5h": "socks5"}
KNOWN_KINDS = ("residential", "isp", "datacenter")
OTHER_KIND = "other"  # of an exit whose line names none
MAX_LOGIN_BYTES = 255  # of a user name or a password, in SOCKS5
SESSION_CHARS = 13  # of the name of a session
LONGEST_WORD = "x" * 32  # a kind that a request may ask for
_OPTIONS = (
    "kind",
    "country",
    "inside",
    "tunnel",
    "price_gb",
    "price_month",
    "connections",
    "name",
    "template",
)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,31}")
_COUNTRY = re.compile(r"[a-z]{2}")
_COLONS = re.compile(r"[^\s/:]+:\d+(?::.*)?(?:\s.*)?")
_SEPARATOR = re.compile(r"\s*[,;]\s*")
_BETWEEN_URLS = re.compile(r"\s*[,;]\s*(?=[A-Za-z][A-Za-z0-9]*://)")
_PLAIN = re.compile(r"[^\s/:@,;]+:\d+(?::[^\s:,;]+:[^\s,;]+)?(?:\s+[a-z_]+=\S*)*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:~-]{0,63}")
_HOST = re.compile(r"[A-Za-z0-9_.:-]{1,253}")
_FIELD = re.compile(r"(?:-(?P<word>[A-Za-z]+)-)?\{(?P<field>[a-z]*)\}")
_FIELDS = ("user", "type", "geo", "session")


@dataclass(frozen=True, slots=True)
class Exit:
    """An upstream proxy."""

    scheme: str  # one of SCHEMES
    host: str  # IPv6 without brackets
    port: int
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    kinds: tuple[str, ...] = ()  # residential, isp, datacenter, or names of the operator
    countries: tuple[str, ...] = ()  # two letters each; empty: not known
    inside: bool | None = None  # it stands in our network; None: if its address is private
    tunnel: bool = False  # plain http goes through CONNECT, too
    price_gb: float = 0.0  # for a GB of traffic, in the operator's currency
    price_month: float = 0.0  # for a month of this address
    connections: int = 0  # at once; 0: as the settings say
    template: str = field(default="", repr=False)  # of the user name; empty: `user` as it is
    name: str = ""  # for people, logs and the store: no secrets, unique in a list

    @property
    def is_gateway(self) -> bool:
        """Whether its user name chooses the address that a request leaves from."""
        return bool(self.template)

    @property
    def kind(self) -> str:
        """Return its kind for tables and metrics."""
        return self.kinds[0] if self.kinds else OTHER_KIND

    @property
    def country(self) -> str:
        return ",".join(self.countries)


@dataclass(frozen=True, slots=True)
class ExitWish:
    """What a request asks of its exit; empty: anything."""

    kind: str = ""
    country: str = ""

    def __str__(self) -> str:
        parts = (
            f"kind {self.kind!r}" if self.kind else "",
            f"country {self.country!r}" if self.country else "",
        )
        return " and ".join(part for part in parts if part) or "any kind"


@dataclass(frozen=True, slots=True)
class ExitWishes:
    """What a crawl asks of exits, for all hosts and for some of them."""

    default: ExitWish = ExitWish()
    hosts: Mapping[str, ExitWish] = field(default_factory=dict)

    def of(self, host: str, *, kind: str = "", country: str = "") -> ExitWish:
        """Return the wish for a request: its own, else that of its host, else that of the crawl."""
        own = self.hosts.get(host, self.default)
        if not kind and not country:
            return own
        return ExitWish(kind or own.kind, (country or own.country).lower())


@dataclass(frozen=True, slots=True)
class ChosenExit:
    """An exit with the user name of one session: what a connection is made through."""

    exit: Exit
    user: str = field(default="", repr=False)
    kind: str = ""
    keep: bool = True  # its connections may be used for later requests

    @property
    def name(self) -> str:
        return self.exit.name

    @property
    def key(self) -> str:
        """Return what tells its connections apart: another user name is another address. Not for logs."""
        return f"{self.exit.name} {self.user}"


def matches(exit: Exit, wish: ExitWish) -> bool:
    """Return whether an exit can be what a request asks for."""
    # A spider chooses these words, and a gateway gets them in its user name.
    if wish.kind and _WORD.fullmatch(wish.kind) is None:
        return False
    if wish.country and _COUNTRY.fullmatch(wish.country) is None:
        return False
    kind = not wish.kind or wish.kind in exit.kinds or (not exit.kinds and "{type}" in exit.template)
    country = (
        not wish.country
        or wish.country in exit.countries
        or (not exit.countries and "{geo}" in exit.template)
    )
    return kind and country


def login(exit: Exit, wish: ExitWish, *, session: str = "") -> str:
    """Return the user name for an exit: with the kind, country and session of a request for a gateway."""
    if not exit.template:
        return exit.user
    values = {
        "user": exit.user,
        "type": wish.kind or (exit.kinds[0] if exit.kinds else ""),
        "geo": wish.country or (exit.countries[0] if exit.countries else ""),
        "session": session,
    }

    def fill(found: re.Match[str]) -> str:
        value = values[found["field"]]
        word = found["word"]
        return (f"-{word}-{value}" if word else value) if value else ""

    return _FIELD.sub(fill, exit.template)


def parse_exit(line: str) -> Exit:
    """Return the exit that a line describes; raise `Rejected`, without its text, if it cannot be used."""
    address, *options = line.split()
    exit = _parse_address(address)
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or name not in _OPTIONS:
            raise Rejected(f"an option is unknown; known: {', '.join(_OPTIONS)}, each as name=value")
        exit = replace(exit, **_option(name, value))
    if not exit.template and "{" in exit.user:
        exit = replace(exit, template=exit.user, user="")
    _check_template(exit.template)
    kind = max(exit.kinds, key=len, default=LONGEST_WORD)
    longest = login(exit, ExitWish(kind, "xx"), session="x" * SESSION_CHARS)
    _require(len(longest.encode()) <= MAX_LOGIN_BYTES, "the user name is too long once its fields are filled")
    return exit if exit.name else replace(exit, name=_authority(exit.host, exit.port))


def is_line(entry: str) -> bool:
    """Return whether an entry describes exits; if not, it names a file."""
    return "://" in entry or _COLONS.fullmatch(entry) is not None or len(split_lines(entry)) > 1


def split_lines(entry: str) -> list[str]:
    """Return the lines of an entry that has several, with commas or semicolons between them.

    Only what is followed by the beginning of an address ends a line: options have commas, passwords may.
    """
    if len(parts := _BETWEEN_URLS.split(entry.strip())) > 1:
        return parts
    parts = _SEPARATOR.split(entry.strip())
    return parts if all(map(_PLAIN.fullmatch, parts)) else [entry]


def has_password(entry: str) -> bool:
    """Return whether an entry holds a password, as far as it can be told."""
    address = entry.split(maxsplit=1)[0] if entry.strip() else ""
    return is_line(entry) and ("@" in address or address.count(":") >= 3)


def name_exits(exits: Iterable[Exit]) -> tuple[Exit, ...]:
    """Return exits with different names, without repeats; those of one address get a digest of the user."""
    unique = tuple(dict.fromkeys(exits))
    names = Counter(exit.name for exit in unique)
    named = tuple(
        exit if names[exit.name] == 1 else replace(exit, name=f"{exit.name}~{_digest(exit)}")
        for exit in unique
    )
    if len({exit.name for exit in named}) < len(named):
        raise Rejected("two exits have the same address and user name: name one of them with name=...")
    return named


def _digest(exit: Exit) -> str:
    about = f"{exit.scheme} {exit.user} {exit.template} {exit.kinds} {exit.countries}"
    return sha256(about.encode()).hexdigest()[:4]


def _parse_address(text: str) -> Exit:
    if "://" not in text:
        return _parse_colons(text)
    try:
        parts = urlsplit(text)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise Rejected("the address is not a URL, such as http://user:password@gate.example:8000") from None
    scheme = _ALIASES.get(parts.scheme.lower(), parts.scheme.lower())
    if scheme not in SCHEMES:
        raise Rejected(f"the scheme is not one of {', '.join(SCHEMES)}")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise Rejected("the address has a path: options follow after a space, as name=value")
    # `username` of urlsplit is None without an @; a password may have colons in it.
    userinfo = parts.netloc.rpartition("@")[0]
    user, _, password = userinfo.partition(":")
    return _checked(scheme, host, port, unquote(user), unquote(password))


def _parse_colons(text: str) -> Exit:
    parts = text.split(":", 3)
    if len(parts) not in (2, 4) or not parts[1].isdecimal():
        raise Rejected("the address is neither a URL nor HOST:PORT nor HOST:PORT:USER:PASSWORD")
    user, password = parts[2:] or ("", "")
    return _checked("http", parts[0].lower(), int(parts[1][:6]), user, password)


def _checked(scheme: str, host: str, port: int | None, user: str, password: str) -> Exit:
    if not host or _HOST.fullmatch(host) is None:
        raise Rejected("the address has no host, or one with forbidden characters")
    if port is None or not 0 < port < 65_536:
        raise Rejected("the address has no port from 1 to 65535")
    for what, secret in (("user name", user), ("password", password)):
        if len(secret.encode()) > MAX_LOGIN_BYTES or not secret.isprintable():
            raise Rejected(f"the {what} is longer than {MAX_LOGIN_BYTES} bytes, or has control characters")
    if ":" in user:
        raise Rejected("the user name has a colon")
    return Exit(scheme, host, port, user, password)


def _option(name: str, value: str) -> dict[str, Any]:
    match name:
        case "kind":
            words = tuple(value.lower().split(","))
            _require(
                all(map(_WORD.fullmatch, words)), "kind is a name such as residential, isp or datacenter"
            )
            return {"kinds": words}
        case "country":
            words = tuple(value.lower().split(","))
            _require(all(map(_COUNTRY.fullmatch, words)), "country is a code of two letters, such as us")
            return {"countries": words}
        case "inside" | "tunnel":
            _require(value in ("yes", "no"), f"{name} is yes or no")
            return {name: value == "yes"}
        case "price_gb" | "price_month":
            return {name: _price(name, value)}
        case "connections":
            _require(
                value.isdecimal() and 0 < int(value[:5]) <= 1_000, "connections is a number from 1 to 1,000"
            )
            return {name: int(value)}
        case "template":
            _require(value.isprintable() and len(value) <= MAX_LOGIN_BYTES, "template is too long")
            return {name: value}
    _require(_NAME.fullmatch(value), "name has other characters than letters, digits and . : _ ~ -")
    return {"name": value}


def _price(name: str, value: str) -> float:
    try:
        price = float(value)
    except ValueError:
        price = -1.0
    _require(0 <= price <= 1_000_000, f"{name} is a number from 0 to 1,000,000")
    return price


def _check_template(template: str) -> None:
    for found in re.finditer(r"\{([^}]*)\}?", template):
        _require(
            found[1] in _FIELDS and found[0].endswith("}"),
            f"the user name has an unknown field; known: {', '.join(f'{{{one}}}' for one in _FIELDS)}",
        )


def _require(condition: object, reason: str) -> None:
    if not condition:
        raise Rejected(reason)


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
