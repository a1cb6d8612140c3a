"""`shoal fleet`: a whole fleet on this machine, in one command."""

import logging
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.crawl_options import CrawlOptions
from shoal.cli.input.options import examples

if TYPE_CHECKING:
    from shoal.services.crawl import CrawlPlan, Opening, Summary
    from shoal.services.inspect.monitor import Overview

log = logging.getLogger("shoal.progress")

EXAMPLES = examples(
    ("Four workers and a private store; nothing to set up", "shoal fleet -n 4 books.py"),
    ("Resume after Ctrl-C: run the same command", "shoal fleet -n 4 books.py"),
    ("Workers for an existing store", "shoal fleet -n 4 books.py --store redis://queue.example"),
)

LOG_EVERY_S = 5.0  # between two log lines where there is no terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions(CrawlOptions):
    """The options of `shoal crawl`, and the number of workers."""

    workers: Annotated[
        int, typer.Option("--workers", "-n", metavar="N", min=1, max=1_024, help="Worker processes.")
    ] = 2


def command(options: FleetOptions) -> int:
    """Crawl with several workers on this machine, and watch them.

    Starts a private Valkey in the store's folder unless --store names a fleet's store. The first Ctrl-C
    finishes the requests in progress, the second stops at once; run the same command to resume.
    """
    from shoal.cli.input.crawl_plan import plan_crawl

    plan = plan_crawl(options)

    import uvloop

    from shoal.cli.process.run_crawl import crawl_exit_code
    from shoal.cli.process.signals import resume_command
    from shoal.cli.views.output import print_json, print_lines, print_message
    from shoal.cli.views.summary import failure_reason, summary_lines
    from shoal.services.crawl import summary_json

    resume = resume_command(sys.argv[1:])
    summary = uvloop.run(_run(plan, options, resume))
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

    from shoal.cli.process.log_format import start_logging
    from shoal.cli.process.signals import stop_on_signals
    from shoal.cli.views.display import LiveScreen, LogLines, NoDisplay, can_draw
    from shoal.cli.views.summary import opening_lines
    from shoal.cli.views.top_screen import TopScreen
    from shoal.services.crawl import Stop
    from shoal.services.local_fleet import run_fleet

    stop = Stop()
    silent = options.silent
    start_logging(verbose=options.verbose, quiet=silent, lost=stop.drain.set)
    draws = not silent and sys.stderr.isatty() and can_draw(os.environ)
    display: NoDisplay | LiveScreen = NoDisplay()
    if draws:
        display = LiveScreen(stop.drain.set, TopScreen())
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

    with display, stop_on_signals(stop, display.message, resume=resume):
        return await run_fleet(
            plan,
            workers=options.workers,
            stop=stop,
            opened=announce,
            watch=show,
            say=display.message,
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
