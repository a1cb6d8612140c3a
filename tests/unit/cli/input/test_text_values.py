"""Values of options, converted by Shoal or by Typer: the same results and the same errors."""

import subprocess
import sys
from typing import Annotated, Any

import pytest
import typer
from typer.exceptions import TyperException

from shoal.cli.input.text_values import keep_text

Given = dict[str, Any]


def parsed(arguments: list[str], *, ours: bool) -> Given | str:
    """Return the values that a command receives, or the error."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def command(
        targets: Annotated[list[str] | None, typer.Argument()] = None,
        name: str | None = None,
        item: list[str] | None = None,
        pages: Annotated[int | None, typer.Option(min=1)] = None,
        share: float = 0.5,
        verbose: Annotated[int, typer.Option("--verbose", "-v", count=True)] = 0,
        flag: bool = False,
    ) -> Given:
        return {
            "targets": targets,
            "name": name,
            "item": item,
            "pages": pages,
            "share": share,
            "verbose": verbose,
            "flag": flag,
        }

    built = typer.main.get_command(app)
    if ours:
        for parameter in built.params:
            keep_text(parameter)
    try:
        given: Given = built.main(arguments, standalone_mode=False)
    except TyperException as error:
        return error.format_message()
    return given


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a", "b", "--name", "", "--item", "x=1", "--item", "y", "-vv", "--flag"],
        ["--name", "Füße ✓", "--pages", "3", "--share", "2"],
        ["--pages", "0"],
        ["--pages", "many"],
        ["--share", "much"],
        ["--name", "\udcff"],
        ["\udcff"],
        ["--name"],
    ],
)
def test_a_value_is_what_typer_makes_of_it(arguments: list[str]) -> None:
    assert parsed(arguments, ours=True) == parsed(arguments, ours=False)


def test_a_command_of_text_options_does_not_load_pydantic() -> None:
    code = (
        "import sys; from shoal.cli.main import run;"
        " run(['crawl', '--store', 'none', '--item', 'a=b', '--rate', '1']);"
        " sys.exit('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
