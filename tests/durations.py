"""What the tests took in one run, by function: the table `tests/durations.tsv`, and what it is used for.

`make durations` writes the table from the results of the last `make test` or `make test-all`. A function that took less than
half a second altogether is left out. `tests/repo/test_durations.py` compares the table with the markers `slow(why)`.

A run judges only tests that the table does not know, and only far above the limit: a machine that does other things as well makes
a test of one second take three, but hardly ten.
"""

import functools
import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

TABLE = Path(__file__).with_suffix(".tsv")
LEAST_S = 0.5  # what all cases of a function take together, from which on it is listed
SLOW_S = 3.0  # what one case takes, from which on a function needs the marker `slow`
NEW_AND_SLOW_S = 10.0  # what one case of a test takes that the table does not know, from which on it fails
_HEADER = ("seconds", "longest", "cases", "test")


class Duration(NamedTuple):
    """What one function took in the run that the table was written from."""

    seconds: float  # all cases together
    longest: float
    cases: int


def read_table(table: Path = TABLE) -> dict[str, Duration]:
    """Return the durations of the table by the id of the function, without parameters."""
    header, *rows = (line.split("\t") for line in table.read_text().splitlines())
    assert tuple(header) == _HEADER
    return {
        test: Duration(float(seconds), float(longest), int(cases)) for seconds, longest, cases, test in rows
    }


@functools.cache
def known_tests() -> frozenset[str]:
    """Return the functions that the table has."""
    return frozenset(read_table())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a new test that is far too slow and does not say why."""
    report = yield
    if report.when == "call" and report.passed:
        slow = item.get_closest_marker("slow") or item.get_closest_marker("full_size")
        if why := complaint(report.nodeid, call.duration, is_marked=slow is not None):
            report.outcome, report.longrepr = "failed", why
    return report


def complaint(node_id: str, seconds: float, *, is_marked: bool) -> str:
    """Return why a test that has passed may not take that long; empty: it may."""
    if seconds <= NEW_AND_SLOW_S or is_marked or function_of(node_id) in known_tests():
        return ""
    return (
        f"{node_id} took {seconds:.1f} s: make it smaller, or mark it slow(why) (tests/README.md, Durations)"
    )


def function_of(node_id: str) -> str:
    """Return the id of a test without the parameters of one case."""
    return node_id.partition("[")[0]


def durations_of(results: Iterable[Path]) -> dict[str, Duration]:
    """Return the durations by function that files in the format of JUnit have."""
    found: dict[str, Duration] = {}
    for path in results:
        for case in ElementTree.parse(path).iter("testcase"):
            test, taken = _id_of(case.get("classname", ""), case.get("name", "")), float(case.get("time", 0))
            known = found.get(test, Duration(0.0, 0.0, 0))
            found[test] = Duration(known.seconds + taken, max(known.longest, taken), known.cases + 1)
    return found


def _id_of(module: str, name: str) -> str:
    """Return the id of a function, from a name such as `tests.contract.test_frontier.TestFleet`."""
    parts = module.split(".")
    classes = [part for part in parts if part.startswith("Test")]
    path = "/".join(parts[: len(parts) - len(classes)])
    return "::".join((f"{path}.py", *classes, function_of(name)))


def write_table(durations: dict[str, Duration], table: Path = TABLE) -> None:
    """Write the table, the most expensive function first."""
    lines = ["\t".join(_HEADER)]
    for test, one in sorted(durations.items(), key=lambda pair: (-pair[1].seconds, pair[0])):
        if one.seconds >= LEAST_S:
            lines.append(f"{one.seconds:.1f}\t{one.longest:.1f}\t{one.cases}\t{test}")
    table.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Write the table from the files that the command line names, and print the sum."""
    durations = durations_of(map(Path, sys.argv[1:]))
    write_table(durations)
    total = sum(one.seconds for one in durations.values())
    print(
        f"durations: {sum(one.cases for one in durations.values()):,} tests took {total:,.0f} s, one after another"
    )


if __name__ == "__main__":
    main()
