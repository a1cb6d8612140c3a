"""From what somebody wrote to `Settings`: which keys there are, what each may hold, and who wins.

Pure: the layers (a parsed file, environment variables, flags) come in as values, later ones win, and every
complaint says where the value came from, what it was and what is allowed. Values that may be secret are
never repeated.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from shoal.model.errors import Misconfigured, Rejected
from shoal.model.settings import HostSettings, Settings
from shoal.model.url import canonical, host_key

ENVIRONMENT = "SHOAL_"


@dataclass(frozen=True, slots=True)
class Given:
    """One value that somebody set, and where."""

    key: str  # "crawl.rate"
    value: object
    origin: str  # how the person would find it: "shoal.toml: crawl.rate", "SHOAL_CRAWL_RATE", "--rate"


def _leaves(kind: type[Any], prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if is_dataclass(hint):
            yield from _leaves(hint, f"{prefix}{name}.")  # type: ignore[arg-type]
        elif get_origin(hint) is Annotated:
            yield f"{prefix}{name}", *get_args(hint)
        else:
            yield f"{prefix}{name}", hint, ""


KINDS: dict[str, Any] = {key: kind for key, kind, _ in _leaves(Settings)}
"""Every key there is, with the type of its value."""

MEANINGS: dict[str, str] = {key: meaning for key, _, meaning in _leaves(Settings)}
"""Every key there is, with what it does in one sentence."""

VARIABLES = {key: ENVIRONMENT + key.replace(".", "_").upper() for key in KINDS if key != "hosts"}
"""The environment variable of each key. Blocks for hosts have none: a host's name is no part of one."""

_TABLES = {key.rpartition(".")[0] for key in KINDS if "." in key}
_BY_VARIABLE = {variable: key for key, variable in VARIABLES.items()}
_OF_A_HOST = [one.name for one in fields(HostSettings)]

# Zero would mean "nothing may ever happen" for these; elsewhere it has a meaning, mostly "no limit".
_ABOVE_ZERO = frozenset(
    {
        *(f"crawl.{name}" for name in ("burst", "per_host", "concurrency", "max_crashes", "lease")),
        *(f"slowdown.{name}" for name in ("threshold", "at_least", "window", "ceiling")),
        *(key for key in KINDS if key.startswith(("fetch.", "links.", "parse."))),
        "retry.base",
        "archive.segment_bytes",
    }
    - {f"fetch.{name}" for name in ("encodings", "redirects", "slow_rate", "slow_after")}
    - {"links.per_host", "links.per_pattern", "links.lookalikes"}
)


_MAY_BE_EMPTY = frozenset({"crawl.follow", "crawl.user_agent", "crawl.contact"})
# Printable ASCII without what would end the comment of a User-Agent header.
_CONTACT = re.compile(r"(?:https?://|[!-'*-?A-\[\]-~]+@)[!-'*-\[\]-~]+")


def from_tree(tree: Mapping[str, object], origin: str) -> Iterator[Given]:
    """Flatten a parsed `shoal.toml`."""
    for name, value in tree.items():
        if name in _TABLES:
            if not isinstance(value, Mapping):
                raise Misconfigured(f"{origin}: {name} must be a table, as in [{name}]")
            for inner, leaf in value.items():
                yield _known(f"{name}.{inner}", leaf, origin)
        else:
            yield _known(name, value, origin)


def from_environment(environ: Mapping[str, str], *, besides: Iterable[str] = ()) -> Iterator[Given]:
    """Pick the `SHOAL_*` variables out; `besides` are those that mean something else. Empty means not set."""
    for name, text in sorted(environ.items()):
        if not name.startswith(ENVIRONMENT) or name in besides or not text:
            continue
        if name not in _BY_VARIABLE:
            raise Misconfigured(f"environment: unknown variable {name}{_nearest(name, _BY_VARIABLE)}")
        yield as_typed(_BY_VARIABLE[name], text, name)


def as_typed(key: str, value: object, origin: str) -> Given:
    """Take a value as somebody typed it: text is read as what the key holds, where it can be."""
    return Given(key, _read(value, KINDS[key]) if isinstance(value, str) else value, origin)


def configure(given: Iterable[Given]) -> Settings:
    """Build the settings, later values over earlier ones over the defaults."""
    settings: Settings = _build(Settings, "", {one.key: _checked(one) for one in given})
    return settings


def _build(kind: Any, prefix: str, values: Mapping[str, object]) -> Any:
    chosen = {}
    for name, hint in get_type_hints(kind).items():
        key = f"{prefix}{name}"
        if is_dataclass(hint):
            chosen[name] = _build(hint, f"{key}.", values)
        elif key in values:
            chosen[name] = values[key]
    return kind(**chosen)


def _known(key: str, value: object, origin: str) -> Given:
    if key not in KINDS:
        raise Misconfigured(f"{origin}: unknown key {key}{_nearest(key, [*KINDS, *_TABLES])}")
    return Given(key, value, f"{origin}: {key}")


def _nearest(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def _read(text: str, kind: Any) -> object:
    """Read text as what a key holds; text that cannot be read is kept, for `_checked` to refuse."""
    wanted = _plain(kind)
    if wanted is bool:
        return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(
            text.strip().lower(), text
        )
    if wanted in (int, float):
        try:
            return int(text) if wanted is int else float(text)
        except ValueError:
            return text
    if get_origin(wanted) is Mapping:
        lines = [line.partition(":") for line in text.splitlines() if line.strip()]
        return {name.strip(): value.strip() for name, _, value in lines}
    return text


def _plain(kind: Any) -> Any:
    """Give the type without its `| None`."""
    alternatives = get_args(kind)
    return alternatives[0] if NoneType in alternatives else kind


def _checked(given: Given) -> object:
    """Return the value as its key's type, or say what is allowed instead."""
    kind = _plain(KINDS[given.key])
    if kind is bool:
        return _require(isinstance(given.value, bool), given, "true or false")
    if kind in (int, float):
        return _number(given, kind)
    if kind is str:
        return _text(given)
    if given.key == "hosts":
        return _hosts(given)
    return _cookies(given) if given.key == "crawl.cookies" else _headers(given)


def _number(given: Given, kind: type[int] | type[float]) -> int | float:
    value, positive = given.value, given.key in _ABOVE_ZERO
    allowed = f"a {'whole number' if kind is int else 'number'}, {'more than 0' if positive else '0 or more'}"
    suitable = isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    _require(suitable, given, allowed)
    assert isinstance(value, int | float)
    # 2**62: what every counter and SQLite column can hold; it also keeps infinity and nan out.
    _require((value > 0 if positive else value >= 0) and value < 1 << 62, given, allowed)
    return kind(value)


def _text(given: Given) -> str:
    text = given.value
    _require(isinstance(text, str) and (text or given.key in _MAY_BE_EMPTY), given, "a text, not empty")
    assert isinstance(text, str)
    if given.key == "crawl.follow":
        try:
            re.compile(text)
        except re.error as error:
            raise Misconfigured(f"{given.origin}: not a regular expression: {error}: {text!r}") from None
    if given.key == "crawl.user_agent":
        _require(text.isprintable() and text.isascii(), given, "one line of plain ASCII")
    if given.key == "crawl.contact" and text:
        _require(_CONTACT.fullmatch(text), given, "a URL (https://...) or an e-mail address")
    return text


def _headers(given: Given) -> dict[str, str]:
    return _pairs(given, "header", r"[\r\n\0]", "a text on one line")


def _cookies(given: Given) -> dict[str, str]:
    return _pairs(given, "cookie", r"[\x00-\x20;,\x7f]", "a text without spaces, commas and semicolons")


def _pairs(given: Given, what: str, wrong: str, allowed: str) -> dict[str, str]:
    value = given.value
    if not isinstance(value, Mapping):
        raise Misconfigured(f"{given.origin}: must be a table of names and texts")
    for number, (name, text) in enumerate(value.items(), 1):
        # Neither is shown: a value may be a token, and so may a "name" that somebody forgot the colon after.
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise Misconfigured(f"{given.origin}: {what} {number}: the name has characters that no name has")
        if not isinstance(text, str) or re.search(wrong, text):
            raise Misconfigured(f"{given.origin}: {what} {number}: the value must be {allowed}")
    return dict(value)


def _hosts(given: Given) -> dict[str, HostSettings]:
    """Check the blocks of [hosts."name"]; what may be in them is checked like its namesake in [crawl]."""
    blocks = given.value
    if not isinstance(blocks, Mapping):
        raise Misconfigured(f'{given.origin} must be tables, as in [hosts."shop.example"]')
    return {_host(name, given): _block(block, f"{given.origin}.{name}") for name, block in blocks.items()}


def _host(name: str, given: Given) -> str:
    try:
        key = host_key(canonical(f"https://{name}/"))
    except Rejected:
        key = ""
    if key != name.lower():
        raise Misconfigured(f"{given.origin}: {name!r} is not a host; write it as in a URL: shop.example")
    return key


def _block(block: object, origin: str) -> HostSettings:
    if not isinstance(block, Mapping):
        raise Misconfigured(f"{origin} must be a table, as in [{origin.partition(': ')[2]}]")
    for name in block:
        if name not in _OF_A_HOST:
            raise Misconfigured(f"{origin}: unknown key {name}{_nearest(name, _OF_A_HOST)}")
    checked: dict[str, Any] = {
        name: _checked(Given(f"crawl.{name}", value, f"{origin}.{name}")) for name, value in block.items()
    }
    return HostSettings(**checked)


def _require(fine: object, given: Given, allowed: str) -> object:
    if not fine:
        raise Misconfigured(f"{given.origin}: must be {allowed}, not {_shown(given.value)}")
    return given.value


def _shown(value: object) -> str:
    text = "true" if value is True else "false" if value is False else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
