"""Commands of packages that are installed beside Shoal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.plugins import install_plugin

GOOD = '''
import typer

def hello(name: str, loud: bool = False) -> int:
    """Greet one person."""
    print(f"hello {name}{'!' if loud else ''}")
    return 3

app = typer.Typer(help="Two commands.")

@app.command()
def one() -> None:
    """The first."""
    print("one")

@app.command()
def two() -> None:
    """The second."""
    raise RuntimeError("two is broken")
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugins")
    install_plugin(
        folder,
        "shoal-greetings",
        {"greetings.py": GOOD},
        {"shoal.commands": {"hello": "greetings:hello", "pair": "greetings:app", "crawl": "greetings:hello"}},
    )
    return install_plugin(
        folder,
        "shoal-broken",
        {"broken.py": "import a_module_that_is_not_installed\n", "leaves.py": "raise SystemExit(5)\n"},
        {
            "shoal.commands": {
                "broken": "broken:command",
                "leaves": "leaves:command",
                "number": "string:digits",
            }
        },
    )


def shoal(site: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "shoal", *arguments],
        env={**os.environ, "PYTHONPATH": str(site), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_function_is_a_command_with_its_options_and_its_exit_code(site: Path) -> None:
    done = shoal(site, "hello", "Ada", "--loud")
    assert (done.stdout, done.stderr, done.returncode) == ("hello Ada!\n", "", 3)
    assert "Greet one person." in shoal(site, "hello", "--help").stdout
    assert "missing argument 'name'" in shoal(site, "hello").stderr


def test_a_typer_app_is_a_group_of_commands(site: Path) -> None:
    assert shoal(site, "pair", "one").stdout == "one\n"
    assert "The second." in shoal(site, "pair", "--help").stdout


def test_the_help_lists_commands_of_other_packages_in_their_panel(site: Path) -> None:
    done = shoal(site, "--help")
    own, panel, others = done.stdout.partition("Commands of other packages")
    assert panel
    assert "Greet one person." in others
    assert "Two commands." in others
    assert "Greet" not in own
    assert done.returncode == 0


def test_the_help_warns_once_about_each_command_that_cannot_be_used(site: Path) -> None:
    warnings = shoal(site, "--help").stderr.splitlines()
    assert [line.split(" (")[0] for line in warnings] == [
        "shoal: command broken of package shoal-broken",
        "shoal: command crawl of package shoal-greetings",
        "shoal: command leaves of package shoal-broken",
        "shoal: command number of package shoal-broken",
    ]
    assert "cannot be loaded: ModuleNotFoundError: No module named 'a_module_that" in warnings[0]
    assert "is ignored: another command has that name" in warnings[1]
    assert "not a function or a typer.Typer" in warnings[3]


@pytest.mark.parametrize("arguments", [["--version"], ["crawl", "--help"], ["hello", "Ada"]])
def test_a_broken_package_does_not_affect_other_commands(site: Path, arguments: list[str]) -> None:
    done = shoal(site, *arguments)
    assert done.stdout
    assert done.stderr == ""


def test_a_command_that_cannot_be_loaded_is_an_error_in_one_line(site: Path) -> None:
    done = shoal(site, "broken")
    assert done.returncode == 1
    assert done.stderr.startswith("shoal: command broken of package shoal-broken (broken:command) cannot be")
    assert done.stderr.count("\n") == 1


def test_a_failure_of_such_a_command_names_its_package(site: Path) -> None:
    done = shoal(site, "pair", "two")
    assert done.returncode == 1
    assert done.stderr == (
        "shoal: command pair of package shoal-greetings (greetings:app) failed:"
        " RuntimeError: two is broken; SHOAL_DEBUG=1 shows the traceback\n"
    )


def test_an_unknown_command_is_still_unknown(site: Path) -> None:
    done = shoal(site, "helo")
    assert done.returncode == 1
    assert "no such command 'helo'" in done.stderr
