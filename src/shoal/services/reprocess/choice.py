"""Which crawl a command reprocesses, and where its result must not go."""

from shoal.model.errors import Misconfigured
from shoal.sinks.names import canonical_name
from shoal.stores.contract.pages import CrawlPages, PageFilter
from shoal.stores.contract.store import Store

__all__ = ["PageFilter", "choose_crawl", "refuse_own_output"]


async def choose_crawl(store: Store, crawl: str, *, spider: str = "", option: str = "--crawl") -> str:
    """Return the named crawl; without a name, the only one, or the spider's.

    The error says which `option` of the command names a crawl.
    """
    names = await store.crawls.names()
    wanted = crawl or (names[0] if len(names) == 1 else spider)
    if wanted in names:
        return wanted
    problem = f"no crawl named {wanted!r}" if wanted else f"{len(names)} crawls"
    raise Misconfigured(
        f"the store has {problem}; {option} chooses one of: {', '.join(names) or 'none at all'}"
    )


async def refuse_own_output(pages: CrawlPages, out: str) -> None:
    """Raise `Misconfigured` if the crawl itself writes to `out`."""
    if canonical_name(out) in await pages.outputs():
        raise Misconfigured(f"output {canonical_name(out)}: the crawl itself writes there; name another one")
