"""Build `Settings` from a file, the environment and flags; check every key and value.

Pure: the layers come in as values, and later ones override earlier ones. Every error says where the value was
set, what it was and what is allowed. Values that may be secret are never shown.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from shoal.model.configuration import ENVIRONMENT
from shoal.model.configuration.address_ranges import address_range
from shoal.model.configuration.block_rules import block_rule
from shoal.model.configuration.expression import compile_expression
from shoal.model.configuration.output_patterns import output_pattern
from shoal.model.configuration.setting_ranges import RANGES
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.levels.ladder import LADDER, PINS
from shoal.model.pace import PaceBy
from shoal.model.sandbox import SandboxMode
from shoal.model.settings import HostSettings, Settings
from shoal.model.url import canonical, host_key

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A value for one key, and where it was set."""

    key: str  # "crawl.rate"
    value: object
    origin: str  # for error messages: "shoal.toml: crawl.rate", "SHOAL_CRAWL_RATE", "--rate"


def _leaves(type_: type[Any], prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yield key, type and description of every setting."""
    for name, hint in get_type_hints(type_, include_extras=True).items():
        if is_dataclass(hint):
            yield from _leaves(hint, f"{prefix}{name}.")  # type: ignore[arg-type]
        elif get_origin(hint) is Annotated:
            yield f"{prefix}{name}", *get_args(hint)
        else:
            yield f"{prefix}{name}", hint, ""


TYPES: dict[str, Any] = {key: type_ for key, type_, _ in _leaves(Settings)}
"""The type of each key."""

DESCRIPTIONS: dict[str, str] = {key: description for key, _, description in _leaves(Settings)}
"""What each key does, in one sentence."""

VARIABLES = {
    key: ENVIRONMENT + key.replace("proxies.", "proxy_").replace(".", "_").upper()
    for key in TYPES
    if key != "hosts"
}
"""The environment variable of each key. [hosts] has none: a host name cannot be part of a variable's name."""

_TABLES = {key.rpartition(".")[0] for key in TYPES if "." in key}
_BY_VARIABLE = {variable: key for key, variable in VARIABLES.items()}
_HOST_KEYS = [one.name for one in fields(HostSettings)]

_SECRET = frozenset(
    {
        "store",
        "crawl.headers",
        "crawl.cookies",
        "crawl.cookie_file",
        "worker.allow_outputs",
        "worker.allow_seeds",
        "worker.record_key_file",
        "proxies.list",
        "alerts.webhooks",
        "alerts.webhook_key_file",
        "tracing.endpoint",
    }
)
"""Keys whose values are never part of a message. Where a file name is expected, a user may put the
secret itself."""

_SERVICE = re.compile(
    r"SHOAL_(?:[A-Z0-9_]+_)?"
    r"(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)"
)
# Their values may have commas.
ALERT_ACTIONS = ("pause_host", "none")
BROWSERS = ("chrome", "edge", "firefox", "safari")  # `fetch/impersonate/profiles.py`
_ONE_PER_LINE = frozenset(
    {"worker.allow_outputs", "worker.allow_seeds", "crawl.blocked_if", "proxies.list", "alerts.webhooks"}
)
_MAY_BE_EMPTY = frozenset(
    {
        "browser.path",
        "crawl.contact",
        "crawl.country",
        "crawl.exit_kind",
        "crawl.follow",
        "crawl.user_agent",
        "proxies.slice",
        "tracing.endpoint",
    }
)
_FORMS = {
    "tracing.endpoint": (r"(?:https?://\S+)?", "a URL, such as http://127.0.0.1:4318/v1/traces"),
    "crawl.exit_kind": (r"(?:[A-Za-z][A-Za-z0-9_.]{0,31})?", "a name, such as residential or isp"),
    "crawl.over_budget": (r"[A-Za-z][A-Za-z0-9_.]{0,31}", "stop, or a kind of exits"),
    "crawl.country": (r"(?:[a-z]{2})?", "a code of two small letters, such as us"),
    "proxies.rotation": ("turn|request|timed|worker", "turn, request, timed or worker"),
    "browser.sandbox": ("on|off", "on or off"),
    "browser.network": ("own|shared", "own or shared"),
    "proxies.when_refused": ("[A-Za-z][A-Za-z0-9_.]{0,31}", "rotate, off, or a kind of exits such as isp"),
    "proxies.slice": (r"(?:auto|[1-9]\d{0,3}/[1-9]\d{0,3})?", "auto, or a part such as 2/4"),
}
# Printable ASCII without what would end the comment of a User-Agent header.
_CONTACT = re.compile(r"(?:https?://|[!-'*-?A-\[\]-~]+@)[!-'*-\[\]-~]+")


def from_tree(tree: Mapping[str, object], origin: str) -> Iterator[SettingValue]:
    """Yield the values of a parsed `shoal.toml`. Raises `Misconfigured` for an unknown key."""
    for name, value in tree.items():
        if name in _TABLES:
            if not isinstance(value, Mapping):
                raise Misconfigured(f"{origin}: {name} must be a table, as in [{name}]")
            for inner, leaf in value.items():
                yield _known(f"{name}.{inner}", leaf, origin)
        else:
            yield _known(name, value, origin)


def from_environment(environ: Mapping[str, str], *, besides: Iterable[str] = ()) -> Iterator[SettingValue]:
    """Yield the values of the `SHOAL_*` variables, except those in `besides`. Empty ones count as not set."""
    for name, text in sorted(environ.items()):
        if not name.startswith(ENVIRONMENT) or name in besides or not text:
            continue
        if name not in _BY_VARIABLE:
            if not is_service_variable(name, text):
                log.warning(
                    "environment.unknown", extra={"variable": f"{name}{_nearest(name, _BY_VARIABLE)}"}
                )
            continue
        yield parse_setting(_BY_VARIABLE[name], text, name)


def is_service_variable(name: str, text: str) -> bool:
    """Return whether Kubernetes sets the variable: for services named `shoal...`."""
    if _SERVICE.fullmatch(name) is None:
        return False
    return not name.endswith("_PORT") or name.endswith("_SERVICE_PORT") or "://" in text or text.isdigit()


def parse_setting(key: str, value: object, origin: str) -> SettingValue:
    """Return a value from the command line or the environment, with text parsed as the key's type."""
    if key in _ONE_PER_LINE and isinstance(value, str):
        return SettingValue(key, [line.strip() for line in value.splitlines() if line.strip()], origin)
    return SettingValue(key, _parse(value, TYPES[key]) if isinstance(value, str) else value, origin)


def configure(given: Iterable[SettingValue]) -> Settings:
    """Return the settings: later values override earlier ones, and those the defaults."""
    settings: Settings = _build(Settings, "", {one.key: _check(one) for one in given})
    return settings


@cache  # evaluating them takes longer than everything else
def _hints(type_: Any) -> Mapping[str, Any]:
    return get_type_hints(type_)


def _build(type_: Any, prefix: str, values: Mapping[str, object]) -> Any:
    chosen = {}
    for name, hint in _hints(type_).items():
        key = f"{prefix}{name}"
        if is_dataclass(hint):
            chosen[name] = _build(hint, f"{key}.", values)
        elif key in values:
            chosen[name] = values[key]
    return type_(**chosen)


def _known(key: str, value: object, origin: str) -> SettingValue:
    if key not in TYPES:
        raise Misconfigured(f"{origin}: unknown key {key[:100]}{_nearest(key[:100], [*TYPES, *_TABLES])}")
    return SettingValue(key, value, f"{origin}: {key}")


def _nearest(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def _parse(text: str, type_: Any) -> object:
    """Parse text as a key's type; return it unchanged if it cannot be parsed, so that `_check` rejects it."""
    wanted = _without_none(type_)
    if wanted is bool:
        return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(
            text.strip().lower(), text
        )
    if wanted in (int, float):
        try:
            return int(text) if wanted is int else float(text)
        except ValueError:
            return text
    if get_origin(wanted) is tuple:
        return [part.strip() for part in re.split(r"[,\n]", text) if part.strip()]
    if get_origin(wanted) is Mapping:
        lines = [line.partition(":") for line in text.splitlines() if line.strip()]
        return {name.strip(): value.strip() for name, _, value in lines}
    return text


def _without_none(type_: Any) -> Any:
    """Return a type without its `| None`."""
    alternatives = get_args(type_)
    return alternatives[0] if NoneType in alternatives else type_


def _check(given: SettingValue) -> object:
    """Return the value as its key's type. Raises `Misconfigured` with what is allowed."""
    type_ = _without_none(TYPES[given.key])
    if type_ is bool:
        return _require(isinstance(given.value, bool), given, "true or false")
    if type_ in (int, float):
        return _number(given, type_)
    if type_ is str:
        return _text(given)
    if get_origin(type_) is tuple:
        return _list(given)
    if given.key == "hosts":
        return _hosts(given)
    return _cookies(given) if given.key == "crawl.cookies" else _headers(given)


def _number(given: SettingValue, type_: type[int] | type[float]) -> int | float:
    value, range_ = given.value, RANGES[given.key]
    allowed = range_.describe("whole number" if type_ is int else "number")
    suitable = isinstance(value, int if type_ is int else int | float) and not isinstance(value, bool)
    _require(suitable, given, allowed)
    assert isinstance(value, int | float)
    _require(value in range_, given, allowed)
    return type_(value)


def _text(given: SettingValue) -> str:
    text = given.value
    _require(isinstance(text, str) and (text or given.key in _MAY_BE_EMPTY), given, "a non-empty string")
    assert isinstance(text, str)
    if given.key == "crawl.follow":
        try:
            compile_expression(text)
        except ValueError as error:
            raise Misconfigured(f"{given.origin}: {error}: {text!r}") from None
    if given.key == "crawl.user_agent":
        _require(text.isprintable() and text.isascii(), given, "one line of plain ASCII")
    if given.key == "crawl.level":
        _require(text in PINS, given, f"{', '.join(PINS[:-1])} or {PINS[-1]}")
    if given.key == "crawl.profile":
        _require(text in BROWSERS, given, "chrome, edge, firefox or safari")
    if given.key == "crawl.pace_by":
        _require(text in list(PaceBy), given, "host, site or address")
    if (form := _FORMS.get(given.key)) is not None:
        _require(re.fullmatch(form[0], text), given, form[1])
    if given.key == "proxies.slice" and "/" in text:
        number, _, count = text.partition("/")
        _require(int(number) <= int(count), given, "a part such as 2/4")
    if given.key == "parse.sandbox":
        _require(text in list(SandboxMode), given, "require, prefer or off")
    if given.key == "crawl.contact" and text:
        _require(_CONTACT.fullmatch(text), given, "a URL (https://...) or an e-mail address")
    return text


def _list(given: SettingValue) -> tuple[str, ...]:
    """Check a list: in the file an array of strings, elsewhere comma-separated; a text is a list of one."""
    value = [given.value] if isinstance(given.value, str) else given.value
    suitable = isinstance(value, list | tuple) and all(isinstance(one, str) and one for one in value)
    _require(suitable, given, "a list of non-empty strings")
    assert isinstance(value, list | tuple)
    check = _LIST_CHECKS.get(given.key, str)
    try:
        return tuple(str(check(one)) for one in value)
    except Rejected as error:
        raise Misconfigured(f"{given.origin}: {error}") from None


def _alert_action(text: str) -> str:
    if text not in ALERT_ACTIONS:
        raise Rejected(f"{text[:40]!r} is not an action; known: {', '.join(ALERT_ACTIONS)}")
    return text


def _webhook(text: str) -> str:
    """Check a webhook; errors never show it, because a part of it may be a secret."""
    try:
        scheme = canonical(text).partition("://")[0]
    except Rejected:
        scheme = ""
    if scheme not in ("http", "https"):
        raise Rejected("one of the webhooks is not a URL that starts with https:// or http://")
    return text


def _level(text: str) -> str:
    if text not in LADDER:
        raise Rejected(f"{text[:40]!r} is not a level: use {', '.join(LADDER)}")
    return text


_LIST_CHECKS: dict[str, Callable[[str], object]] = {
    "crawl.levels": _level,
    "alerts.actions": _alert_action,
    "alerts.webhooks": _webhook,
    "crawl.blocked_if": block_rule,
    "fetch.allow_ranges": address_range,
    "worker.allow_outputs": output_pattern,
}


def _headers(given: SettingValue) -> dict[str, str]:
    return _pairs(given, "header", r"[\r\n\0]", "a string on one line")


def _cookies(given: SettingValue) -> dict[str, str]:
    return _pairs(given, "cookie", r"[\x00-\x20;,\x7f]", "a string without spaces, commas and semicolons")


def _pairs(given: SettingValue, what: str, forbidden: str, allowed: str) -> dict[str, str]:
    value = given.value
    if not isinstance(value, Mapping):
        raise Misconfigured(f"{given.origin}: must be a table of names and strings")
    for number, (name, text) in enumerate(value.items(), 1):
        # Neither is shown: a value may be a token, and so may a "name" if the colon was forgotten.
        if not isinstance(name, str) or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise Misconfigured(f"{given.origin}: {what} {number}: the name has forbidden characters")
        if not isinstance(text, str) or re.search(forbidden, text):
            raise Misconfigured(f"{given.origin}: {what} {number}: the value must be {allowed}")
    return dict(value)


def _hosts(given: SettingValue) -> dict[str, HostSettings]:
    """Check the tables [hosts."name"]; their keys are checked like those of the same name in [crawl]."""
    blocks = given.value
    if not isinstance(blocks, Mapping) or not all(isinstance(name, str) for name in blocks):
        raise Misconfigured(f'{given.origin} must be tables, as in [hosts."shop.example"]')
    return {_host(name, given): _block(block, f"{given.origin}.{name}") for name, block in blocks.items()}


def _host(name: str, given: SettingValue) -> str:
    try:
        key = host_key(canonical(f"https://{name}/"))
    except Rejected:
        key = ""
    if key != name.lower() or len(key) > 260:
        raise Misconfigured(
            f"{given.origin}: {name[:60]!r} is not a host: write it as in a URL, shop.example"
        )
    return key


def _block(block: object, origin: str) -> HostSettings:
    if not isinstance(block, Mapping):
        raise Misconfigured(f"{origin} must be a table, as in [{origin.partition(': ')[2]}]")
    for name in block:
        if name not in _HOST_KEYS:
            raise Misconfigured(f"{origin}: unknown key {str(name)[:60]}{_nearest(str(name), _HOST_KEYS)}")
    checked: dict[str, Any] = {
        name: _check(SettingValue(f"crawl.{name}", value, f"{origin}.{name}"))
        for name, value in block.items()
    }
    return HostSettings(**checked)


def _require(condition: object, given: SettingValue, allowed: str) -> object:
    if not condition:
        shown = "" if given.key in _SECRET else f", not {_short_repr(given.value)}"
        raise Misconfigured(f"{given.origin}: must be {allowed}{shown}")
    return given.value


def _short_repr(value: object) -> str:
    """Return a value for a message. Numbers too long for `repr` and values nested too deep have no text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of about {value.bit_length() * 301 // 1000:,} digits"
    if isinstance(value, Mapping | list | tuple):
        return "a table" if isinstance(value, Mapping) else "a list"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."
