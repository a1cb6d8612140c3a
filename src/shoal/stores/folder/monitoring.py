"""The figures and alerts of a folder: a small separate database, which survives no power cut."""

from collections.abc import Mapping
from pathlib import Path

from shoal.sqlite_database import transaction
from shoal.stores.folder.schedules import FolderRecords


class FolderMonitoring(FolderRecords):
    """See `StoredMonitoring`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, table="monitoring")

    async def get(self, key: str) -> bytes | None:
        if not self._path.is_file():
            return None
        with self._database() as database:
            row = database.execute("SELECT packed FROM monitoring WHERE name = ?", (key,)).fetchone()
            return None if row is None else bytes(row[0])

    async def put(self, records: Mapping[str, bytes | None]) -> None:
        with self._database() as database, transaction(database):
            for key, record in records.items():
                if record is None:
                    database.execute("DELETE FROM monitoring WHERE name = ?", (key,))
                else:
                    database.execute("INSERT OR REPLACE INTO monitoring VALUES (?, ?)", (key, record))
