"""The schedules of a folder: a small separate database.

Not part of `store.db`, which only the owner of the folder can write: schedules are changed while crawls run.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from shoal.sqlite_database import open_database, transaction, translated
from shoal.stores.folder.permissions import secure_file, secure_folder

_SCHEMA = "CREATE TABLE {} (name TEXT PRIMARY KEY, packed BLOB NOT NULL) WITHOUT ROWID"


class FolderRecords:
    """Small records by key, in a table whose name is a constant. A power cut may undo the last changes."""

    def __init__(self, path: Path, *, table: str) -> None:
        self._path = path
        self._table = table

    async def all(self) -> Mapping[str, bytes]:
        if not self._path.is_file():
            return {}
        with self._database() as database:
            return dict(database.execute(f"SELECT name, packed FROM {self._table}"))  # noqa: S608

    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        if not self._path.parent.is_dir():
            secure_folder(self._path.parent)
        with self._database() as database, transaction(database):
            found = f"SELECT packed FROM {self._table} WHERE name = ?"  # noqa: S608
            row = database.execute(found, (key,)).fetchone()
            if (None if row is None else row[0]) != before:
                return False
            database.execute(f"DELETE FROM {self._table} WHERE name = ?", (key,))  # noqa: S608
            if after is not None:
                database.execute(f"INSERT INTO {self._table} VALUES (?, ?)", (key, after))  # noqa: S608
        return True

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        with translated(self._path):
            secure_file(self._path)
            with closing(
                open_database(self._path, (_SCHEMA.format(self._table),), fsync=False, cache_kib=256)
            ) as database:
                yield database


class FolderSchedules(FolderRecords):
    """See `StoredSchedules`. A claim that a power cut undoes is made again, and its crawl started again."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, table="schedules")
