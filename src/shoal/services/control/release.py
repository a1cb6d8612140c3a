"""Releasing what a crawl holds back: requests of patterns that were closed as traps."""

import msgspec

from shoal.model.errors import Misconfigured
from shoal.stores.contract.store import Store, select_crawls
from shoal.stores.open import open_store


class ReleasedRequests(msgspec.Struct, frozen=True):
    crawl: str
    patterns: tuple[str, ...]  # that are open again
    released: int  # requests that wait again
    counted: int  # links that were counted and not kept: released pages lead to them again


async def release(dsn: str, crawl: str, pattern: str = "") -> ReleasedRequests:
    """Queue the requests of a crawl that are held back, of one pattern or of all."""
    async with open_store(dsn) as store:
        [name] = await select_crawls(store, crawl)
        totals = await store.crawls.totals(name)
        held = (await store.frontier.counts(name)).held
        closed = tuple(totals.closed)
        if pattern and pattern not in closed:
            raise Misconfigured(f"crawl {name} holds nothing back of {pattern!r}{_known(closed)}")
        patterns = (pattern,) if pattern else closed
        released = await _release(store, name, patterns) if patterns or held else 0
        return ReleasedRequests(name, patterns, released, totals.links.get("held", 0))


async def _release(store: Store, name: str, patterns: tuple[str, ...]) -> int:
    async with store.change([name]) as changes:
        return await changes.release(name, patterns)


def _known(closed: tuple[str, ...]) -> str:
    return f"; closed are: {', '.join(closed[:5])}" if closed else ": no pattern is closed"
