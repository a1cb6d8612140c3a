"""`shoal submit`: hand a crawl to a fleet. It takes what `shoal crawl` takes, and fetches nothing."""

import sys
from typing import TYPE_CHECKING, Any

from shoal.cli.crawl import like_crawl
from shoal.cli.figures import count, counted
from shoal.cli.options import examples

if TYPE_CHECKING:
    from shoal.runtime.fleet.submit import Submitted
    from shoal.runtime.plan import CrawlPlan

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
    from shoal.cli.planning import asked_of, plan_of

    plan = plan_of(asked_of(given))

    import uvloop

    from shoal.cli.exits import Exit
    from shoal.cli.log import start_logging
    from shoal.cli.output import put, put_json
    from shoal.cli.report import again

    start_logging(verbose=given["verbose"], quiet=given["quiet"] or given["json"])
    submitted = uvloop.run(_submit(plan, resume=again(sys.argv[1:])))
    if given["json"]:
        put_json(_json(submitted))
    elif not given["quiet"]:
        put(_text(submitted))
    return Exit.BAD_LINES if plan.listed is not None and plan.listed.bad else Exit.FINISHED


async def _submit(plan: "CrawlPlan", *, resume: str) -> "Submitted":
    from contextlib import nullcontext

    from shoal.cli.output import tell
    from shoal.cli.signals import stopped_by_signals
    from shoal.runtime.fleet.submit import submit
    from shoal.runtime.plan import Stop
    from shoal.stores.redis import RedisStore, parse

    stop = Stop()
    async with RedisStore.open(parse(plan.settings.store)) as store:
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
