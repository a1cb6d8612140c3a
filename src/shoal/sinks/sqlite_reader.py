"""The items of an SQLite table, for `shoal export`."""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from shoal.model.errors import Misconfigured
from shoal.model.page import Item
from shoal.sinks.columns import encode_record, restore_record
from shoal.sinks.files import readable


def read_table(output: str) -> Iterator[Item]:
    """Yield the rows of the table `items`, of any program, without the fields that are null."""
    path = Path(output)
    with readable(path, sqlite3.DatabaseError):
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("BEGIN")  # one snapshot, even while a crawl writes
            tables = {name for [name] in database.execute("SELECT name FROM sqlite_master")}
            if "items" not in tables:
                raise Misconfigured(f"output {path} has no table named items")
            yield from _read(database, written_by_shoal="_shoal_columns" in tables)


def _read(database: sqlite3.Connection, *, written_by_shoal: bool) -> Iterator[Item]:
    if not written_by_shoal:
        found = database.execute("SELECT * FROM items")
        names = [name for name, *_ in found.description]
        for number, row in enumerate(found):
            yield Item(f"{number:016x}", encode_record(restore_record(names, row)))
        return
    fields = dict(database.execute("SELECT name, field FROM _shoal_columns"))
    found = database.execute("SELECT * FROM items ORDER BY _id")
    names = [fields.get(name, name) for name, *_ in found.description]
    for _, key, *values in found:
        yield Item(key, encode_record(restore_record(names[2:], values)))
