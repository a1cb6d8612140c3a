"""The end of a generation: everything of a crawl goes, but for what makes its next one cheaper."""

import sqlite3
from collections.abc import Iterable

from shoal.frontier.sqlite.load import id_range


def drop(database: sqlite3.Connection, crawl_id: int, *, finished: bool, forget: Iterable[str]) -> None:
    """Delete a crawl and the checkpoints named, inside a transaction of the caller's; keep its validators."""
    if finished:  # it replaces the generation before; one that did not come to its end only adds to it
        database.execute("DELETE FROM validator WHERE crawl = ?", (crawl_id,))
    # Sorted, so that the index is written from left to right, once, and never during a crawl.
    database.execute(
        "INSERT OR REPLACE INTO validator(crawl, fp, etag, modified, digest, segment, offset, length)"
        " SELECT crawl, fp, etag, modified, digest, segment, offset, length FROM ended"
        " WHERE crawl = ? AND state = 'done' ORDER BY fp",
        (crawl_id,),
    )
    for table in ("request", "parsing", "dead"):
        database.execute(f"DELETE FROM {table} WHERE id BETWEEN ? AND ?", id_range(crawl_id))  # noqa: S608
    for table in ("ended", "attempt", "seen", "lane", "crawl_state"):
        database.execute(f"DELETE FROM {table} WHERE crawl = ?", (crawl_id,))  # noqa: S608
    database.execute("UPDATE crawl SET dropped = 1, paused = 0, counts = '{}' WHERE id = ?", (crawl_id,))
    database.executemany("DELETE FROM checkpoint WHERE name = ?", [(name,) for name in forget])
