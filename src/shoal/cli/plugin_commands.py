"""Commands of other packages: entry points of the group `shoal.commands`.

The name of an entry point is the name of the command; its object is a function or a `typer.Typer`. Entry
points are looked up only for a name that is not a command of Shoal, and for `shoal --help`, so they cost
nothing otherwise. An entry point that cannot be loaded leaves all other commands working, and an exception of
such a command is reported with the name of its package, not as a bug in Shoal.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from shoal.cli.views.output import print_message
from shoal.cli.views.streams import own_text
from shoal.model.errors import Misconfigured, ShoalError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "shoal.commands"
PANEL = "Commands of other packages"


class PluginGroup(TyperGroup):
    """The commands of Shoal, then those of other packages."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by name; raise `Misconfigured` if its package cannot be loaded."""
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        found = next((entry for entry in find_entry_points() if entry.name == cmd_name), None)
        return None if found is None else load_command(found)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help with the commands of other packages in a separate panel."""
        for entry in sorted(find_entry_points(), key=lambda one: one.name):
            if entry.name in self.commands:
                print_message(f"{describe(entry)} is ignored: another command has that name")
                continue
            try:
                self.add_command(load_command(entry), entry.name)
            except Misconfigured as error:
                print_message(str(error))
        with own_text():
            super().format_help(ctx, formatter)


def find_entry_points() -> "Iterable[EntryPoint]":
    from importlib.metadata import entry_points  # here, because most commands do not need it

    return entry_points(group=GROUP)


def load_command(entry: "EntryPoint") -> TyperCommand | TyperGroup:
    """Import an entry point and return its command; raise `Misconfigured` if that fails for any reason."""
    try:
        found = entry.load()
        app = found
        if not isinstance(found, typer.Typer):
            if not callable(found):
                raise TypeError("not a function or a typer.Typer")
            app = typer.Typer(add_completion=False)
            app.command(entry.name)(found)
        command = get_command(app)
    # SystemExit: a module may call sys.exit() when it is imported.
    except (Exception, SystemExit) as error:
        text = f"{type(error).__name__}: {error}"
        raise Misconfigured(f"{describe(entry)} cannot be loaded: {text}") from error
    assert isinstance(command, TyperCommand | TyperGroup)
    style_help(command)
    command.name = entry.name
    command.rich_help_panel = PANEL
    invoke = command.invoke

    def invoke_or_name(ctx: Any) -> Any:
        try:
            return invoke(ctx)
        except (ShoalError, TyperException, typer.Exit, typer.Abort):
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}; SHOAL_DEBUG=1 shows the traceback"
            raise Misconfigured(f"{describe(entry)} failed: {text}") from error

    command.invoke = invoke_or_name  # type: ignore[method-assign]
    return command


def style_help(command: TyperCommand | TyperGroup) -> None:
    """Keep the colours of a command's help: it is text of installed packages."""
    format_help = command.format_help

    def styled(ctx: Any, formatter: Any) -> None:
        with own_text():
            format_help(ctx, formatter)

    command.format_help = styled  # type: ignore[method-assign]


def describe(entry: "EntryPoint") -> str:
    """Return the command and the package that it comes from."""
    package = f" of package {entry.dist.name}" if entry.dist is not None else ""
    return f"command {entry.name}{package} ({entry.value})"
