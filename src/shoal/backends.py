"""Backends by name: a table of built-ins, and what installed packages add through entry points.

Sinks, buses and archive locations each have a `registry.py` with one `Backends` table. A name is a URL
scheme (`nats`) or the suffix of a path (`.jsonl`). Built-ins are imported when they are first used, so that
the packages of an extra stay optional. Installed packages are searched only for a name that is not built
in: no package can replace a built-in, and a crawl that uses built-ins only does not read the metadata of
installed packages.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

import msgspec

from shoal.model.errors import Misconfigured

T = TypeVar("T")


class Builtin(msgspec.Struct, frozen=True):
    target: str  # module:attribute
    extra: str = ""  # the extra of Shoal that installs the packages it imports


class Backends(Generic[T]):
    """The backends of one kind, each an instance of `type`."""

    def __init__(self, group: str, type: type[T], builtins: Mapping[str, Builtin]) -> None:
        self._group = group
        self._type = type
        self._builtins = builtins

    def find(self, *names: str) -> str | None:
        """Return the first of `names` that is built in, else the first that a package provides, else None."""
        for name in names:
            if name in self._builtins:
                return name
        installed = _installed(self._group)
        return next((name for name in names if name in installed), None)

    def names(self) -> list[str]:
        """Return every known name, built-ins first."""
        installed = _installed(self._group)
        return [*self._builtins, *sorted(installed.keys() - self._builtins.keys())]

    def load(self, name: str, *, subject: str) -> T:
        """Import the backend `name`, which `find` has returned.

        `subject` starts the text of `Misconfigured`, so it must not contain a password.
        """
        builtin = self._builtins.get(name)
        found = _load_installed(self._group, name, subject) if builtin is None else _load(builtin, subject)
        if not isinstance(found, self._type):
            raise Misconfigured(
                f"{subject}: the entry point {name!r} in {self._group!r} must be a {self._type.__name__},"
                f" not a {type(found).__name__}"
            )
        return found


def _load(builtin: Builtin, subject: str) -> object:
    module, _, attribute = builtin.target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ImportError as error:
        if not builtin.extra:
            raise
        raise Misconfigured(f"{subject}: run  pip install 'shoal[{builtin.extra}]'  first") from error


def _load_installed(group: str, name: str, subject: str) -> object:
    first, *others = _installed(group)[name]
    if others:
        packages = ", ".join(sorted(_package(point) for point in (first, *others)))
        raise Misconfigured(f"{subject}: several packages provide {name!r}: {packages}; keep one")
    try:
        return first.load()
    except Exception as error:  # the module of another package may raise anything when it is imported
        raise Misconfigured(
            f"{subject}: the package {_package(first)} cannot be loaded: {type(error).__name__}: {error}"
        ) from error


@cache
def _installed(group: str) -> Mapping[str, list[EntryPoint]]:
    """Return the entry points of a group by name; reading the metadata of all packages takes some 10 ms."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        found.setdefault(point.name, []).append(point)
    return found


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value
