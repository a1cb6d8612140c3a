"""Arguments of a spider: the parameters of the function that makes it, typed as `-a name=value`.

    def books(category: str = "all", pages: int = 3) -> shoal.Spider:
        spider = shoal.Spider("books", f"https://books.example/{category}/")
        ...
        return spider

Values are converted to the annotated types; without an annotation, to the type of the default. The
arguments that differ from the defaults are part of a crawl's name.
"""

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from hashlib import sha256
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from shoal.model.errors import Misconfigured

Given = Mapping[str, Sequence[str]]
"""Texts by name, as they were typed; a name that was repeated has several."""

ARGUMENTS = "arguments"
"""The name under which arguments are stored with a crawl; a crawl without any has none."""

MAX_SUFFIX_CHARS = 80  # of a crawl's name, for the arguments

_NAME = re.compile(r"[^\W\d]\w*")
_decode = msgspec.json.Decoder(dict[str, str]).decode
_LISTS = (list, tuple, set, frozenset)
_TRUTH = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


def parse_arguments(typed: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parse `name=value` texts; raise `Misconfigured` for one that is not."""
    given: dict[str, tuple[str, ...]] = {}
    for one in typed:
        name, equals, value = one.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise Misconfigured(f"-a {one[:80]!r}: must be NAME=VALUE, for example -a category=travel")
        given[name] = (*given.get(name, ()), value)
    return given


def bind(factory: Callable[..., Any], given: Given, where: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the arguments for a function that makes a spider, and as text those that are not defaults.

    Raises `Misconfigured` for an unknown, missing or wrong argument; it lists those that there are.
    """
    parameters = _parameters(factory, where)
    _check_names(given, parameters, where)
    values: dict[str, Any] = {}
    for name, (kind, default) in parameters.items():
        if name in given:
            values[name] = _convert(given[name], kind, f"{where}: argument {name}")
        elif default is inspect.Parameter.empty:
            raise Misconfigured(
                f"{where}: argument {name} is missing: add -a {name}=...; it takes {_listed(parameters)}"
            )
    changed = {name: as_text(value) for name, value in values.items() if value != parameters[name][1]}
    return values, changed


def fill_defaults(
    defaults: Mapping[str, Any], given: Given, where: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of arguments that are declared by their defaults, and those that differ, as text."""
    parameters = {name: (type(value), value) for name, value in defaults.items()}
    _check_names(given, parameters, where)
    values = dict(defaults)
    for name, texts in given.items():
        values[name] = _convert(texts, parameters[name][0], f"{where}: argument {name}")
    return values, {name: as_text(value) for name, value in values.items() if value != defaults[name]}


def refuse_arguments(given: Given, where: str) -> None:
    """Raise `Misconfigured` if arguments were given to a spider that takes none."""
    if given:
        raise Misconfigured(
            f"{where}: this spider takes no arguments (-a {next(iter(given))}=...): to give it some, make it"
            " in a function: def books(category: str) -> shoal.Spider"
        )


def name_with_arguments(name: str, arguments: Mapping[str, str]) -> str:
    """Return the name of a crawl: the spider's, and behind it the arguments that are not defaults."""
    if not arguments:
        return name
    suffix = ",".join(f"{key}={value}" for key, value in sorted(arguments.items()))
    if len(suffix) > MAX_SUFFIX_CHARS or not suffix.isprintable():
        suffix = sha256(msgspec.json.encode(dict(arguments), order="sorted")).hexdigest()[:12]
    return f"{name}@{suffix}"


def read_arguments(stored: bytes | None) -> dict[str, str]:
    """Return stored arguments by name; none if they cannot be read."""
    if stored is None:
        return {}
    try:
        return _decode(stored)
    except msgspec.DecodeError:
        return {}


def show_arguments(arguments: Mapping[str, str]) -> str:
    """Return arguments on one line, as they are typed."""
    return " ".join(f"-a {name}={value}" for name, value in sorted(arguments.items())) or "no arguments"


def as_text(value: Any) -> str:
    """Return a value as it can be typed again."""
    if isinstance(value, _LISTS):
        members = sorted(map(as_text, value)) if isinstance(value, set | frozenset) else map(as_text, value)
        return ";".join(members)
    if isinstance(value, Enum):
        return as_text(value.value)
    return str(value).lower() if isinstance(value, bool) else str(value)


_Parameters = Mapping[str, tuple[Any, Any]]  # type and default by name


def _parameters(factory: Callable[..., Any], where: str) -> _Parameters:
    try:
        hints = get_type_hints(factory)
    except Exception:  # an annotation that cannot be evaluated is user code
        hints = {}
    found = {}
    for name, one in inspect.signature(factory).parameters.items():
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise Misconfigured(
                f"{where}: parameter {one} cannot be given with -a: give each argument a name"
            )
        fallback = str if one.default in (one.empty, None) else type(one.default)
        found[name] = (hints.get(name, fallback), one.default)
    return found


def _check_names(given: Given, known: Collection[str], where: str) -> None:
    for name in given:
        if name not in known:
            close = get_close_matches(name, list(known), n=1, cutoff=0.5)
            hint = f"; did you mean {close[0]}?" if close else ";"
            listed = _listed(known) if isinstance(known, Mapping) else ", ".join(known)
            raise Misconfigured(f"{where}: unknown argument {name!r}{hint} it takes {listed or 'none'}")


def _listed(parameters: _Parameters) -> str:
    return ", ".join(
        f"{name} ({_type_name(kind)})"
        if default is inspect.Parameter.empty
        else f"{name} ({_type_name(kind)}, default {as_text(default)!r})"
        for name, (kind, default) in parameters.items()
    )


def _type_name(kind: Any) -> str:
    return (
        kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind).replace("typing.", "")
    )


def _convert(texts: Sequence[str], kind: Any, where: str) -> Any:
    try:
        if (get_origin(kind) or kind) in _LISTS:
            wanted = kind if get_args(kind) else (kind or list)
            return msgspec.convert(list(texts), wanted, strict=False)
        if len(texts) > 1:
            raise Misconfigured(f"{where}: given {len(texts)} times")
        if kind is bool or (bool in get_args(kind) and str not in get_args(kind)):
            if texts[0].lower() not in _TRUTH:
                raise Misconfigured(f"{where}: must be true or false, not {texts[0][:80]!r}")
            return _TRUTH[texts[0].lower()]
        return msgspec.convert(texts[0], kind, strict=False)
    except msgspec.ValidationError as error:
        reason = str(error).partition(" - at `")[0].removesuffix(", got `str`")
        raise Misconfigured(f"{where}: {reason[:1].lower()}{reason[1:]}, not {texts[0][:80]!r}") from None
    except TypeError:
        raise Misconfigured(f"{where}: its type cannot be given on a command line") from None
