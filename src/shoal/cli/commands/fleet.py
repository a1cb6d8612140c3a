"""`shoal fleet`: a whole fleet on this machine, in one command."""

import inspect
import logging
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.commands.crawl import command as crawl_command
from shoal.cli.input.options import examples

if TYPE_CHECKING:
    from shoal.engine.plan import CrawlPlan
    from shoal.engine.snapshot import Opening, Summary
    from shoal.services.inspect.monitor import Overview

log = logging.getLogger("shoal.progress")

EXAMPLES = examples(
    ("Four workers and a private store; nothing to set up", "shoal fleet -n 4 books.py"),
    ("Go on after Ctrl-C: the same again", "shoal fleet -n 4 books.py"),
    ("Workers for a store that is there", "shoal fleet -n 4 books.py --store redis://queue.example"),
)

LINE_EVERY = 5.0  # seconds between two log lines where there is no terminal

Workers = Annotated[int, typer.Option("--workers", "-n", metavar="N", min=1, help="Worker processes.")]


def command(**given: Any) -> int:
    """Crawl with several workers on this machine, and watch them.

    Starts a private Valkey in the store's folder unless --store names a fleet's store. The first Ctrl-C
    finishes what is in hand, the second ends at once; the same command goes on.
    """
    from shoal.cli.input.crawl_options import asked_of, plan_of

    workers = given.pop("workers")
    plan = plan_of(asked_of(given))

    import uvloop

    from shoal.cli.views.output import put, put_json, tell
    from shoal.cli.views.summary import again, exit_of, shortcoming, summary_json, summary_lines

    resume = again(sys.argv[1:])
    silent = given["quiet"] or given["json"]
    summary = uvloop.run(_run(plan, workers, resume, verbose=given["verbose"], silent=silent))
    code = exit_of(summary, max_dead=plan.settings.crawl.max_dead, listed=plan.listed)
    if given["json"]:
        put_json({**summary_json(summary, code=code), "bytes": None, "workers": workers})
    elif not given["quiet"]:
        put("\n".join(summary_lines(summary, again=resume)))
    if code and (complaint := shortcoming(summary, ())):
        tell(complaint)
    return code


# What `shoal crawl` takes, and how many workers there are to be.
_taken = inspect.signature(crawl_command)
command.__signature__ = _taken.replace(  # type: ignore[attr-defined]
    parameters=[
        *_taken.parameters.values(),
        inspect.Parameter("workers", inspect.Parameter.KEYWORD_ONLY, default=2, annotation=Workers),
    ]
)


async def _run(plan: "CrawlPlan", workers: int, resume: str, *, verbose: int, silent: bool) -> "Summary":
    import os
    import time

    from shoal.cli.process.log_format import start_logging
    from shoal.cli.process.signals import stopped_by_signals
    from shoal.cli.views.summary import opening_lines
    from shoal.cli.views.top_screen import TopScreen
    from shoal.cli.views.watch import LiveScreen, LogLines, NoDisplay, can_draw
    from shoal.engine.plan import Stop
    from shoal.services.local_fleet import run_fleet

    stop = Stop()
    start_logging(verbose=verbose, quiet=silent, lost=stop.drain.set)
    draws = not silent and sys.stderr.isatty() and can_draw(os.environ)
    watch: NoDisplay | LiveScreen = NoDisplay()
    if draws:
        watch = LiveScreen(stop.drain.set, TopScreen())
    elif not silent:
        watch = LogLines(stop.drain.set)
    due = time.monotonic() + LINE_EVERY

    def show(overview: "Overview") -> None:
        nonlocal due
        if draws:
            watch.show(overview)
        elif not silent and time.monotonic() >= due:
            due = time.monotonic() + LINE_EVERY
            log.info("fleet.progress", extra=progress(overview))

    def announce(opening: "Opening") -> None:
        for line in opening_lines(opening, plan.listed):
            watch.say(line)

    with watch, stopped_by_signals(stop, watch.say, resume=resume):
        return await run_fleet(
            plan,
            workers=workers,
            stop=stop,
            opened=announce,
            watch=show,
            say=watch.say,
        )


def progress(overview: "Overview") -> dict[str, object]:
    """Say how a fleet stands in the fields of one log line."""
    crawls = overview.status.crawls
    fleet = overview.status.fleet
    states = crawls[0].counts if crawls else {}
    sums = {state: sum(crawl.counts[state] for crawl in crawls) for state in states}
    return {
        "workers": len(fleet.workers) if fleet else 0,
        "requests_per_s": round(overview.rate or 0.0, 1),
        **{state: number for state, number in sums.items() if number},
    }
