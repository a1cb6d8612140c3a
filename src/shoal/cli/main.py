"""The entry point of the `shoal` command: run it, then turn an error into one line and an exit code.

What not every command needs is imported where it is used: a process that prints the version imports no
parser of command lines and no settings.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shoal import __version__
from shoal.cli.process.exit_codes import ExitCode, exit_code_for
from shoal.cli.views.output import print_line, print_message
from shoal.cli.views.streams import safe_streams
from shoal.model.errors import DataFault, ShoalError, leaves

if TYPE_CHECKING:
    from typer.exceptions import TyperException

_CTRL_C = 130  # what Typer returns for Ctrl-C while no handler of Shoal is installed


def main() -> None:
    """Run the command that the process was started with, and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command, print what went wrong, and return the exit code."""
    with safe_streams():
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        return _call(arguments)
    except SystemExit:
        return ExitCode.CLOSED_PIPE  # with standalone_mode=False, Typer exits for nothing else
    except BaseException as error:
        return _report_error(error)


def _call(arguments: Sequence[str]) -> int:
    if [*arguments] == ["--version"]:  # beside other arguments, the application prints it
        print_line(f"shoal {__version__}")
        return ExitCode.FINISHED

    from typer.exceptions import TyperException

    from shoal.cli.app import HELP_FLAGS, command
    from shoal.cli.input.encoding import require_utf8
    from shoal.cli.input.secret_files import load_secret_files
    from shoal.cli.process.log_format import start_logging

    start_logging()  # for commands that only read a store; the others set their level
    try:
        require_utf8(arguments, os.environ)
        load_secret_files(os.environ)
        first = arguments[0] if arguments else ""
        built = command(None if first.startswith("-") and first not in HELP_FLAGS else first)
        code = built.main(list(arguments), prog_name="shoal", standalone_mode=False)
    except TyperException as error:
        return _report_usage(error)
    if code == _CTRL_C:
        return ExitCode.INTERRUPTED
    return code if isinstance(code, int) else ExitCode.FINISHED  # a plug-in may return anything


def _report_usage(error: "TyperException") -> ExitCode:
    text = error.format_message().rstrip(".")
    if close := getattr(error, "possibilities", None):
        text = f"{error.message}; did you mean {close[0]}?"
    path = getattr(getattr(error, "ctx", None), "command_path", "shoal")
    print_message(f"{text[:1].lower()}{text[1:]} (see {path} --help)")
    return ExitCode.USAGE


def _report_error(error: BaseException) -> ExitCode:
    from shoal.model.disk import disk_error

    if os.environ.get("SHOAL_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    found = [disk_error(leaf) or leaf for leaf in leaves(error)]
    raised = [leaf for leaf in found if isinstance(leaf, ShoalError)]
    if len(raised) == len(found):
        code = exit_code_for(raised[0])
        if code is not ExitCode.CLOSED_PIPE:  # the reader is gone
            print_message(str(raised[0]))
        return code
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in found):
        return ExitCode.INTERRUPTED
    if damage := next((leaf for leaf in found if isinstance(leaf, DataFault)), None):
        print_message(
            f"store: data that cannot be read: {damage}; a running worker sets it aside when it meets it"
        )
        return ExitCode.UNAVAILABLE
    return _report_bug(error)


def _report_bug(error: BaseException) -> ExitCode:
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile("w", prefix="shoal-bug-", suffix=".txt", delete=False) as file:
            traceback.print_exception(error, file=file)
        where = f"the traceback is in {file.name}"
    except OSError:
        where = "SHOAL_DEBUG=1 shows the traceback"
    print_message(f"this is a bug in Shoal: {type(error).__name__}: {error}; {where}")
    return ExitCode.BUG
