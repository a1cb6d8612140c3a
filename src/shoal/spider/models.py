"""Items with a model: check what a handler yields against the dataclass or model that its route names.

Strings are converted to the field's type where that is unambiguous ("12.5" to a number), because pages
consist of strings. An item that does not fit is rejected with the name of the field. Fields that the model
does not have are left out, unless the model forbids them.
"""

import re
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

import msgspec

from shoal.model.errors import Misconfigured, Rejected
from shoal.spider.items import fields_of

Check = Callable[[object], object]
"""Returns the item as an instance of its model, or raises `Rejected`."""

_path = re.compile(r"^(.*?)(?: - at `\$\.?(.*)`)?$", re.DOTALL).match
_missing = re.compile(r"missing required field `([^`]+)`").search


def model_checker(model: Any) -> Check:
    """Return a check for a dataclass, a msgspec struct, an attrs class or a pydantic model."""
    if isinstance(model, type):
        if callable(getattr(model, "model_validate", None)):
            return _by_pydantic(model)
        if is_dataclass(model) or issubclass(model, msgspec.Struct) or hasattr(model, "__attrs_attrs__"):
            return _by_msgspec(model)
    raise Misconfigured(f"item must be a dataclass, a msgspec Struct or a pydantic model, not {model!r}")


def _by_msgspec(model: type[Any]) -> Check:
    try:
        msgspec.convert({}, model)  # raises TypeError for types that msgspec does not support
    except msgspec.ValidationError:
        pass
    except TypeError as error:
        raise Misconfigured(f"item {model.__name__}: {error}") from None

    def check(value: object) -> object:
        try:
            return msgspec.convert(fields_of(value), model, strict=False, from_attributes=True)
        except msgspec.ValidationError as error:
            raise Rejected(_reason(str(error))) from None

    return check


def _reason(text: str) -> str:
    """Rewrite an error of msgspec so that the field's name comes first."""
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
            return value  # pydantic checked it in its constructor
        try:
            return model.model_validate(fields_of(value))
        except ValidationError as error:
            first, *others = error.errors(include_url=False, include_input=False)
            where = ".".join(map(str, first["loc"]))
            more = f" (and {len(others)} more)" if others else ""
            raise Rejected(f"field {where}: {first['msg']}{more}" if where else first["msg"] + more) from None

    return check
