"""Which outputs and archive locations the operator of a worker allows. Pure rules.

A pattern is a folder, which allows every file below it, or an address (`postgresql://user@db/shop`,
`s3://bucket/prefix`). Scheme, host and port of an address are compared as they are: a worker sends the
credentials of its environment only to a host that its operator has named. User and path may contain `*`.
"""

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import SplitResult, parse_qsl, urlsplit

from shoal.model.errors import Rejected

MAX_OUTPUT_CHARS = 4_096
_MAX_NAME_BYTES = 240  # of a file: 255 for most file systems, less the endings of the files beside it
_ALIASES = {"postgres": "postgresql"}
_DEFAULT_PORTS = {"postgresql": 5432}
# Options that say what is written; all others say how to connect, or name files of the worker.
_OPTIONS = frozenset({"table", "schema", "collection", "index", "topic"})
_TLS_MODES = frozenset({"require", "verify-ca", "verify-full"})


@dataclass(frozen=True, slots=True)
class _Address:
    scheme: str
    user: str
    password: str
    host: str
    port: int
    path: str
    options: dict[str, str]


def is_address(output: str) -> bool:
    return "://" in output


def output_pattern(text: str) -> str:
    """Return a pattern in its normal form; raise `Rejected` for one that cannot be meant."""
    _check_text(text, "the pattern")
    if not is_address(text):
        return text
    address = _parse(text)
    if address.password:
        raise Rejected("the pattern has a password: leave it out")
    if not address.host and (address.scheme in _DEFAULT_PORTS or not address.path.strip("/")):
        raise Rejected("the pattern names no host, such as postgresql://db.example/shop")
    if any(mark in address.host for mark in "*?[]"):
        raise Rejected(
            "the pattern has a wildcard in its host: name each host, because passwords are sent to it"
        )
    return text


def matches_address(pattern: str, output: str) -> bool:
    """Return whether a pattern allows an address: the same server, a matching path, and harmless options."""
    if not is_address(pattern):
        return False
    allowed, wanted = _parse(pattern), _parse(output)
    return (
        (allowed.scheme, allowed.host, allowed.port) == (wanted.scheme, wanted.host, wanted.port)
        and (not allowed.user or fnmatchcase(wanted.user, allowed.user))
        and _path_matches(allowed.path, wanted.path)
        and all(_option_allowed(key, value, allowed.options) for key, value in wanted.options.items())
    )


def check_path(path: str) -> None:
    """Raise `Rejected` for a path that a record must not name: relative, with `..`, too long or
    unprintable."""
    _check_text(path, "the path")
    if not os.path.isabs(path):
        raise Rejected("the path is not absolute")
    if ".." in path.split("/"):
        raise Rejected("the path has .. in it")
    if any(len(name.encode("utf-8", "surrogateescape")) > _MAX_NAME_BYTES for name in path.split("/")):
        raise Rejected(f"a name in the path is longer than {_MAX_NAME_BYTES} bytes")


def check_address(output: str) -> None:
    """Raise `Rejected` for an address that cannot be parsed or has characters that no address has."""
    _check_text(output, "the address")
    _parse(output)


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is inside a folder; both are absolute and normal."""
    return path != folder and os.path.commonpath([path, folder]) == folder


def _path_matches(pattern: str, path: str) -> bool:
    if ".." in path.split("/"):
        return False
    pattern, path = pattern.rstrip("/"), path.rstrip("/")
    return not pattern or fnmatchcase(path, pattern) or path.startswith(f"{pattern}/")


def _option_allowed(key: str, value: str, allowed: dict[str, str]) -> bool:
    if key in allowed:
        return allowed[key] == value
    return key in _OPTIONS or (key == "sslmode" and value in _TLS_MODES)


def _check_text(text: str, what: str) -> None:
    if not text or len(text) > MAX_OUTPUT_CHARS:
        raise Rejected(f"{what} is empty or longer than {MAX_OUTPUT_CHARS:,} characters")
    if not text.isprintable():
        raise Rejected(f"{what} has characters that cannot be printed")


def _parse(text: str) -> _Address:
    try:
        parts: SplitResult = urlsplit(text)
        pairs = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=32)
        scheme = _ALIASES.get(parts.scheme, parts.scheme)
        # Several hosts in one address (a,b) stay one text: they are compared as they are.
        user, _, place = parts.netloc.rpartition("@")
        host, port = place.lower(), 0
        if "," not in place:
            host, port = (parts.hostname or "").lower(), parts.port or 0
    except ValueError:
        raise Rejected("not an address") from None
    if len(pairs) != len({key for key, _ in pairs}):
        raise Rejected("an option occurs twice")
    name, _, password = user.partition(":")
    return _Address(
        scheme,
        name,
        password,
        host,
        port or _DEFAULT_PORTS.get(scheme, 0),
        parts.path,
        dict(pairs),
    )
