"""Run a planned crawl for the terminal: display, signals, summary, exit code."""

import gc
import os
import sys
from dataclasses import dataclass

from shoal.cli.process.exit_codes import ExitCode
from shoal.cli.process.log_format import start_logging
from shoal.cli.process.signals import stop_on_signals
from shoal.cli.views.display import Display, choose_display
from shoal.cli.views.output import print_json, print_lines, print_message
from shoal.cli.views.summary import failure_reason, opening_lines, summary_lines
from shoal.services.control.dead_letters import DeadLetter
from shoal.services.crawl import CrawlPlan, Ending, Opening, SeedList, Stop, Summary, run_crawl, summary_json


@dataclass(frozen=True, slots=True)
class DisplayOptions:
    quiet: bool = False
    json: bool = False
    verbose: int = 0

    @property
    def silent(self) -> bool:
        return self.quiet or self.json


def run_plan(plan: CrawlPlan, display: DisplayOptions, *, resume: str) -> ExitCode:
    """Run a planned crawl with a display and signals; `resume` is the command that resumes it."""
    import uvloop

    _tune_garbage_collector()
    summary, letters = uvloop.run(_run(plan, display, resume))
    code = crawl_exit_code(summary, max_dead=plan.settings.crawl.max_dead, listed=plan.listed)
    _print_summary(summary, display, code, resume, to_stderr="-" in plan.outputs)
    reason = failure_reason(summary, letters)
    if reason and (code is not ExitCode.FINISHED or not display.silent):
        print_message(reason)
    return code


def crawl_exit_code(summary: Summary, *, max_dead: int | None, listed: SeedList | None = None) -> ExitCode:
    """Return the exit code of a command that ran a crawl."""
    counts = summary.snapshot.counts
    if summary.ending is Ending.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if summary.max_dead_exceeded:
        return ExitCode.DEAD_LETTERS
    # Not one page and all requests given up is a failure, unless --max-dead allows dead letters.
    if max_dead is None and counts.get("dead") and not counts.get("done"):
        return ExitCode.DEAD_LETTERS
    return ExitCode.BAD_LINES if listed is not None and listed.bad else ExitCode.FINISHED


def _tune_garbage_collector() -> None:
    """Run the cyclic collector a tenth as often, and never over the objects that exist now.

    A page makes hundreds of objects and hardly a cycle: with the defaults, collecting took 5 % of the time.
    """
    gc.freeze()
    gc.set_threshold(7_000, 20, 50)


def _print_summary(
    summary: Summary, display: DisplayOptions, code: ExitCode, resume: str, *, to_stderr: bool
) -> None:
    """Print the summary; on standard error if standard output carries the items."""
    stream = sys.stderr if to_stderr else sys.stdout
    if display.json:
        print_json(summary_json(summary, code=code), stream)
    elif not display.quiet:
        print_lines(summary_lines(summary, resume=resume), stream)


async def _run(plan: CrawlPlan, options: DisplayOptions, resume: str) -> tuple[Summary, list[DeadLetter]]:
    stop = Stop()
    start_logging(verbose=options.verbose, quiet=options.silent, lost=stop.drain.set)
    display: Display = choose_display(
        silent=options.silent, terminal=sys.stderr.isatty(), environ=os.environ, lost=stop.drain.set
    )

    def announce(opening: Opening) -> None:
        for line in opening_lines(opening, plan.listed):
            display.message(line)

    with display, stop_on_signals(stop, display.message, resume=resume):
        show = None if options.silent else display.show
        result = await run_crawl(plan, stop=stop, opened=announce, watch=show)
    return result.summary, [] if result.dead_letter is None else [result.dead_letter]
