"""The `shoal` command as a separate process, as a user or a script runs it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.command_server import FIXED_AT_START, SERVER

SHOAL = (sys.executable, "-m", "shoal")
QUICK = ("--allow-private", "--rate", "0", "--per-host", "16")
HASTY = {"SHOAL_RETRY_BASE": "0.01"}  # retry failed pages at once
PRIVATE = {"SHOAL_CRAWL_ALLOW_PRIVATE": "1"}  # for workers: sites of tests are on this machine
NO_RETRIES = {"SHOAL_RETRY_MAX_RETRIES": "0"}

PAGES = 45  # of the shop
DONE = PAGES + 1  # with one that has moved, which yields no item
TIMEOUT = 90.0  # seconds, for a busy machine; an idle one takes a few seconds


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Parse standard output, which must be one JSON object on one line and nothing else."""
        [line] = self.out.splitlines()
        return json.loads(line)

    @property
    def complaint(self) -> str:
        """Return the one line on standard error."""
        [line] = self.err.splitlines()
        assert line.startswith("shoal: "), line
        return line.removeprefix("shoal: ")


def surroundings(extra: Mapping[str, str] = {}) -> dict[str, str]:
    """Return an environment without the settings of the user who runs the tests."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SHOAL_", "LC_", "NO_COLOR"))
    }
    return {**kept, "LANG": "C.UTF-8", "PYTHONWARNINGS": "error", **extra}


def shoal(*arguments: str, cwd: Path, env: Mapping[str, str] = {}, timeout: float = TIMEOUT) -> Ran:
    """Run a command to its end."""
    environment = surroundings(env)
    if not any(name.startswith(FIXED_AT_START) for name in env):
        return Ran(*SERVER.run(arguments, cwd=cwd, env=environment, timeout=timeout))
    done = subprocess.run(
        [*SHOAL, *arguments],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@contextmanager
def started(*arguments: str, cwd: Path, env: Mapping[str, str] = {}) -> Iterator[subprocess.Popen[str]]:
    """Run a command in the background; it is killed at the end of the block."""
    process = subprocess.Popen(
        [*SHOAL, *arguments],
        cwd=cwd,
        env=surroundings(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> Ran:
    """Wait for a background command to end by itself."""
    out, err = process.communicate(timeout=TIMEOUT)
    return Ran(process.returncode, out, err)


def records(path: Path) -> list[dict[str, Any]]:
    """Read a JSONL file, every line of which must be whole."""
    text = path.read_text()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]
