"""Exit codes of the command."""

from enum import IntEnum

from shoal.cli.views.output import ClosedPipe
from shoal.model.errors import Interrupted, Lost, NoExit, ShoalError, Unavailable


class ExitCode(IntEnum):
    FINISHED = 0
    USAGE = 1
    DEAD_LETTERS = 2
    INTERRUPTED = 3
    UNAVAILABLE = 4
    NOT_VERIFIED = 5
    BAD_LINES = 6
    NO_CRAWL = 7
    KEPT = 8
    HELD = 9
    NO_DATA = 10
    YIELD_DROPPED = 11
    NO_EXIT = 12
    BUG = 70  # EX_SOFTWARE of sysexits.h
    CLOSED_PIPE = 141  # what a shell reports for a command that SIGPIPE ended


MEANING = {
    ExitCode.FINISHED: "finished",
    ExitCode.USAGE: "usage, configuration or output: the user has to change something",
    ExitCode.DEAD_LETTERS: "finished, with more dead letters than --max-dead allows",
    ExitCode.INTERRUPTED: "interrupted; run the same command to resume",
    ExitCode.UNAVAILABLE: "the store or an output is not available: in use, or the disk is full",
    ExitCode.NOT_VERIFIED: "data is lost: verify found a problem, or a crawl or archived pages are gone",
    ExitCode.BAD_LINES: "finished, but some lines of --seeds are not start URLs and were skipped",
    ExitCode.NO_CRAWL: "verify found a store without any crawl: it is new, or everything in it is lost",
    ExitCode.KEPT: "--again or --fresh has failed: the outputs of the last run were left as they are",
    ExitCode.HELD: "finished, but URLs of patterns that bring nothing new are held back: see shoal release",
    ExitCode.NO_DATA: "no data: every start URL or the log-in failed, or no item where items were declared",
    ExitCode.YIELD_DROPPED: "items out of the range of earlier generations: they stand beside the old ones",
    ExitCode.NO_EXIT: "no proxy works: none did at the start, or none for proxies.patience seconds",
    ExitCode.BUG: "a bug in Shoal; the traceback was written to a file",
    ExitCode.CLOSED_PIPE: "the reader of the output closed the pipe before all of it was written",
}


def exit_code_for(error: ShoalError) -> ExitCode:
    """Return the exit code for an error that Shoal raised on purpose."""
    match error:
        case Interrupted():
            return ExitCode.INTERRUPTED
        case Lost():
            return ExitCode.NOT_VERIFIED
        case NoExit():
            return ExitCode.NO_EXIT
        case Unavailable():
            return ExitCode.UNAVAILABLE
        case ClosedPipe():
            return ExitCode.CLOSED_PIPE
        case _:
            return ExitCode.USAGE
