"""Rows of a folder's database that cannot be read: each costs one request, and the rest continues.

The table is created by the first process that owns the folder, and not by a migration: an older Shoal can
still open the folder.
"""

import logging
import sqlite3
from typing import NamedTuple

from shoal.model.quarantine import MAX_ENTRIES, MAX_ENTRY_BYTES, QuarantinedEntry

log = logging.getLogger(__name__)

NO_CRAWL = 0

_TABLE = """
    CREATE TABLE IF NOT EXISTS quarantine(
      number INTEGER PRIMARY KEY, crawl INTEGER NOT NULL, place TEXT NOT NULL, entry_id TEXT NOT NULL,
      reason TEXT NOT NULL, size INTEGER NOT NULL, at REAL NOT NULL, body BLOB NOT NULL)"""
ADD = "INSERT INTO quarantine(crawl, place, entry_id, reason, size, at, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
_TRIM = """
    DELETE FROM quarantine WHERE crawl = ?1 AND number NOT IN
      (SELECT number FROM quarantine WHERE crawl = ?1 ORDER BY number DESC LIMIT ?2)"""


def create(database: sqlite3.Connection) -> None:
    database.execute(_TABLE)


class DamagedRow(NamedTuple):
    crawl: int
    place: str  # its table
    entry_id: int
    body: object  # what is kept of it


def row(damaged: DamagedRow, reason: object, now: float) -> tuple[object, ...]:
    """Return the row of the quarantine for a row that cannot be read, and log it."""
    crawl, place, entry_id, body = damaged
    raw = body if isinstance(body, bytes) else repr(body).encode()
    about = {"place": place, "entry": str(entry_id), "bytes": len(raw), "why": describe(reason)}
    log.error("entry.quarantined", extra=about)
    return (crawl, place, str(entry_id), describe(reason), len(raw), now, raw[:MAX_ENTRY_BYTES])


def describe(reason: object) -> str:
    if isinstance(reason, BaseException):
        return f"{type(reason).__name__}: {reason}"[:500]
    return str(reason)[:500]


def add(database: sqlite3.Connection, damaged: DamagedRow, reason: object, now: float) -> None:
    """Add a row inside the caller's transaction, and drop the oldest beyond the limit."""
    database.execute(ADD, row(damaged, reason, now))
    trim(database, damaged.crawl)


def trim(database: sqlite3.Connection, crawl: int) -> None:
    database.execute(_TRIM, (crawl, MAX_ENTRIES))


def entries(database: sqlite3.Connection, crawl: int) -> list[QuarantinedEntry]:
    """Return the entries of a crawl, oldest first."""
    known = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'quarantine'").fetchone()
    if known is None:  # no process of this version has owned the folder
        return []
    rows = database.execute(
        "SELECT place, entry_id, reason, size, at, body FROM quarantine WHERE crawl = ? ORDER BY number",
        (crawl,),
    )
    return [QuarantinedEntry(*values) for values in rows]
