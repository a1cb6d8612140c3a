"""Budgets: how many requests of a crawl one host may bring, counted per host for crawls that have one."""

import sqlite3
from collections.abc import Iterable

from shoal.frontier.sqlite.changes import Changes
from shoal.frontier.sqlite.state import CrawlState
from shoal.model.request import Link

_PREFIX = "brought/"  # of the keys under which the counts lie among the crawl's values


def within(crawl: CrawlState, links: Iterable[Link], changes: Changes) -> list[Link]:
    """Keep the links that are known, and of the others as many as their hosts have left."""
    brought, kept = crawl.brought, []
    here: set[int] = set()
    touched: set[str] = set()
    for link in links:
        if link.fingerprint not in crawl.seen and link.fingerprint not in here:
            if brought.get(link.host, 0) >= crawl.terms.host_budget:
                crawl.counts.over_budget += 1
                continue
            brought[link.host] = brought.get(link.host, 0) + 1
            here.add(link.fingerprint)
            touched.add(link.host)
        kept.append(link)
    changes.crawl_state += [(crawl.id, _PREFIX + host, b"%d" % brought[host]) for host in touched]
    changes.crawls.add(crawl)
    return kept


def load_brought(database: sqlite3.Connection, crawl_id: int) -> dict[str, int]:
    """Read back what the hosts of a crawl have brought."""
    rows = database.execute(
        "SELECT key, value FROM crawl_state WHERE crawl = ? AND key >= ? AND key < ?",
        (crawl_id, _PREFIX, _PREFIX + "\U0010ffff"),
    )
    return {key.removeprefix(_PREFIX): int(value) for key, value in rows}
