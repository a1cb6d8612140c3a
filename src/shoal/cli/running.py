"""Runs a planned crawl for the command line: display, signals, summary, exit code."""

import os
import sys
from dataclasses import dataclass

from shoal.cli.exits import Exit
from shoal.cli.log import start_logging
from shoal.cli.output import put, put_json
from shoal.cli.report import exit_of, summary_json, summary_lines
from shoal.cli.signals import stopped_by_signals
from shoal.cli.watch import Watch, choose_watch
from shoal.runtime.crawl import crawl
from shoal.runtime.plan import CrawlPlan, Stop
from shoal.runtime.snapshot import Summary


@dataclass(frozen=True, slots=True)
class Shown:
    """How much of it to show."""

    quiet: bool = False
    json: bool = False
    verbose: int = 0


def run_plan(plan: CrawlPlan, shown: Shown, *, resume: str) -> Exit:
    """Run a planned crawl with a display and signals; `resume` is the command that would go on with it."""
    import uvloop

    summary = uvloop.run(_watched(plan, shown, resume))
    code = exit_of(summary, max_dead=plan.settings.crawl.max_dead)
    if shown.json:
        put_json(summary_json(summary, code=code))
    elif not shown.quiet:
        put("\n".join(summary_lines(summary, again=resume)))
    return code


async def _watched(plan: CrawlPlan, shown: Shown, resume: str) -> Summary:
    stop = Stop()
    start_logging(verbose=shown.verbose, quiet=shown.quiet or shown.json, lost=stop.drain.set)
    watch: Watch = choose_watch(
        silent=shown.quiet or shown.json,
        terminal=sys.stderr.isatty(),
        environ=os.environ,
        lost=stop.drain.set,
    )
    with watch, stopped_by_signals(stop, watch.say, resume=resume):
        return await crawl(plan, stop=stop, watch=watch.show)
