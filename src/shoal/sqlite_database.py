"""SQLite: connecting, migrating, and translating its errors.

A database contains the program that it belongs to (`application_id`) and the number of its last migration
(`user_version`). Migrations are numbered scripts that only go forward; each runs in one transaction with its
number, so a crash between two leaves a database that the next start migrates further.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from shoal.model.errors import Lost, Misconfigured, ShoalError, Unavailable

APPLICATION_ID = 0x53686F6C  # "Shol"

_FOREIGN = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
_FORBIDDEN = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}


def translate(error: sqlite3.Error, path: Path) -> ShoalError | None:
    """Return the error for a fault of the database or its disk; None: a bug of ours, to be re-raised."""
    if isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError):
        return None
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the family
    if code == sqlite3.SQLITE_FULL:
        return Unavailable(f"disk full: {path}")
    if code == sqlite3.SQLITE_CORRUPT:
        return Lost(f"{path} is damaged ({error}): restore it from a copy")
    if code in _FOREIGN:
        return Misconfigured(f"{path} is damaged or not a database ({error})")
    if code in _FORBIDDEN and _is_read_only(path):
        return Unavailable(f"{path}: the file system is mounted read-only")
    if code in _FORBIDDEN:
        return Misconfigured(f"{path} cannot be written ({error})")
    if code in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE):
        return None
    return Unavailable(f"{path}: {error}")


def _is_read_only(path: Path) -> bool:
    try:
        return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
    except OSError:
        return False


@contextmanager
def translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if (ours := translate(error, path)) is not None:
            raise ours from error
        raise


def open_database(
    path: Path, scripts: Sequence[str], *, fsync: bool, cache_kib: int = 16_384
) -> sqlite3.Connection:
    """Open for reading and writing, migrated, in autocommit mode: transactions are explicit."""
    with translated(path):
        connection = sqlite3.connect(path, isolation_level=None, timeout=30.0, check_same_thread=False)
        try:
            connection.text_factory = decode_text
            # First: what follows would change the file, and it may belong to another program.
            check(connection, path, newest=len(scripts))
            connection.execute("PRAGMA journal_mode = WAL")
            # In WAL mode NORMAL survives the death of the process at any instant, FULL a power loss as well.
            connection.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'NORMAL'}")
            connection.execute(f"PRAGMA cache_size = -{cache_kib}")
            # Requests may hold credentials: their bytes are overwritten when their rows are deleted.
            connection.execute("PRAGMA secure_delete = ON")
            migrate(connection, path, scripts)
        except BaseException:
            connection.close()
            raise
    return connection


def connect_for_reading(path: Path) -> sqlite3.Connection:
    """Open read-only, beside an owner that may be writing."""
    if not path.is_file():
        raise Misconfigured(
            f"there is no store at {path.parent}; shoal crawl makes one, --store names another"
        )
    with translated(path):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro",
            uri=True,
            isolation_level=None,
            timeout=30.0,
            check_same_thread=False,
        )
    connection.text_factory = decode_text
    return connection


def decode_text(raw: bytes) -> str:
    """Decode a text column; a damaged one must not end the query."""
    return raw.decode(errors="backslashreplace")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit after the block, or roll back if it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some errors, a full disk among them, have rolled back already
            connection.execute("ROLLBACK")
        raise


def check(connection: sqlite3.Connection, path: Path, *, newest: int) -> int:
    """Return the number of the last migration; refuse a database of another program or of a newer Shoal."""
    with translated(path):
        [application] = connection.execute("PRAGMA application_id").fetchone()
        [version] = connection.execute("PRAGMA user_version").fetchone()
        [objects] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (application or objects):
        raise Misconfigured(f"{path} is a database of some other program")
    if version > newest:
        raise Misconfigured(
            f"{path} was written by a newer Shoal (format {version}, known up to {newest}): upgrade Shoal"
        )
    return int(version)


def migrate(connection: sqlite3.Connection, path: Path, scripts: Sequence[str]) -> None:
    """Run the migrations that a database lacks; `scripts[n]` leads from version n to n + 1."""
    version = check(connection, path, newest=len(scripts))
    with translated(path):
        for number in range(version, len(scripts)):
            connection.executescript(
                f"BEGIN IMMEDIATE; {scripts[number]};"
                f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number + 1}; COMMIT;"
            )
