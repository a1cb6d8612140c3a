"""Whether a crawl has finished: nothing is left to do, or its limit of pages is reached."""

from shoal.engine.runs.facts import KEY, CommandFacts
from shoal.frontier.results import Counts
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
