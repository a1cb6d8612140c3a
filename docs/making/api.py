"""The page `docs/reference/api.md`, made from signatures and docstrings of the public names."""

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from types import FunctionType
from typing import Any

import shoal
import shoal.testing

_HEAD = """
# Python API

Everything under `shoal` and `shoal.testing` that is listed here is public; other modules may change without
notice ([compatibility](../compatibility.md)). Parameters behind `*` are passed by name.
"""

FUNCTIONS: tuple[Any, ...] = (shoal.run, shoal.arun, shoal.stream, shoal.secret)
CLASSES: tuple[type[Any], ...] = (
    shoal.Spider,
    shoal.Page,
    shoal.Selector,
    shoal.SelectorList,
    shoal.Form,
    shoal.Request,
    shoal.FailedRequest,
    shoal.Drop,
    shoal.Result,
    shoal.Stream,
)
TESTING: tuple[Any, ...] = (
    shoal.testing.page_from,
    shoal.testing.failed,
    shoal.testing.run,
    shoal.testing.Yielded,
    shoal.testing.HandlerFailed,
)


def api() -> Iterator[str]:
    """Return the head of the page, then a section per public name."""
    yield _HEAD.strip()
    for one in FUNCTIONS:
        yield f"## shoal.{one.__name__}\n\n### `{one.__name__}{_signature(one)}`\n\n{_text(one)}"
    for one in CLASSES:
        yield from _class(one, f"shoal.{one.__name__}")
    yield "## shoal.testing\n\n" + (_text(shoal.testing).partition("\n\n")[0])
    for one in TESTING:
        if isinstance(one, FunctionType):
            yield f"### `{one.__name__}{_signature(one)}`\n\n{_text(one)}"
        else:
            yield f"### `{one.__name__}`\n\n{_text(one)}"


def _class(one: type[Any], name: str) -> Iterator[str]:
    yield f"## {name}\n\n{_text(one)}"
    if "__struct_fields__" in dir(one):
        yield _fields(one.__struct_fields__, one)
    elif hasattr(one, "__dataclass_fields__"):
        yield _fields(one.__dataclass_fields__, one)
    elif one is shoal.Spider:  # the others are made by Shoal, not by users
        yield f"### `{one.__name__}{_signature(one.__init__)}`"
    for key, member in vars(one).items():
        if key.startswith("_"):
            continue
        match member:
            case property() | cached_property():
                text = _text(member.fget if isinstance(member, property) else member.func)
                if text:
                    yield f"### `.{key}`\n\n{text}"
            case classmethod() | staticmethod():
                yield f"### `{one.__name__}.{key}{_signature(member.__func__)}`\n\n{_text(member.__func__)}"
            case FunctionType():
                if _text(member):
                    yield f"### `.{key}{_signature(member)}`\n\n{_text(member)}"
            case _:
                pass


def _fields(names: Any, one: type[Any]) -> str:
    """Return the fields of a struct, with the comment beside each in the source."""
    lines = inspect.getsource(one).splitlines()
    rows = []
    for name in names:
        line = next((line for line in lines if re.match(rf"\s+{name}: ", line)), "")
        declared, _, comment = line.strip().partition("  # ")
        rows.append(f"| `{declared.replace('|', chr(92) + '|')}` | {comment[:1].upper() + comment[1:]} |")
    return "\n".join(["| field | meaning |", "|---|---|", *rows])


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    parameters = [one for name, one in signature.parameters.items() if name not in ("self", "cls")]
    text = str(signature.replace(parameters=parameters))
    text = re.sub(r"(collections\.abc|typing|shoal\.[a-z_.]+)\.(?=[A-Z])", "", text)
    text = re.sub(r"(: |-> )'([^']+)'", r"\1\2", text)  # annotations that are strings
    text = text.replace("'", '"').replace("re.Pattern", "Pattern")
    return text if len(text) <= 100 else re.sub(r" -> .*$", "", text)


def _text(one: object) -> str:
    return inspect.getdoc(one) or ""
