"""A test of more than three seconds says why, and the table that this is judged by is whole."""

import ast
from functools import cache
from pathlib import Path

import pytest
from tests.durations import (
    NEW_AND_SLOW_S,
    SLOW_S,
    TABLE,
    Duration,
    complaint,
    durations_of,
    read_table,
    write_table,
)

ROOT = Path(__file__).parents[2]
# Tests that took longer than three seconds before they had to say why. The list may only become shorter.
UNEXPLAINED = TABLE.with_name("slow_unexplained.txt")


def unexplained() -> set[str]:
    return set(UNEXPLAINED.read_text().splitlines())


@cache
def functions_of(path: Path) -> dict[str, bool]:
    """Return the tests that a file defines, and whether each has a marker `slow` with a reason."""
    tree = ast.parse(path.read_text())
    of_module = any(
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "pytestmark"
        and explains(node.value)
        for node in tree.body
    )
    return {
        node.name: of_module or any(map(explains, node.decorator_list))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def explains(marker: ast.expr) -> bool:
    """Return whether an expression has a call of `pytest.mark.slow` with a text in it."""
    return any(
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "pytest.mark.slow"
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
        and bool(node.args[0].value)
        for node in ast.walk(marker)
    )


def is_explained(test: str) -> bool:
    path, *_, name = test.split("::")
    return (ROOT / path).exists() and functions_of(ROOT / path).get(name, False)


def test_a_test_of_more_than_three_seconds_says_why() -> None:
    slow = {test for test, one in read_table().items() if one.longest > SLOW_S}
    missing = sorted(test for test in slow - unexplained() if not is_explained(test))
    assert not missing, f"mark them slow(why), or make them smaller: {missing}"


def test_the_list_of_unexplained_tests_has_no_entry_that_can_be_deleted() -> None:
    table = read_table()
    over = {
        test
        for test in unexplained()
        if test not in table or table[test].longest <= SLOW_S or is_explained(test)
    }
    assert not over, f"delete them from {UNEXPLAINED.name}: {sorted(over)}"


@pytest.mark.parametrize(
    ("marker", "says_why"),
    [
        ("pytest.mark.slow('ten kills')", True),
        ("pytest.mark.slow", False),
        ("pytest.mark.slow('')", False),
        ("[pytest.mark.chaos, pytest.mark.slow('ten kills')]", True),
        ("pytest.mark.alone('ten kills')", False),
        (
            "pytest.mark.parametrize('kind', [pytest.param('fleet', marks=pytest.mark.slow('starts workers'))])",
            True,
        ),
    ],
)
def test_a_marker_explains_only_with_a_text(marker: str, says_why: bool) -> None:
    assert explains(ast.parse(marker, mode="eval").body) == says_why


def test_durations_are_added_up_by_function_and_read_as_they_were_written(tmp_path: Path) -> None:
    results = tmp_path / "results.xml"
    cases = [
        ("tests.e2e.test_a", "test_one[folder]", 1.0),
        ("tests.e2e.test_a", "test_one[fleet]", 4.0),
        ("tests.contract.test_b.TestFleet", "test_two", 0.6),
        ("tests.unit.test_c", "test_quick", 0.1),
    ]
    lines = "".join(f'<testcase classname="{a}" name="{b}" time="{c}"/>' for a, b, c in cases)
    results.write_text(f"<testsuites><testsuite>{lines}</testsuite></testsuites>")

    write_table(durations_of([results]), tmp_path / "table.tsv")

    assert read_table(tmp_path / "table.tsv") == {
        "tests/e2e/test_a.py::test_one": Duration(5.0, 4.0, 2),
        "tests/contract/test_b.py::TestFleet::test_two": Duration(0.6, 0.6, 1),
    }


def test_only_a_new_test_without_a_reason_fails_for_its_time() -> None:
    new, known = "tests/unit/test_new.py::test_new[1]", next(iter(read_table()))
    assert "took 11.0 s" in complaint(new, NEW_AND_SLOW_S + 1, is_marked=False)
    assert not complaint(new, NEW_AND_SLOW_S + 1, is_marked=True)
    assert not complaint(new, NEW_AND_SLOW_S - 1, is_marked=False)
    assert not complaint(f"{known}[case]", NEW_AND_SLOW_S + 1, is_marked=False)
