"""Declared items: what a handler yields, checked against the model that its route names.

Text is read as what the field holds where that can only mean one thing ("12.5" as a number), because text is
what pages are made of. What does not fit is refused by the name of the field. Fields that the model does not
have are left out, unless it forbids them.
"""

import re
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

import msgspec

from shoal.model.errors import Misconfigured, Rejected
from shoal.spider.items import pairs

Check = Callable[[object], object]
"""Gives the item as its model, or raises `Rejected`."""

_path = re.compile(r"^(.*?)(?: - at `\$\.?(.*)`)?$", re.DOTALL).match
_missing = re.compile(r"missing required field `([^`]+)`").search


def checker(model: Any) -> Check:
    """Return what checks items against a dataclass, a msgspec struct, an attrs class or a pydantic model."""
    if isinstance(model, type):
        if callable(getattr(model, "model_validate", None)):
            return _by_pydantic(model)
        if is_dataclass(model) or issubclass(model, msgspec.Struct) or hasattr(model, "__attrs_attrs__"):
            return _by_msgspec(model)
    raise Misconfigured(f"item must be a dataclass, a msgspec Struct or a pydantic model, not {model!r}")


def _by_msgspec(model: type[Any]) -> Check:
    try:
        msgspec.convert({}, model)  # looks at the model's types, which may be beyond it
    except msgspec.ValidationError:
        pass
    except TypeError as error:
        raise Misconfigured(f"item {model.__name__}: {error}") from None

    def check(value: object) -> object:
        try:
            return msgspec.convert(pairs(value), model, strict=False, from_attributes=True)
        except msgspec.ValidationError as error:
            raise Rejected(_reason(str(error))) from None

    return check


def _reason(text: str) -> str:
    """Put the name of the field first: that is what an author looks for."""
    match = _path(text)
    assert match
    what, where = match[1], match[2] or ""
    if missing := _missing(what):
        return f"field {where}{'.' if where else ''}{missing[1]}: missing"
    return f"field {where}: {what[:1].lower()}{what[1:]}" if where else what


def _by_pydantic(model: Any) -> Check:
    from pydantic import ValidationError

    def check(value: object) -> object:
        if isinstance(value, model):
            return value  # pydantic has checked it when it was made
        try:
            return model.model_validate(pairs(value))
        except ValidationError as error:
            first, *others = error.errors(include_url=False, include_input=False)
            where = ".".join(map(str, first["loc"]))
            more = f" (and {len(others)} more)" if others else ""
            raise Rejected(f"field {where}: {first['msg']}{more}" if where else first["msg"] + more) from None

    return check
