"""The records about exits of a folder: a small separate database.

It is not part of `store.db`, which only the owner of the folder can write: `shoal proxy` changes it while a
crawl runs, and the crawl notices within a second.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Set
from contextlib import closing, contextmanager
from pathlib import Path

from shoal.sqlite_database import open_database, transaction, translated
from shoal.stores.folder.permissions import secure_file

_SCHEMA = ("CREATE TABLE exits (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",)


class FolderExitRecords:
    """See `shoal.stores.contract.exits.StoredExits`. Nothing is created before the first record."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def all(self) -> Mapping[str, bytes]:
        if not self._path.is_file():
            return {}
        with self._opened() as database:
            return dict(database.execute("SELECT key, record FROM exits"))

    async def get(self, key: str) -> bytes | None:
        if not self._path.is_file():
            return None
        with self._opened() as database:
            found = database.execute("SELECT record FROM exits WHERE key = ?", (key,)).fetchone()
            return None if found is None else bytes(found[0])

    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        return bool(await self.swap_all({key: (before, after)}))

    async def swap_all(self, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> Set[str]:
        self._path.parent.mkdir(parents=True, exist_ok=True)  # records of the API may come before a crawl
        with self._opened() as database, transaction(database):
            return {key for key, (before, after) in changes.items() if _swap(database, key, before, after)}

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        # Opened for each call: a few times a second, and only in crawls with exits. Closing it may sync.
        with translated(self._path):
            secure_file(self._path)
            with closing(open_database(self._path, _SCHEMA, fsync=False, cache_kib=256)) as database:
                yield database


def _swap(database: sqlite3.Connection, key: str, before: bytes | None, after: bytes | None) -> bool:
    if after is None:
        found = database.execute("DELETE FROM exits WHERE key = ? AND record IS ?", (key, before))
    elif before is None:
        found = database.execute("INSERT OR IGNORE INTO exits VALUES (?, ?)", (key, after))
    else:
        update = "UPDATE exits SET record = ? WHERE key = ? AND record = ?"
        found = database.execute(update, (after, key, before))
    return found.rowcount > 0
