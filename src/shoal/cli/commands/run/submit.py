"""`shoal submit`: add a crawl to a fleet. It takes the options of `shoal crawl` and fetches nothing."""

import sys
from typing import TYPE_CHECKING

from shoal.cli.input.crawl_options import CrawlOptions
from shoal.cli.input.options import examples
from shoal.cli.views.format import count, plural
from shoal.model.errors import Misconfigured

if TYPE_CHECKING:
    from shoal.services.crawl import CrawlPlan, Decision
    from shoal.services.submit import Submitted

EXAMPLES = examples(
    ("A spider; its file is stored with the crawl", "shoal submit books.py --store redis://queue.example"),
    (
        "A site, into a database",
        "shoal submit https://a.example/ --store redis://queue.example --out postgresql://db/shop",
    ),
    ("Then, on any machine", "shoal worker --store redis://queue.example"),
)


def command(options: CrawlOptions) -> int:
    """Submit a crawl to a fleet, with its settings, outputs and start URLs.

    Workers start on it by themselves. Submitting the same crawl again adds nothing twice. If the store is
    full, the command waits until workers have freed memory.
    """
    from shoal.cli.input.crawl_plan import plan_crawl

    if options.proxy:
        raise Misconfigured("--proxy: workers use their own exits: give it to shoal worker")
    plan = plan_crawl(options)

    import uvloop

    from shoal.cli.process.exit_codes import ExitCode
    from shoal.cli.process.log_format import start_logging
    from shoal.cli.process.signals import resume_command
    from shoal.cli.views.decision import nothing_lines
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.crawl import NothingToDo, RunAction, decision_json
    from shoal.services.submit import submitted_json

    start_logging(verbose=options.verbose, quiet=options.silent, log_format=options.log_format)
    try:
        submitted = uvloop.run(_submit(plan, resume=resume_command(sys.argv[1:]), silent=options.silent))
    except NothingToDo as complete:
        if options.json:
            print_json(decision_json(complete.decision))
        elif not options.quiet:
            print_lines(nothing_lines(complete.decision))
        return ExitCode.USAGE if complete.decision.action is RunAction.REFUSE else ExitCode.FINISHED
    if options.json:
        print_json(submitted_json(submitted))
    elif not options.quiet:
        print_lines(_lines(submitted))
    return ExitCode.BAD_LINES if plan.listed is not None and plan.listed.bad else ExitCode.FINISHED


async def _submit(plan: "CrawlPlan", *, resume: str, silent: bool) -> "Submitted":
    from contextlib import nullcontext

    from shoal.cli.process.signals import stop_on_signals
    from shoal.cli.views.decision import decision_lines
    from shoal.cli.views.output import print_message
    from shoal.services.crawl import Stop
    from shoal.services.submit import submit_plan

    stop = Stop()
    # Only a list of start URLs takes long enough to be worth a clean stop.
    signals = nullcontext() if plan.listed is None else stop_on_signals(stop, print_message, resume=resume)

    def explain(decision: "Decision") -> None:
        for line in decision_lines(decision):
            print_message(line)

    decided = None if silent else explain
    return await submit_plan(plan, stop, full=print_message, during=signals, decided=decided)


def _lines(submitted: "Submitted") -> list[str]:
    state = "resumed" if submitted.resumed else "created"
    known = f", {count(submitted.known)} already known" if submitted.known else ""
    return [
        f"crawl {submitted.crawl} {state}: {plural(submitted.added, 'start URL')} added{known}",
        f"items go to {', '.join(submitted.outputs)}",
        "Next: shoal worker   (on any machine, with the same --store)",
    ]
