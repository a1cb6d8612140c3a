"""Run tests on a copy of the repository in which one place is changed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from tests.mutation.mutant import Mutant

LIMIT_S = 600  # for all tests of one mutant; one that takes longer than this is noticed
_FAILED = {
    1,
    2,
    4,
}  # of pytest: a test has failed, collecting has failed, loading the configuration has failed


class Fate(StrEnum):
    NOTICED = "noticed"
    SURVIVED = "survived"
    NOT_REACHED = "not reached"


class Copy:
    """A copy of the repository's files, with one change at a time."""

    def __init__(self, root: Path, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        listed = subprocess.run(
            ["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True
        ).stdout
        for name in listed.splitlines():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target)
        self._folder = folder
        self._written_at = 1_000_000_000  # bytecode is reused for a file of the same size and second: each writing has another

    def fate(self, mutant: Mutant | None, tests: Sequence[str]) -> Fate:
        """Return whether one of the tests fails. `None` changes nothing."""
        if not tests:
            return Fate.NOT_REACHED
        if mutant is None:
            return self._run(tests)
        file = self._folder / mutant.path
        source = file.read_bytes()
        try:
            self._write(file, mutant.apply(source))
            return self._run(tests)
        finally:
            self._write(file, source)

    def _write(self, file: Path, source: bytes) -> None:
        file.write_bytes(source)
        self._written_at += 10
        os.utime(file, (self._written_at, self._written_at))

    def _run(self, tests: Sequence[str]) -> Fate:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "--no-header",
            "-n",
            "0",
            "--timeout",
            "60",
            "-p",
            "no:cacheprovider",
        ]
        environment = {**os.environ, "PYTHONPATH": str(self._folder / "src")}
        try:
            # A separate session, so that a mutant which never ends is ended with every process that it has started.
            with subprocess.Popen(
                [*command, *tests],
                cwd=self._folder,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ) as process:
                try:
                    code = process.wait(LIMIT_S)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, 9)
                    return Fate.NOTICED
        except OSError as error:
            raise SystemExit(f"mutation: pytest did not start: {error}") from error
        if code == 0:
            return Fate.SURVIVED
        if code in _FAILED or code < 0:
            return Fate.NOTICED
        raise SystemExit(f"mutation: pytest ended with {code}: {' '.join(tests[:3])} ...")
