"""Where the `shoal` command starts: run it, then turn whatever happened into one line and an exit code."""

import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence

from typer.exceptions import TyperException

from shoal.cli.input.secret_files import take_secret_files
from shoal.cli.process.exit_codes import ExitCode, code_of
from shoal.cli.views.output import tell
from shoal.model.errors import ShoalError

_CTRL_C = 130  # what Typer makes of Ctrl-C where no handler of ours is installed


def main() -> None:
    """Run the command that the process was started with, and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; by then the person has been told what went wrong."""
    from shoal.cli.app import command
    from shoal.cli.process.log_format import start_logging

    start_logging()  # what commands log that only look at a store; the others say how much they tell
    try:
        take_secret_files(os.environ)
        code = command().main(list(arguments), prog_name="shoal", standalone_mode=False)
    except SystemExit:
        return ExitCode.CLOSED_PIPE  # all that Typer exits for when it has left the exit codes to us
    except TyperException as error:
        return _misused(error)
    except BaseException as error:
        return _failed(error)
    return ExitCode.INTERRUPTED if code == _CTRL_C else int(code or 0)


def _misused(error: TyperException) -> ExitCode:
    text = error.format_message().rstrip(".")
    if close := getattr(error, "possibilities", None):
        text = f"{error.message}; did you mean {close[0]}?"
    path = getattr(getattr(error, "ctx", None), "command_path", "shoal")
    tell(f"{text[:1].lower()}{text[1:]} (see {path} --help)")
    return ExitCode.USAGE


def _failed(error: BaseException) -> ExitCode:
    if os.environ.get("SHOAL_DEBUG") == "1":
        traceback.print_exception(error)
    leaves = list(_leaves(error))
    meant = [leaf for leaf in leaves if isinstance(leaf, ShoalError)]
    if len(meant) == len(leaves):
        code = code_of(meant[0])
        if code is not ExitCode.CLOSED_PIPE:  # nobody is there to be told
            tell(str(meant[0]))
        return code
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
        return ExitCode.INTERRUPTED
    return _bug(error)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Give the errors that task groups have wrapped up."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _bug(error: BaseException) -> ExitCode:
    try:
        with tempfile.NamedTemporaryFile("w", prefix="shoal-bug-", suffix=".txt", delete=False) as file:
            traceback.print_exception(error, file=file)
        where = f"the traceback is in {file.name}"
    except OSError:
        where = "SHOAL_DEBUG=1 shows the traceback"
    tell(f"this is a bug in Shoal: {type(error).__name__}: {error}; {where}")
    return ExitCode.BUG
