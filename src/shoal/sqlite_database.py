"""SQLite: connecting, migrating, and translating its errors.

A database contains the program that it belongs to (`application_id`) and the number of its last migration
(`user_version`). Migrations are numbered scripts that only go forward; each runs in one transaction with its
number, so a crash between two leaves a database that the next start migrates further.
"""

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from shoal.model.errors import Lost, Misconfigured, ShoalError, Unavailable

log = logging.getLogger(__name__)

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
        # In one statement: another process may make the database at this moment.
        application, version, objects = connection.execute(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
            " FROM pragma_application_id, pragma_user_version"
        ).fetchone()
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
            try:
                connection.executescript(
                    f"BEGIN IMMEDIATE; {scripts[number]};"
                    f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number + 1}; COMMIT;"
                )
            except sqlite3.OperationalError:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                # Another process may have run the same migration since the version was read.
                if check(connection, path, newest=len(scripts)) <= number:
                    raise


# Between checkpoints: a log of a few MiB, or of 64 MiB if every row is in another block.
CHECKPOINT_EVERY_ROWS = 16_384


class Checkpointer:
    """WAL checkpoints off the event loop: a dedicated thread copies the write-ahead log into the database.

    SQLite would do it inside the commit that fills the log, and sync the disk twice there. Here a thread
    copies most of the log while commits continue. Commits wait only for the short last part, after which the
    log restarts from its beginning. The log stays bounded; if a long read transaction prevents the restart,
    the next round tries again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wake = threading.Event()
        self._stop = False
        self._since = 0
        self._thread = threading.Thread(target=self._run, name="shoal-checkpoint", daemon=True)

    def __enter__(self) -> "Checkpointer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop = True
        self._wake.set()
        self._thread.join()

    def note(self, changed_rows: int) -> None:
        """Start a checkpoint if enough rows have changed; `changed_rows` counts from the start."""
        if changed_rows - self._since >= CHECKPOINT_EVERY_ROWS:
            self._since = changed_rows
            self._wake.set()

    def _run(self) -> None:
        try:
            self._checkpoint()
        except sqlite3.Error as error:  # too many open files, or a disk that fails
            log.warning("store.checkpoint_failed", extra={"reason": str(error)})

    def _checkpoint(self) -> None:
        # No timeout: waiting for a reader while holding the write lock would block the owner.
        database = sqlite3.connect(self._path, isolation_level=None, timeout=0.0)
        try:
            # SQLite opens the file with the first statement: do that now, so that the number of open files
            # does not grow during a crawl.
            database.execute("PRAGMA schema_version").fetchone()
            while self._wake.wait() and not self._stop:
                self._wake.clear()
                try:
                    database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                    database.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
                except sqlite3.Error as error:
                    # The log is still complete, and the owner's next commit runs into the same disk error.
                    log.warning("store.checkpoint_failed", extra={"reason": str(error)})
        finally:
            database.close()
