"""`dataclass`, defined in a tenth of the time.

The standard one writes and compiles the source of six methods for each class: 0.5 ms for a frozen one
with slots, and a crawl of one page imports more than a hundred. This one compiles a method when it is called
for the first time, which for most is never: 0.04 ms. Fields, `replace`, pickling, comparison and what a
frozen instance refuses are as in the standard library, which also makes the classes that this one does not
know: without slots, with an order, `InitVar`, or a dataclass as their base.

`inspect.signature` does not see the parameters, so classes whose constructor is read (the options of a
command) use the standard one.
"""

import dataclasses
from collections.abc import Callable
from inspect import get_annotations
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_FIELDS = "__dataclass_fields__"

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, **options: bool) -> Any:
        """Define a dataclass, with the options of the standard one."""
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        rest = options.keys() - {"frozen", "slots", "kw_only", "eq"}
        if not options.get("slots") or rest or any(hasattr(base, _FIELDS) for base in cls.__bases__):
            return dataclasses.dataclass(cls, **options)
        if any("InitVar" in str(hint) for hint in get_annotations(cls).values()):
            return dataclasses.dataclass(cls, **options)
        return _define(cls, **options)


def _define(cls: type, *, slots: bool, frozen: bool = False, eq: bool = True, kw_only: bool = False) -> type:
    if not cls.__doc__:
        cls.__doc__ = cls.__name__  # else the standard one formats the signature of the constructor
    own = dict(cls.__dict__)
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    fields = list(getattr(made, _FIELDS).values())
    sources = {"__init__": _init_source}
    if eq:
        sources |= {"__eq__": _eq_source} | ({"__hash__": _hash_source} if frozen else {})
    methods = {name: _compiled_later(made, name, source) for name, source in sources.items()}
    methods["__repr__"] = _repr_of(fields)
    for name, method in methods.items():
        if name not in own or (name == "__hash__" and own[name] is None):
            setattr(made, name, method)
    if eq and not frozen and "__hash__" not in own:
        made.__hash__ = None
    if frozen:
        made.__setattr__, made.__delattr__ = _refuse_assignment, _refuse_deletion
        if "__getstate__" not in own:
            made.__getstate__, made.__setstate__ = _state, _restore
    parameters = made.__dataclass_params__
    parameters.init = parameters.repr = True
    parameters.eq, parameters.frozen = eq, frozen
    return made  # type: ignore[no-any-return]


def _compiled_later(
    cls: Any, name: str, source_of: Callable[[Any, dict[str, Any]], str]
) -> Callable[..., Any]:
    """Return a method that, when it is first called, compiles the real one and replaces itself with it."""

    def method(*args: Any, **kwargs: Any) -> Any:
        names: dict[str, Any] = {}
        exec(source_of(cls, names), names)  # noqa: S102 - names of fields, as the standard library does it
        compiled = names[name]
        compiled.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, compiled)
        return compiled(*args, **kwargs)

    return method


def _init_source(cls: Any, names: dict[str, Any]) -> str:
    """Return the source of the constructor, and put the defaults that it uses into `names`."""
    frozen = cls.__dataclass_params__.frozen
    names |= {"_MISSING": dataclasses.MISSING, "_set": object.__setattr__}
    positional: list[str] = []
    by_name: list[str] = []
    body: list[str] = []
    for one in dataclasses.fields(cls):
        value = one.name
        if _has_factory(one):
            names[f"_make_{one.name}"] = one.default_factory
            made = f"_make_{one.name}()"
            value = f"{made} if {one.name} is _MISSING else {one.name}" if one.init else made
        elif not one.init:
            continue
        if one.init:
            default = "=_MISSING" if _has_factory(one) else ""
            if one.default is not dataclasses.MISSING:
                names[f"_default_{one.name}"], default = one.default, f"=_default_{one.name}"
            (by_name if one.kw_only else positional).append(one.name + default)
        body.append(f"_set(self, {one.name!r}, {value})" if frozen else f"self.{one.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *by_name] if by_name else [])])
    return f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"])


def _eq_source(cls: Any, names: dict[str, Any]) -> str:
    same = f"{_compared('self', cls)} == {_compared('other', cls)}"
    return (
        f"def __eq__(self, other):\n return {same} if other.__class__ is self.__class__ else NotImplemented"
    )


def _hash_source(cls: Any, names: dict[str, Any]) -> str:
    return f"def __hash__(self):\n return hash({_compared('self', cls)})"


def _compared(of: str, cls: Any) -> str:
    return "(" + "".join(f"{of}.{one.name}, " for one in dataclasses.fields(cls) if one.compare) + ")"


def _has_factory(one: Any) -> bool:
    return one.default_factory is not dataclasses.MISSING


def _repr_of(fields: list[Any]) -> Callable[[Any], str]:
    names = [one.name for one in fields if one.repr]

    @recursive_repr()
    def __repr__(self: Any) -> str:  # noqa: N807
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({shown})"

    return __repr__


def _refuse_assignment(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
