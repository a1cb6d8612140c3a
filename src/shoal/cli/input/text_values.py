"""Options that are text: their values are taken as they are typed.

Typer converts every value with pydantic, also one that stays a string and one that was not given. Importing
pydantic and building a converter for each option took a fifth of the start of `shoal crawl`.
"""

from typing import Any

from typer.core import TyperArgument, TyperOption


class _Values:
    """Stands in for Typer's converter of one parameter, which is built when a value needs it."""

    def __init__(self, parameter: TyperArgument | TyperOption) -> None:
        self._parameter = parameter
        self._build = parameter.get_runtime_param
        self._is_text = parameter.type_descriptor.annotation in (str, list[str])

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        several = self._parameter.multiple or self._parameter.nargs == -1
        if value is None:
            return () if several else None
        if self._is_text and not several and _is_text(value):
            return value
        if self._is_text and several and isinstance(value, list | tuple) and all(map(_is_text, value)):
            return list(value)
        if type(value) is int and value == self._parameter.default:
            return value
        return self._build().coerce(value, param=param, ctx=ctx)


def _is_text(value: object) -> bool:
    """Return whether a value is text that can be encoded; the error for other values is Typer's."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def keep_text(parameter: Any) -> None:
    """Take the values of a parameter that is text as they are typed."""
    if isinstance(parameter, TyperArgument | TyperOption) and _is_plain(parameter):
        values = _Values(parameter)
        parameter.get_runtime_param = lambda: values  # type: ignore[method-assign, assignment, return-value]


def _is_plain(parameter: TyperArgument | TyperOption) -> bool:
    """Return whether Typer would do no more than convert a value to the type of the parameter."""
    described = parameter.type_descriptor
    special = described.is_path or described.is_file or described.is_choice
    return described.parameter_info.parser is None and not special
