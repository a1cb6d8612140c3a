"""The commands: what they are called, what their help says, and that the manual is complete."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperGroup

import shoal
from shoal import __version__
from shoal.cli.app import command
from shoal.cli.main import run
from shoal.model.settings import Settings

MANUAL = Path(__file__).parents[3] / "docs" / "commands"


def commands(group: TyperGroup, path: str = "shoal") -> Iterator[tuple[str, object]]:
    for name, inner in group.commands.items():
        if inner.hidden:
            continue
        if isinstance(inner, TyperGroup):
            yield from commands(inner, f"{path} {name}")
        else:
            yield f"{path} {name}", inner


COMMANDS = dict(commands(command()))
PAGES = [page for page in MANUAL.glob("*.md") if page.stem != "README"]


def manual(path: str) -> str:
    """Return the page of a command, or its section of the page of its group."""
    name, *inner = path.split()[1:]
    page = (MANUAL / f"{name}.md").read_text()
    return page.partition(f"\n## {path}\n")[2].partition("\n## ")[0] if inner else page


def flags(path: str) -> list[str]:
    parameters = COMMANDS[path].params  # type: ignore[attr-defined]
    return [flag for one in parameters for flag in (*one.opts, *one.secondary_opts) if flag.startswith("-")]


@pytest.mark.parametrize("path", COMMANDS)
def test_the_manual_has_every_flag_of_every_command(path: str) -> None:
    text = manual(path)
    assert text
    assert [flag for flag in flags(path) if not re.search(rf"(?<![\w-]){flag}(?![\w-])", text)] == []


@pytest.mark.parametrize("path", COMMANDS)
def test_the_manual_has_no_flag_that_does_not_exist(path: str) -> None:
    known = {*flags(path), "--help"}
    assert set(re.findall(r"^\| `(--[a-z-]+)", manual(path), re.MULTILINE)) <= known


def test_the_manual_lists_every_command() -> None:
    listed = re.findall(r"\(([a-z]+)\.md\)", (MANUAL / "README.md").read_text())
    assert set(listed) == {path.split()[1] for path in COMMANDS} == {page.stem for page in PAGES}


@pytest.mark.parametrize("path", ["shoal", "shoal dlq", "shoal host", *COMMANDS])
def test_every_command_has_help(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*path.split()[1:], "--help"]) == 0
    assert f"Usage: {path}" in capsys.readouterr().out


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_shows_examples(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    run([*path.split()[1:], "--help"])
    _, heading, shown = capsys.readouterr().out.partition("Examples")
    assert heading
    assert path in shown


def test_help_shows_the_defaults_that_apply(capsys: pytest.CaptureFixture[str]) -> None:
    run(["crawl", "--help"])
    words = " ".join(capsys.readouterr().out.replace("│", " ").split())
    crawl = Settings().crawl
    for flag, shown in (
        ("--rate", crawl.rate),
        ("--per-host", crawl.per_host),
        ("--concurrency", crawl.concurrency),
    ):
        assert re.search(rf"{flag} .*?Default: {shown:g}\.", words), flag
    assert f"Default: {Settings().store}." in words


def test_the_version_is_the_version_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"shoal {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["dlq"], ["host"]])
def test_without_a_command_the_help_is_shown(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 0
    assert "COMMAND [ARGS]..." in capsys.readouterr().out


HEAVY = ("shoal.services", "shoal.spider", "asyncio", "uvloop", "lxml", "selectolax", "rich.live")


def test_help_and_version_load_nothing_that_a_crawl_needs() -> None:
    script = (
        "import sys; from shoal.cli.main import run; run(['--version']); run(['crawl', '--help']);"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "[]"


def test_every_visible_command_and_no_other_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"])
    shown = capsys.readouterr().out
    assert {line.split()[1] for line in shown.splitlines() if re.match(r"│ [a-z]", line)} == {
        path.split()[1] for path in COMMANDS
    }


def test_crawl_submit_and_fleet_have_the_same_options() -> None:
    of_the_process = ("--metrics", "--every")
    own = [flag for flag in flags("shoal crawl") if flag not in of_the_process]
    assert own == flags("shoal submit")
    assert flags("shoal fleet") == [*own, "--workers", "-n", "--max", "--min", "--drain"]


def test_forget_is_a_hidden_alias_of_delete(capsys: pytest.CaptureFixture[str]) -> None:
    group = command()
    assert group.commands["forget"].hidden
    assert not group.commands["delete"].hidden
    assert run(["forget", "--help"]) == 0
    assert "Delete a crawl from its store" in capsys.readouterr().out


def test_python_m_shoal_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shoal", "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == f"shoal {__version__}\n"


def test_the_public_names_are_listed_and_exist() -> None:
    assert dir(shoal) == sorted(shoal.__all__)
    assert all(getattr(shoal, name) for name in dir(shoal))


def test_a_command_of_shoal_does_not_look_up_plugins() -> None:
    script = (
        "import sys; from shoal.cli.main import run; run(['--version']);"
        "print('importlib.metadata' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "False"
