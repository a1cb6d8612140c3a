"""What a test needs from the machine, as markers, and what happens where the machine does not have it.

The markers are read from the code and not set by hand: a test needs the servers whose start functions it calls,
itself, through its fixtures, or through functions of `tests`. So `pytest -m "not needs_cluster"` works.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any, NoReturn

import pytest

# What starts a server or a process, as "module.name" -> the marker of a test that uses it.
STARTED_BY = {
    "tests.contract.redis_frontiers.redis_bench": "needs_redis",
    "tests.servers.redis.RedisServer": "needs_redis",
    "tests.servers.redis.redis7": "needs_redis",
    "tests.servers.redis.valkey": "needs_redis",
    "tests.servers.redis.cluster": "needs_cluster",
    "tests.servers.redis.sentinels": "needs_cluster",
    "tests.servers.shared.shared_cluster": "needs_cluster",
    "tests.servers.shared.shared_sentinels": "needs_cluster",
    "tests.servers.postgres.postgres": "needs_postgres",
    "tests.servers.shared.shared_database": "needs_postgres",
    "tests.servers.nats.nats_server": "needs_nats",
    "tests.servers.s3.s3_server": "needs_s3",
    "tests.servers.shared.shared_s3": "needs_s3",
    "tests.corpora.packages.files": "needs_packages",
    "tests.corpora.packages.unpacked": "needs_packages",
    "tests.servers.process.ServerProcess": "process",
    "tests.site.server.serving": "process",
    "shoal.child_process.run_child": "process",
    "asyncio.create_subprocess_exec": "process",
    "subprocess.Popen": "process",
    "subprocess.run": "process",
}
FOLDERS = {
    "adversary": {"process"},
    "e2e": {"process"},
    "hostile": {"process"},
    "crash": {"process", "chaos"},
}
# Tests of these folders start no server. Those that start a short process or read published packages are marked,
# and `make quick` leaves them out.
FOLDERS_WITHOUT_SERVERS = ("unit",)
NOT_A_SERVER = {"process", "needs_packages"}

_LOOKED_INTO = ("tests.", "docs.")


@pytest.hookimpl(tryfirst=True)  # before -m looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set the markers; raise `UsageError` for a test that is in a folder where it may not start anything."""
    misplaced = []
    known: dict[object, set[str]] = {}
    for item in items:
        needed = markers_of(item, known)
        for marker in needed:
            item.add_marker(marker)
        if needed - NOT_A_SERVER and folder_of(item) in FOLDERS_WITHOUT_SERVERS:
            misplaced.append(f"{item.nodeid} ({', '.join(sorted(needed))})")
    if misplaced:
        listed = "\n  ".join(misplaced)
        raise pytest.UsageError(f"tests that start servers belong in tests/integration:\n  {listed}")


class Parameters:
    """The parameters of one case of a test, and whether the answer has depended on them."""

    def __init__(self, values: Iterable[object]) -> None:
        self._values = tuple(values)
        self.were_used = False

    def values(self) -> tuple[object, ...]:
        self.were_used = True
        return self._values


def markers_of(item: pytest.Item, known: dict[object, set[str]] | None = None) -> set[str]:
    """Return the markers of what a test starts; `known` remembers those of functions between calls."""
    found = set(FOLDERS.get(folder_of(item), ()))
    known = {} if known is None else known
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    for function in _functions(item):
        if function in known:
            found |= known[function]
            continue
        parameters = Parameters(values)
        starts = started_by(function, parameters, set())
        if not parameters.were_used:
            known[function] = starts
        found |= starts
    for value in values:
        found |= started_by(value, Parameters(values), set())
    if item.get_closest_marker("needs_cluster") or "needs_cluster" in found:
        found |= {"needs_cluster", "needs_redis"}
    return found


def folder_of(item: pytest.Item) -> str:
    """Return the folder of `tests` that a test is in."""
    return item.path.relative_to(item.config.rootpath / "tests").parts[0]


def _functions(item: pytest.Item) -> Iterator[Callable[..., Any]]:
    if function := getattr(item, "function", None):
        yield function
    fixtures: Mapping[str, Iterable[Any]] = getattr(
        getattr(item, "_fixtureinfo", None), "name2fixturedefs", {}
    )
    for definitions in fixtures.values():
        for definition in definitions:
            yield definition.func


def started_by(value: Any, parameters: Parameters, seen: set[int]) -> set[str]:
    """Return the markers of what a function starts, or the methods of a class."""
    value = getattr(value, "__wrapped__", value)
    module = getattr(value, "__module__", None)
    if id(value) in seen or not isinstance(module, str):
        return set()
    seen.add(id(value))
    if marker := STARTED_BY.get(f"{module}.{getattr(value, '__qualname__', '')}"):
        return {marker}
    if not module.startswith(_LOOKED_INTO):
        return set()
    found: set[str] = set()
    if isinstance(value, type):
        for member in vars(value).values():
            found |= started_by(
                getattr(member, "fget", getattr(member, "__func__", member)), parameters, seen
            )
    elif isinstance(value, FunctionType):
        names = _names(value.__code__)
        for name in names:
            match value.__globals__.get(name):
                case ModuleType() as used:
                    found |= {
                        STARTED_BY[key] for one in names if (key := f"{used.__name__}.{one}") in STARTED_BY
                    }
                case dict() as choices:  # backends by name: the parameter of the test chooses one
                    for choice in parameters.values():
                        if isinstance(choice, str) and choice in choices:
                            found |= started_by(choices[choice], parameters, seen)
                case other:
                    found |= started_by(other, parameters, seen)
    return found


def _names(code: CodeType) -> set[str]:
    """Return the global names and attributes that a function uses, and the functions inside it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def missing(what: str) -> NoReturn:
    """End a test that cannot run on this machine: skipped on a person's machine, failed where CI is true."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(f"{_MISSING}{what}")


_MISSING = "not on this machine: "


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List what was not tested because the machine lacks it, where it cannot be overlooked."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if _MISSING in reason:
            reasons[reason.partition(_MISSING)[2]] = reasons.get(reason.partition(_MISSING)[2], 0) + 1
    if reasons:
        terminalreporter.section("NOT TESTED", sep="!", red=True, bold=True)
        for reason, count in sorted(reasons.items()):
            terminalreporter.line(f"{count:5} tests: {reason}", red=True)
        terminalreporter.line("In continuous integration (CI=true) these fail.", red=True)
