"""Whether a crawl has finished: nothing is left to do, or its limit of pages is reached."""

from shoal.engine.runs.facts import KEY, CommandFacts
from shoal.frontier.results import Counts
from shoal.model.exits.spending import Spending
from shoal.model.format import plural
from shoal.stores.contract.store import Store


async def has_finished(store: Store, crawl: str) -> bool:
    counts = await store.frontier.counts(crawl)
    command = CommandFacts.load(await store.frontier.value(crawl, KEY))
    if not has_ended(counts, 0 if command is None else command.max_pages):
        return False
    return not store.capabilities.shared or not await store.outputs.unwritten_pages(crawl)


def has_ended(counts: Counts, max_pages: int) -> bool:
    """Return whether no more requests of a crawl will be sent; one that has accepted none has not begun."""
    states = counts.by_state()
    limited = bool(max_pages) and counts.pages >= max_pages and not states["leased"] + states["parsing"]
    return counts.accepted > 0 and (not counts.open or limited)


def why_stopped(counts: Counts, command: CommandFacts | None, spending: Spending | None) -> str:
    """Return why a crawl sends nothing although requests wait, and what continues it; empty: it has not."""
    if command is None or not counts.open or counts.leased or counts.parsing:
        return ""
    waiting = f"{plural(counts.open, 'request')} {'waits' if counts.open == 1 else 'wait'}"
    if command.max_pages and counts.pages >= command.max_pages:
        pages = plural(command.max_pages, "page")
        return f"it has the {pages} of --max-pages, and {waiting}: a larger one continues it"
    if command.stops_at_budget and spending is not None and spending.share >= 1:
        return f"its budget for exits is spent, and {waiting}: a larger crawl.budget continues it"
    return ""
