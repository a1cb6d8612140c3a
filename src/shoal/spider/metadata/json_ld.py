"""Read JSON-LD as it occurs on real pages: in comments or CDATA, with raw line breaks and trailing commas.

Strict JSON is tried first. Repairs cannot change a value: they remove wrappers around the whole, and commas
before a closing bracket outside of strings. Size, number and depth are bounded.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from shoal.model.limits import MIB
from shoal.spider.text.encodings import without_surrogates

_MAX_SCRIPT_CHARS = 1 * MIB
_MAX_OBJECTS = 200  # of one page
_MAX_DEPTH = 64

_opening = re.compile(r"(?:\s|<!--|<!\[CDATA\[|//(?=\s*+<)|/\*(?=\s*+<)|\*/)++")
# Of the reversed script: one match, in linear time.
_closing_reversed = re.compile(r"(?:[\s;]++|>--|>\]\]|/\*|//|\*/)++")
# A string without an end reaches to the end of the script: otherwise each of its quotes would be tried as a
# start, in quadratic time.
_string_or_comma = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|,(?=\s*+[}\]])', re.DOTALL)


def read_json_ld(scripts: Iterable[str]) -> tuple[list[dict[str, Any]], int]:
    """Return the objects in a page's scripts, and the number of scripts that cannot be read."""
    found: list[dict[str, Any]] = []
    broken = 0
    for script in scripts:
        try:
            found.extend(_objects(script))
        except (ValueError, RecursionError):
            broken += 1
        if len(found) >= _MAX_OBJECTS:
            break
    return found[:_MAX_OBJECTS], broken


def iter_objects(found: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the objects, and those in their `@graph`."""
    for one in found:
        yield one
        graph = one.get("@graph")
        if isinstance(graph, list):
            yield from (inner for inner in graph if isinstance(inner, dict))


def _objects(script: str) -> list[dict[str, Any]]:
    if len(script) > _MAX_SCRIPT_CHARS:
        raise ValueError("too large")
    try:
        value = msgspec.json.decode(script)
    except msgspec.MsgspecError:
        value = json.loads(_repair(script), strict=False, parse_constant=_refuse)
    _check_depth(value)
    if "\\u" in script:
        value = without_surrogates(value)
    values = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, dict)]


def _repair(script: str) -> str:
    if opening := _opening.match(script):
        script = script[opening.end() :]
    if closing := _closing_reversed.match(script[::-1]):
        script = script[: len(script) - closing.end()]
    return _string_or_comma.sub(_without_comma, script)


def _without_comma(found: re.Match[str]) -> str:
    return "" if found[0] == "," else found[0]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return
    raise ValueError("nested too deep")


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
