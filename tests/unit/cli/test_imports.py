"""What a command imports before it does anything: the larger part of what a short command costs.

Modules are counted and no time is taken, so the result is the same on every machine.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shoal.cli.app import COMMANDS, command

COUNTED = """\
import sys
from contextlib import suppress
from shoal.__main__ import main
with suppress(SystemExit):
    main()
print(len(sys.modules), *sorted(sys.modules), file=sys.stderr)
"""
ONE_PAGE = ("crawl", "http://127.0.0.1:9/", "--allow-private", "--json")  # nothing answers there
NOT_FOR_A_CRAWL = ("duckdb", "lxml", "numpy", "obstore", "pyarrow", "rich", "aiodns", "redis", "shoal.server")


def imported(*arguments: str, cwd: Path) -> list[str]:
    """Run a command in a separate interpreter, and return the names of the modules it has at its end."""
    env = {"PATH": "/usr/bin", "SHOAL_RETRY_MAX_RETRIES": "0", "SHOAL_CRAWL_ROBOTS": "false"}
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, *arguments],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    count, *names = done.stderr.splitlines()[-1].split()
    assert len(names) == int(count)
    return names


def places(group: Any) -> dict[str, tuple[str | None, bool]]:
    """Return the panel of each command in the help, and whether it is hidden."""
    return {name: (one.rich_help_panel, one.hidden) for name, one in group.commands.items()}


@pytest.mark.parametrize(
    ("arguments", "most"),
    [(("--version",), 80), (("--help",), 400), (("crawl", "--help"), 420), (ONE_PAGE, 700)],
    ids=["version", "help", "help of a command", "crawl"],
)
def test_a_command_imports_no_more_than_it_did(arguments: tuple[str, ...], most: int, tmp_path: Path) -> None:
    assert len(imported(*arguments, cwd=tmp_path)) <= most


def test_a_crawl_imports_no_package_that_it_does_not_use(tmp_path: Path) -> None:
    names = imported(*ONE_PAGE, cwd=tmp_path)
    assert [name for name in NOT_FOR_A_CRAWL if name in names] == []


def test_the_help_lists_commands_as_their_modules_describe_them() -> None:
    built = command().commands
    assert {row.name: row.text for row in COMMANDS} == {
        name: (one.help or "").split("\n\n")[0] for name, one in built.items()
    }
    assert places(command("")) == places(command())
