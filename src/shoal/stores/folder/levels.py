"""The records about levels of a folder: a small separate database.

Not part of `store.db`, which only the owner of the folder can write: `shoal host` changes them while a crawl
runs.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from shoal.sqlite_database import open_database, transaction, translated
from shoal.stores.contract.levels import MAX_LEVEL_RECORDS
from shoal.stores.folder.permissions import secure_file

_SCHEMA = (
    "CREATE TABLE levels (key TEXT PRIMARY KEY, version INTEGER NOT NULL, record BLOB)",
    "CREATE INDEX levels_by_version ON levels(version)",
)
_STORE = """
    INSERT INTO levels SELECT ?, coalesce(max(version), 0) + 1, ? FROM levels WHERE true
    ON CONFLICT(key) DO UPDATE SET version = excluded.version, record = excluded.record"""
_DROP_OLDEST = """
    DELETE FROM levels WHERE key IN (SELECT key FROM levels ORDER BY version DESC LIMIT -1 OFFSET ?)"""


class FolderLevels:
    """See `shoal.stores.contract.levels.StoredLevels`. Nothing is created before the first record."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def changed(self, since: int = 0) -> tuple[int, Mapping[str, bytes | None]]:
        if not self._path.is_file():
            return 0, {}
        with self._opened() as database:
            [latest] = database.execute("SELECT coalesce(max(version), 0) FROM levels").fetchone()
            if latest == since:
                return latest, {}
            rows = database.execute("SELECT key, record FROM levels WHERE version > ?", (since,))
            return latest, dict(rows)

    async def get(self, key: str) -> bytes | None:
        if not self._path.is_file():
            return None
        with self._opened() as database:
            return _find(database, key)

    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        with self._opened() as database, transaction(database):
            if _find(database, key) != before:
                return False
            if before is not None or after is not None:
                database.execute(_STORE, (key, after))
                database.execute(_DROP_OLDEST, (MAX_LEVEL_RECORDS,))
        return True

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        # Opened for each call: every few seconds, and only where there are records.
        with translated(self._path):
            secure_file(self._path)
            with closing(open_database(self._path, _SCHEMA, fsync=False, cache_kib=256)) as database:
                yield database


def _find(database: sqlite3.Connection, key: str) -> bytes | None:
    row = database.execute("SELECT record FROM levels WHERE key = ?", (key,)).fetchone()
    return None if row is None else row[0]
