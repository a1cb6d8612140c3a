"""Run a planned crawl for the terminal: display, signals, summary, exit code."""

import gc
import os
import sys
from contextlib import nullcontext

import msgspec

from shoal.cli.process.exit_codes import ExitCode
from shoal.cli.process.keys import HINT, can_read_keys, quit_key
from shoal.cli.process.log_format import start_logging
from shoal.cli.process.signals import interrupt, stop_on_signals
from shoal.cli.views.decision import decision_lines, nothing_lines
from shoal.cli.views.display import Display, LiveScreen, choose_display
from shoal.cli.views.output import print_json, print_lines, print_message
from shoal.cli.views.summary import failure_reason, opening_lines, summary_lines
from shoal.services.crawl import (
    CrawlPlan,
    CrawlResult,
    Decision,
    Ending,
    Opening,
    RunAction,
    SeedList,
    Stop,
    Summary,
    run_crawl,
    summary_json,
)


class DisplayOptions(msgspec.Struct, frozen=True):
    quiet: bool = False
    json: bool = False
    verbose: int = 0
    log_format: str = "text"

    @property
    def silent(self) -> bool:
        return self.quiet or self.json


def run_plan(
    plan: CrawlPlan, display: DisplayOptions, *, resume: str, metrics: str | None = None
) -> ExitCode:
    """Run a planned crawl with a display and signals; `resume` is the command that resumes it.

    `metrics`: where to serve figures while it runs.
    """
    import uvloop

    _tune_garbage_collector()
    result = uvloop.run(_run(plan, display, resume, metrics))
    summary, letters = result.summary, [] if result.dead_letter is None else [result.dead_letter]
    if plan.dry_run and result.decision is not None:
        code = ExitCode.USAGE if result.decision.action is RunAction.REFUSE else ExitCode.FINISHED
        _print_summary(result, display, code, resume, to_stderr=False)
        return code
    code = crawl_exit_code(summary, max_dead=plan.settings.crawl.max_dead, listed=plan.listed)
    _print_summary(result, display, code, resume, to_stderr="-" in plan.outputs)
    reason = failure_reason(summary, letters)
    if reason and (code is not ExitCode.FINISHED or not display.silent):
        print_message(reason)
    return code


def crawl_exit_code(summary: Summary, *, max_dead: int | None, listed: SeedList | None = None) -> ExitCode:
    """Return the exit code of a command that ran a crawl."""
    counts = summary.snapshot.counts
    if summary.ending is Ending.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if summary.ending is Ending.NO_EXIT:
        return ExitCode.NO_EXIT
    if summary.dropped:
        return ExitCode.YIELD_DROPPED
    if summary.no_data:
        return ExitCode.NO_DATA
    if summary.kept:
        return ExitCode.KEPT
    if summary.max_dead_exceeded:
        return ExitCode.DEAD_LETTERS
    # Not one page is a failure: start URLs that do not exist, that robots.txt disallows, or that were given
    # up, unless --max-dead allows dead letters.
    without_page = counts.get("gone") or counts.get("filtered") or (max_dead is None and counts.get("dead"))
    if without_page and not counts.get("done"):
        return ExitCode.NO_DATA
    if listed is not None and listed.bad:
        return ExitCode.BAD_LINES
    ended = summary.ending in (Ending.FINISHED, Ending.COMPLETE)
    return ExitCode.HELD if ended and counts.get("held") else ExitCode.FINISHED


def _tune_garbage_collector() -> None:
    """Run the cyclic collector a tenth as often, and never over the objects that exist now.

    A page makes hundreds of objects and hardly a cycle: with the defaults, collecting took 5 % of the time.
    """
    gc.freeze()
    gc.set_threshold(7_000, 20, 50)


def _print_summary(
    result: CrawlResult, display: DisplayOptions, code: ExitCode, resume: str, *, to_stderr: bool
) -> None:
    """Print the summary; on standard error if standard output carries the items."""
    stream = sys.stderr if to_stderr else sys.stdout
    if display.json:
        print_json(summary_json(result.summary, code=code, decision=result.decision), stream)
    elif not display.quiet and result.decision is not None:
        print_lines(nothing_lines(result.decision), stream)
    elif not display.quiet:
        print_lines(summary_lines(result.summary, resume=resume), stream)


async def _run(plan: CrawlPlan, options: DisplayOptions, resume: str, metrics: str | None) -> CrawlResult:
    stop = Stop()
    start_logging(
        verbose=options.verbose, quiet=options.silent, log_format=options.log_format, lost=stop.drain.set
    )
    # Lines that scroll by and a screen that stays do not go together.
    terminal = sys.stderr.isatty() and not options.verbose and options.log_format == "text"
    display: Display = choose_display(
        silent=options.silent,
        terminal=terminal,
        environ=os.environ,
        lost=stop.drain.set,
        hint=HINT if can_read_keys() else "",
    )

    def announce(opening: Opening) -> None:
        for line in opening_lines(opening, plan.listed):
            display.message(line)

    def explain(decision: Decision) -> None:
        for line in decision_lines(decision):
            display.message(line)

    keys = quit_key(interrupt) if isinstance(display, LiveScreen) else nullcontext()
    with display, stop_on_signals(stop, display.message, resume=resume), keys:
        show = None if options.silent else display.show
        return await run_crawl(plan, stop=stop, opened=announce, watch=show, decided=explain, metrics=metrics)
