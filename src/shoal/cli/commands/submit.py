"""`shoal submit`: hand a crawl to a fleet. It takes what `shoal crawl` takes, and fetches nothing."""

import sys
from typing import TYPE_CHECKING, Any

from shoal.cli.commands.crawl import like_crawl
from shoal.cli.input.options import examples
from shoal.cli.views.format import count, counted

if TYPE_CHECKING:
    from shoal.engine.plan import CrawlPlan
    from shoal.services.submit import Submitted

EXAMPLES = examples(
    ("A spider; its file travels with it", "shoal submit books.py --store redis://queue.example"),
    ("A site, into a database", "shoal submit https://a.example/ --store redis://queue.example"),
    ("Then, on any machine", "shoal worker --store redis://queue.example"),
)


@like_crawl
def command(**given: Any) -> int:
    """Hand a crawl to a fleet, with its settings, outputs and start URLs.

    Workers take it up by themselves. Submitting the same again adds nothing twice. A store that is full is
    waited for, while workers make room.
    """
    from shoal.cli.input.crawl_options import asked_of, plan_of

    plan = plan_of(asked_of(given))

    import uvloop

    from shoal.cli.process.exit_codes import ExitCode
    from shoal.cli.process.log_format import start_logging
    from shoal.cli.views.output import put, put_json
    from shoal.cli.views.summary import again

    start_logging(verbose=given["verbose"], quiet=given["quiet"] or given["json"])
    submitted = uvloop.run(_submit(plan, resume=again(sys.argv[1:])))
    if given["json"]:
        put_json(_json(submitted))
    elif not given["quiet"]:
        put(_text(submitted))
    return ExitCode.BAD_LINES if plan.listed is not None and plan.listed.bad else ExitCode.FINISHED


async def _submit(plan: "CrawlPlan", *, resume: str) -> "Submitted":
    from contextlib import nullcontext

    from shoal.cli.process.signals import stopped_by_signals
    from shoal.cli.views.output import tell
    from shoal.engine.plan import Stop
    from shoal.redis_client import RedisClient, parse
    from shoal.services.submit import submit

    stop = Stop()
    async with RedisClient.open(parse(plan.settings.store)) as store:
        with nullcontext() if plan.listed is None else stopped_by_signals(stop, tell, resume=resume):
            submitted = await submit(store, plan, stop, full=tell)
        await store.sync()  # what is said to be submitted cannot be forgotten any more
        return submitted


def _json(submitted: "Submitted") -> dict[str, object]:
    return {
        "crawl": submitted.crawl,
        "resumed": submitted.resumed,
        "changed": submitted.changed,
        "added": submitted.added,
        "known": submitted.known,
        "outputs": list(submitted.outputs),
        "version": submitted.version,
    }


def _text(submitted: "Submitted") -> str:
    what = "goes on" if submitted.resumed else "is new"
    known = f", {count(submitted.known)} known already" if submitted.known else ""
    return "\n".join(
        [
            f"crawl {submitted.crawl} {what}: {counted(submitted.added, 'start URL')} added{known}",
            f"items go to {', '.join(submitted.outputs)}",
            "Next: shoal worker   (on any machine, with the same --store)",
        ]
    )
