"""Runs a planned crawl for the command line: display, signals, summary, exit code."""

import gc
import os
import sys
from dataclasses import dataclass

from shoal.cli.process.exit_codes import ExitCode
from shoal.cli.process.log_format import start_logging
from shoal.cli.process.signals import stopped_by_signals
from shoal.cli.views.output import json_text, put, tell
from shoal.cli.views.summary import exit_of, opening_lines, shortcoming, summary_json, summary_lines
from shoal.cli.views.watch import Watch, choose_watch
from shoal.services.control.dead_letters import DeadLetter, DeadLetterFilter, dead_letters
from shoal.services.crawl import CrawlPlan, Opening, Stop, Summary, run_crawl
from shoal.stores.address import is_redis


@dataclass(frozen=True, slots=True)
class Shown:
    """How much of it to show."""

    quiet: bool = False
    json: bool = False
    verbose: int = 0

    @property
    def silent(self) -> bool:
        return self.quiet or self.json


def run_plan(plan: CrawlPlan, shown: Shown, *, resume: str) -> ExitCode:
    """Run a planned crawl with a display and signals; `resume` is the command that would go on with it."""
    import uvloop

    _calm_collector()
    summary, letters = uvloop.run(_watched(plan, shown, resume))
    code = exit_of(summary, max_dead=plan.settings.crawl.max_dead, listed=plan.listed)
    _tell_results(summary, shown, code, resume, aside="-" in plan.outputs)
    complaint = shortcoming(summary, letters)
    if complaint and (code is not ExitCode.FINISHED or not shown.silent):
        tell(complaint)
    return code


def _calm_collector() -> None:
    """Let the cyclic collector run a tenth as often, and never over what was there at the start.

    A page makes hundreds of objects and hardly a cycle: by default, looking for some took 5 % of the time.
    """
    gc.freeze()
    gc.set_threshold(7_000, 20, 50)


def _tell_results(summary: Summary, shown: Shown, code: ExitCode, resume: str, *, aside: bool) -> None:
    """Print the summary: to standard error if the items have standard output for themselves."""
    if shown.json:
        text = json_text(summary_json(summary, code=code))
    elif shown.quiet:
        return
    else:
        text = "\n".join(summary_lines(summary, again=resume))
    put(text, sys.stderr if aside else sys.stdout)


async def _watched(plan: CrawlPlan, shown: Shown, resume: str) -> tuple[Summary, list[DeadLetter]]:
    stop = Stop()
    start_logging(verbose=shown.verbose, quiet=shown.silent, lost=stop.drain.set)
    watch: Watch = choose_watch(
        silent=shown.silent, terminal=sys.stderr.isatty(), environ=os.environ, lost=stop.drain.set
    )

    def announce(opening: Opening) -> None:
        for line in opening_lines(opening, plan.listed):
            watch.say(line)

    with watch, stopped_by_signals(stop, watch.say, resume=resume):
        show = None if shown.silent else watch.show
        summary = await run_crawl(plan, stop=stop, opened=announce, watch=show)
    if is_redis(plan.settings.store) or summary.snapshot.counts.get("done"):
        return summary, []
    return summary, await dead_letters(summary.store, DeadLetterFilter(summary.snapshot.crawl, limit=1))
