"""`shoal fleet`: a whole fleet on this machine, in one command."""

import logging
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.crawl_options import CrawlOptions
from shoal.cli.input.dead_letter_filters import age
from shoal.cli.input.options import examples, option

if TYPE_CHECKING:
    from shoal.services.autoscale.rules import ScaleRules
    from shoal.services.crawl import CrawlPlan, Decision, Opening, Summary
    from shoal.services.inspect.monitor import Overview

log = logging.getLogger("shoal.progress")

EXAMPLES = examples(
    ("Four workers and a private store; nothing to set up", "shoal fleet -n 4 books.py"),
    ("One to eight workers, as the queue needs them", "shoal fleet --max 8 books.py"),
    ("Resume after Ctrl-C: run the same command", "shoal fleet -n 4 books.py"),
    ("Workers for an existing store", "shoal fleet -n 4 books.py --store redis://queue.example"),
)

LOCAL_DRAIN_S = 30.0  # a worker on this machine starts in a second
LOCAL_SHRINK_S = 20.0
LOG_EVERY_S = 5.0  # between two log lines where there is no terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions(CrawlOptions):
    """The options of `shoal crawl`, and the number of workers."""

    workers: Annotated[
        int, typer.Option("--workers", "-n", metavar="N", min=1, max=1_024, help="Worker processes.")
    ] = 2
    max_workers: Annotated[
        int | None,
        typer.Option(
            "--max",
            metavar="N",
            min=1,
            max=1_024,
            help="Start more workers while the queue needs them, up to N.",
            show_default=False,
        ),
    ] = None
    min_workers: Annotated[
        int | None,
        typer.Option(
            "--min",
            metavar="N",
            min=1,
            max=1_024,
            help="Stop workers that are not needed, down to N, with --max. [dim]Default: 1.[/dim]",
            show_default=False,
        ),
    ] = None
    drain: Annotated[
        str | None,
        option("--drain", "AGE", "The time in which to empty the queue, with --max.", default="30s"),
    ] = None

    def scale_rules(self) -> "ScaleRules | None":
        """Return between which bounds the number of workers follows the load; None: it is fixed."""
        from shoal.model.errors import Misconfigured
        from shoal.services.autoscale.rules import ScaleRules

        if self.max_workers is None:
            if self.min_workers is not None or self.drain is not None:
                raise Misconfigured("--min and --drain need --max: the most workers to run")
            return None
        if (least := self.min_workers or 1) > self.max_workers:
            raise Misconfigured(f"--min {least} is more than --max {self.max_workers}")
        return ScaleRules(
            min=least,
            max=self.max_workers,
            drain_s=age("--drain", self.drain) or LOCAL_DRAIN_S,
            shrink_after_s=LOCAL_SHRINK_S,
        )


def command(options: FleetOptions) -> int:
    """Crawl with several workers on this machine, and watch them.

    Starts a private Valkey in the store's folder unless --store names a fleet's store. The first Ctrl-C
    finishes the requests in progress, the second stops at once; run the same command to resume.
    """
    from shoal.cli.input.crawl_plan import plan_crawl

    plan = plan_crawl(options)
    options.scale_rules()  # raises for bounds that do not fit

    import uvloop

    from shoal.cli.process.exit_codes import ExitCode
    from shoal.cli.process.run_crawl import crawl_exit_code
    from shoal.cli.process.signals import resume_command
    from shoal.cli.views.decision import nothing_lines
    from shoal.cli.views.output import print_json, print_lines, print_message
    from shoal.cli.views.summary import failure_reason, summary_lines
    from shoal.services.crawl import NothingToDo, RunAction, decision_json, summary_json

    resume = resume_command(sys.argv[1:])
    try:
        summary = uvloop.run(_run(plan, options, resume))
    except NothingToDo as complete:
        if options.json:
            print_json(decision_json(complete.decision))
        elif not options.quiet:
            print_lines(nothing_lines(complete.decision))
        return ExitCode.USAGE if complete.decision.action is RunAction.REFUSE else ExitCode.FINISHED
    code = crawl_exit_code(summary, max_dead=plan.settings.crawl.max_dead, listed=plan.listed)
    if options.json:
        print_json({**summary_json(summary, code=code), "bytes": None, "workers": options.workers})
    elif not options.quiet:
        print_lines(summary_lines(summary, resume=resume))
    if code and (reason := failure_reason(summary, ())):
        print_message(reason)
    return code


async def _run(plan: "CrawlPlan", options: FleetOptions, resume: str) -> "Summary":
    import os
    import time
    from contextlib import nullcontext

    from shoal.cli.process.keys import HINT, can_read_keys, quit_key
    from shoal.cli.process.log_format import start_logging
    from shoal.cli.process.relay_log import WORKER_LOG, relay
    from shoal.cli.process.signals import interrupt, stop_on_signals
    from shoal.cli.views.decision import decision_lines
    from shoal.cli.views.display import LiveScreen, LogLines, NoDisplay, can_draw
    from shoal.cli.views.summary import opening_lines
    from shoal.cli.views.top_screen import TopScreen
    from shoal.services.crawl import Stop
    from shoal.services.local_fleet import run_fleet

    stop = Stop()
    scale = options.scale_rules()
    silent = options.silent
    verbose, log_format = options.verbose, options.log_format
    start_logging(verbose=verbose, quiet=silent, log_format=log_format, lost=stop.drain.set)
    plain = not verbose and log_format == "text"
    draws = not silent and plain and sys.stderr.isatty() and can_draw(os.environ)
    flags = (f"-{'v' * min(verbose, 2)}", *WORKER_LOG) if verbose else ()
    display: NoDisplay | LiveScreen = NoDisplay()
    if draws:
        display = LiveScreen(stop.drain.set, TopScreen(HINT if can_read_keys() else ""))
    elif not silent:
        display = LogLines(stop.drain.set)
    due = time.monotonic() + LOG_EVERY_S

    def show(overview: "Overview") -> None:
        nonlocal due
        if draws:
            display.show(overview)
        elif not silent and time.monotonic() >= due:
            due = time.monotonic() + LOG_EVERY_S
            log.info("fleet.progress", extra=progress_fields(overview))

    def announce(opening: "Opening") -> None:
        for line in opening_lines(opening, plan.listed):
            display.message(line)

    def explain(decision: "Decision") -> None:
        for line in decision_lines(decision):
            display.message(line)

    keys = quit_key(interrupt) if draws else nullcontext()
    with display, stop_on_signals(stop, display.message, resume=resume), keys:
        return await run_fleet(
            plan,
            workers=options.workers if scale is None else scale.min,
            scale=scale,
            stop=stop,
            opened=announce,
            watch=show,
            say=display.message,
            worker_flags=flags,
            follow=relay if verbose else None,
            decided=explain,
        )


def progress_fields(overview: "Overview") -> dict[str, object]:
    """Return the progress of a fleet as fields of a log line."""
    crawls = overview.status.crawls
    fleet = overview.status.fleet
    states = crawls[0].counts if crawls else {}
    sums = {state: sum(crawl.counts[state] for crawl in crawls) for state in states}
    return {
        "workers": len(fleet.workers) if fleet else 0,
        "requests_per_s": round(overview.rate or 0.0, 1),
        **{state: number for state, number in sums.items() if number},
    }
