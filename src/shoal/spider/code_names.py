"""Which attributes the functions of a spider use, read from their code without running it."""

from collections.abc import Callable, Iterable, Iterator
from inspect import unwrap
from types import CodeType, FunctionType

MAX_FUNCTIONS = 1_000  # that are looked at: a spider has a few


def mentions(functions: Iterable[Callable[..., object]], name: str) -> bool:
    """Return whether any of these functions, or a function that they refer to, mentions a name.

    A name that only appears at run time, or in a method of some object, is not found.
    """
    waiting = [function for one in functions if (function := _plain(one)) is not None]
    known = set(map(id, waiting))
    while waiting and len(known) <= MAX_FUNCTIONS:
        function = waiting.pop()
        names = set(_names(function.__code__))
        if name in names:
            return True
        for other in _referred(function, names):
            if id(other) not in known:
                known.add(id(other))
                waiting.append(other)
    return False


def _plain(function: object) -> FunctionType | None:
    """Return the function behind decorators, or None if it is something else that can be called."""
    try:
        found = unwrap(function) if callable(function) else None
    except Exception:  # some object of the user's that looks like a decorated function
        return None
    return found if isinstance(found, FunctionType) else None


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names and the strings of a function, and of those that are defined inside of it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, CodeType):
            yield from _names(constant)


def _referred(function: FunctionType, names: Iterable[str]) -> Iterator[FunctionType]:
    """Yield the functions that a function uses by name: global ones, and those around it."""
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # it has no value yet
            continue
    for one in (*(function.__globals__.get(name) for name in names), *cells):
        other = _plain(one)
        if other is not None and not (other.__module__ or "").startswith("shoal."):
            yield other
