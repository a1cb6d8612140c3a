"""The `shoal` command as a separate process, as a user or a script runs it."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e import command_server
from tests.e2e.command_server import FIXED_AT_START, SERVER, StartedCommand, server_for

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


surroundings = command_server.surroundings


def shoal(*arguments: str, cwd: Path, env: Mapping[str, str] = {}, timeout: float = TIMEOUT) -> Ran:
    """Run a command to its end."""
    environment = surroundings(env)
    if can_be_forked(env):
        return Ran(*server_for(arguments).run(arguments, cwd=cwd, env=environment, timeout=timeout))
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


def can_be_forked(env: Mapping[str, str]) -> bool:
    """Return whether a command with these additions to its environment can be forked from the command server."""
    return not any(name.startswith(FIXED_AT_START) for name in env)


@contextmanager
def started(*arguments: str, cwd: Path, env: Mapping[str, str] = {}) -> Iterator[StartedCommand]:
    """Run a command in the background; it is killed at the end of the block."""
    assert can_be_forked(env), env
    with SERVER.start(arguments, cwd=cwd, env=surroundings(env)) as process:
        try:
            yield process
        finally:
            process.kill()


def start_logged(
    *arguments: str, cwd: Path, log: Path, env: Mapping[str, str] = {}, session: bool = False
) -> StartedCommand:
    """Run a command in the background that appends what it prints to a file; the caller ends it."""
    assert can_be_forked(env), env
    with log.open("ab") as file:
        out = file.fileno()
        return SERVER.start(arguments, cwd=cwd, env=surroundings(env), out=out, err=out, session=session)


def ended(process: StartedCommand) -> Ran:
    """Wait for a background command to end by itself."""
    out, err = process.communicate(timeout=TIMEOUT)
    code = process.wait()
    return Ran(code, out, err)


def records(path: Path) -> list[dict[str, Any]]:
    """Read a JSONL file, every line of which must be whole."""
    text = path.read_text()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]
