"""Rows of requests that have ended: deleted many at a time.

A block of the database holds some thirty requests, and they end at about the same time but not in the same
transaction. Deleting each row at once would write the block thirty times. So a transaction only notes the
ids, eight bytes each in one row, and every so often the rows of all of them are deleted, in order. A row
whose id is noted does not exist, whoever reads it.
"""

import sqlite3
from collections.abc import Sequence

from shoal.frontier.sqlite.packing import packed, unpacked

SWEEP_EVERY = 2048  # rows: a few milliseconds' work


class DeferredDeletes:
    def __init__(self, sweep_every: int) -> None:
        self._sweep_every = sweep_every
        self._ids: list[int] = []

    def write(self, database: sqlite3.Connection, ended: Sequence[int], *, sweep: bool) -> None:
        """Note ids of requests that have ended, or delete all that were noted."""
        self._ids += ended
        if sweep or len(self._ids) >= self._sweep_every:
            _delete(database, self._ids)
            self._ids = []
        elif ended:
            database.execute("INSERT INTO spent(ids) VALUES (?)", (packed(ended),))


def spent_ids(database: sqlite3.Connection) -> set[int]:
    return {id for [ids] in database.execute("SELECT ids FROM spent") for id in unpacked(ids)}


def sweep(database: sqlite3.Connection) -> None:
    """Delete what an earlier owner noted."""
    _delete(database, list(spent_ids(database)))


def _delete(database: sqlite3.Connection, ids: Sequence[int]) -> None:
    database.executemany("DELETE FROM request WHERE id = ?", [(id,) for id in sorted(ids)])
    database.execute("DELETE FROM spent")
