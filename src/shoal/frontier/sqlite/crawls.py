"""The end of a generation: everything of a crawl goes, but for what makes its next one cheaper, if any."""

import sqlite3
from collections.abc import Iterable

from shoal.frontier.sqlite.load import id_range


def drop(
    database: sqlite3.Connection, crawl_id: int, *, finished: bool, forget: Iterable[str], entirely: bool
) -> None:
    """Delete a crawl and the checkpoints named, inside a transaction of the caller's.

    Its validators are kept, unless it is to go `entirely`.
    """
    if entirely:
        _delete(database, crawl_id, forget)
        database.execute("DELETE FROM validator WHERE crawl = ?", (crawl_id,))
        database.execute("DELETE FROM crawl WHERE id = ?", (crawl_id,))
        return
    if finished:  # it replaces the generation before; one that did not come to its end only adds to it
        database.execute("DELETE FROM validator WHERE crawl = ?", (crawl_id,))
    # Sorted, so that the index is written from left to right, once, and never during a crawl.
    database.execute(
        "INSERT OR REPLACE INTO validator(crawl, fp, etag, modified, digest, segment, offset, length)"
        " SELECT crawl, fp, etag, modified, digest, segment, offset, length FROM ended"
        " WHERE crawl = ? AND state = 'done' ORDER BY fp",
        (crawl_id,),
    )
    _delete(database, crawl_id, forget)
    database.execute("UPDATE crawl SET dropped = 1, paused = 0, counts = '{}' WHERE id = ?", (crawl_id,))


def _delete(database: sqlite3.Connection, crawl_id: int, forget: Iterable[str]) -> None:
    for table in ("request", "parsing", "dead"):
        database.execute(f"DELETE FROM {table} WHERE id BETWEEN ? AND ?", id_range(crawl_id))  # noqa: S608
    for table in ("ended", "attempt", "seen", "lane", "crawl_state"):
        database.execute(f"DELETE FROM {table} WHERE crawl = ?", (crawl_id,))  # noqa: S608
    database.executemany("DELETE FROM checkpoint WHERE name = ?", [(name,) for name in forget])
