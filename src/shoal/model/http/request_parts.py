"""Arguments of a request that become part of its URL, headers and body. Pure.

params      the query of the URL
json, form  the body, its Content-Type, and the method POST unless another one is given
auth        the header Authorization (Basic)
cookies     the header Cookie
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict
from urllib.parse import urlencode

import msgspec

PARTS = frozenset({"params", "json", "form", "auth", "cookies"})

FORM_TYPE = "application/x-www-form-urlencoded"
JSON_TYPE = "application/json"

_COOKIE_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_COOKIE_VALUE = re.compile(r"[^\x00-\x20\x7f-\uffff\",;\\]*")

Fields = Mapping[str, Any] | Iterable[tuple[str, Any]]
"""Names and values of a form or a query: a dict, or pairs. A list as a value repeats the name."""


class RequestFields(TypedDict, total=False):
    """The arguments of a request besides its URL."""

    method: str
    params: Fields | None
    json: Any
    form: Fields | None
    body: bytes
    headers: Mapping[str, str] | None
    auth: tuple[str, str] | None
    cookies: Mapping[str, str] | None
    priority: int
    pool: str
    route: str
    data: dict[str, Any] | None
    unique: str
    again: int
    exit_kind: str
    country: str
    level: str
    render: Any  # True, or a Rendering


def compose_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request, with the arguments in `PARTS` made into URL, method, headers and body.

    Raises `ValueError` for arguments that contradict each other.
    """
    fields = {name: value for name, value in given.items() if name not in PARTS}
    parts = {name: value for name, value in given.items() if name in PARTS and value is not None}
    bodies = [name for name in ("json", "form") if name in parts] + (["body"] if fields.get("body") else [])
    if len(bodies) > 1:
        raise ValueError(f"a request has one body: {' and '.join(bodies)} were given")
    if "params" in parts:
        fields["url"] = with_query(fields["url"], parts["params"])
    headers = dict(fields.get("headers") or {})
    if "json" in parts:
        fields["body"] = msgspec.json.encode(parts["json"])
        _set_default(headers, "Content-Type", JSON_TYPE)
        fields.setdefault("method", "POST")
    if "form" in parts:
        if str(fields.setdefault("method", "POST")).upper() in ("GET", "HEAD"):
            raise ValueError(f"a {fields['method']} request has no form: give params= for the query")
        fields["body"] = encode_form(parts["form"]).encode()
        _set_default(headers, "Content-Type", FORM_TYPE)
    if "auth" in parts:
        _set_new(headers, "Authorization", basic_auth(parts["auth"]), "auth")
    if "cookies" in parts:
        _set_new(headers, "Cookie", cookie_header(parts["cookies"]), "cookies")
    if headers:
        fields["headers"] = headers
    return fields


def with_query(url: str, params: Fields) -> str:
    """Return a URL with more query parameters, behind those that it has."""
    address, hash_sign, fragment = url.partition("#")
    query = encode_form(params)
    if query:
        separator = "" if address.endswith(("?", "&")) else "&" if "?" in address else "?"
        address = f"{address}{separator}{query}"
    return f"{address}{hash_sign}{fragment}"


def encode_form(fields: Fields) -> str:
    """Return names and values as a form or a query, in UTF-8; True and False become `true` and `false`."""
    if isinstance(fields, str | bytes):
        raise ValueError("a form or a query is a dict, or pairs of name and value; text goes into body=")
    pairs = fields.items() if isinstance(fields, Mapping) else fields
    flat: list[tuple[str, Any]] = []
    for name, value in pairs:
        values = value if isinstance(value, list | tuple | set | frozenset) else [value]
        flat += ((str(name), _text(one)) for one in values if one is not None)
    return urlencode(flat)


def _text(value: Any) -> str | bytes:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, bytes) else str(value)


def basic_auth(auth: tuple[str, str]) -> str:
    """Return the value of an Authorization header for a user and a password."""
    if isinstance(auth, str) or len(auth) != 2 or not all(isinstance(one, str) for one in auth):
        raise ValueError("auth is a tuple of two strings: (user, password)")
    user, password = auth
    if ":" in user:
        raise ValueError("auth: the name of a user cannot contain a colon")
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def cookie_header(cookies: Mapping[str, str]) -> str:
    """Return the value of a Cookie header. Errors never show a value."""
    pairs = []
    for name, value in cookies.items():
        text = str(value)
        quoted = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
        if not _COOKIE_NAME.fullmatch(name) or not _COOKIE_VALUE.fullmatch(quoted):
            raise ValueError(f"cookies: {name[:60]!r} has characters that a cookie cannot have")
        pairs.append(f"{name}={text}")
    return "; ".join(pairs)


def _set_default(headers: dict[str, str], name: str, value: str) -> None:
    if not _has(headers, name):
        headers[name] = value


def _set_new(headers: dict[str, str], name: str, value: str, argument: str) -> None:
    if _has(headers, name):
        raise ValueError(f"{argument}= and the header {name} were both given: keep one")
    headers[name] = value


def _has(headers: Mapping[str, str], name: str) -> bool:
    return any(known.lower() == name.lower() for known in headers)
