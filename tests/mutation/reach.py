"""Which tests reach a line: the unit and contract tests under coverage, a context per test.

As a plugin of pytest (`-p tests.mutation.reach`) this module names the contexts.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

NEAR = ("tests/unit", "tests/contract")
_SETTINGS = "[run]\nsource = shoal\nparallel = true\npatch = subprocess\ndata_file = {data}\ndisable_warnings = module-not-imported, no-data-collected\n"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Record what runs from now on under the id of the test's function, fixtures included."""
    if measured := coverage.Coverage.current():
        measured.switch_context(item.nodeid.split("[")[0])
    return (yield)


class Reach:
    """The tests of each line, from one run of all near tests."""

    def __init__(self, data: coverage.CoverageData, root: Path) -> None:
        self._data = data
        self._root = root
        self._lines: dict[str, dict[int, list[str]]] = {}

    @classmethod
    def measure(cls, root: Path, folder: Path, *, processes: int) -> "Reach":
        """Run the near tests once, or return what an earlier run of this command has found."""
        folder.mkdir(parents=True, exist_ok=True)
        data, settings = folder / "reach", folder / "coveragerc"
        if not data.exists():
            settings.write_text(_SETTINGS.format(data=data))
            selection = "not whole_matrix and not needs_cluster and not alone"
            run = [
                sys.executable,
                "-m",
                "coverage",
                "run",
                f"--rcfile={settings}",
                "-m",
                "pytest",
                "-q",
                "--no-header",
            ]
            options = [
                "-p",
                "tests.mutation.reach",
                "-n",
                str(processes),
                "--timeout",
                "600",
                "-m",
                selection,
            ]
            subprocess.run([*run, *options, *NEAR], cwd=root, check=False)
            subprocess.run(
                [sys.executable, "-m", "coverage", "combine", f"--rcfile={settings}", "-q"],
                cwd=root,
                check=True,
            )
        found = coverage.CoverageData(basename=str(data))
        found.read()
        return cls(found, root)

    def of(self, path: str, line: int) -> list[str]:
        """Return the tests that run a line, those of the module's own folder first."""
        if path not in self._lines:
            self._lines[path] = self._data.contexts_by_lineno(str(self._root / path))
        lines = self._lines[path]
        # What runs when a module is imported belongs to no test: those of the rest of the file are tried.
        found = lines.get(line, ())
        tests = {test for test in found if test} or {
            test for tests in lines.values() for test in tests if test
        }
        own = str(Path(path.replace("src/shoal", "tests/unit")).parent)
        return sorted(
            tests, key=lambda test: (not test.startswith(own), not test.startswith("tests/contract"), test)
        )
