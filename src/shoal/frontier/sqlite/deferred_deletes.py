"""Deferred deletes: rows of requests that have ended are deleted many at a time.

A database block holds about thirty requests. They end at about the same time, but not in the same
transaction, so deleting each row at once would write the block thirty times. Instead, a transaction only
records the ids (eight bytes each, in one row), and from time to time the rows of all recorded ids are
deleted, in order. Readers treat a row whose id is recorded as deleted.
"""

import sqlite3
from collections.abc import Sequence

from shoal.frontier.sqlite.packing import pack_ints, unpack_ints

SWEEP_EVERY_ROWS = 2048  # a few milliseconds' work


class DeferredDeletes:
    def __init__(self, sweep_every: int) -> None:
        self._sweep_every = sweep_every
        self._ids: list[int] = []

    def write(self, database: sqlite3.Connection, ended: Sequence[int], *, sweep: bool) -> None:
        """Record ids of requests that have ended, or delete the rows of all recorded ids."""
        self._ids += ended
        if sweep or len(self._ids) >= self._sweep_every:
            _delete(database, self._ids)
            self._ids = []
        elif ended:
            database.execute("INSERT INTO spent(ids) VALUES (?)", (pack_ints(ended),))


def spent_ids(database: sqlite3.Connection) -> set[int]:
    return {id for [ids] in database.execute("SELECT ids FROM spent") for id in unpack_ints(ids)}


def sweep(database: sqlite3.Connection) -> None:
    """Delete the rows that an earlier owner recorded."""
    _delete(database, list(spent_ids(database)))


def _delete(database: sqlite3.Connection, ids: Sequence[int]) -> None:
    database.executemany("DELETE FROM request WHERE id = ?", [(id,) for id in sorted(ids)])
    database.execute("DELETE FROM spent")
