"""The owner of a store: state in RAM, transactions and clock, shared by all parts of the frontier."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from shoal.frontier.clock import Clock
from shoal.frontier.sqlite.changes import Changes
from shoal.frontier.sqlite.leases import set_back
from shoal.frontier.sqlite.state import FrontierState
from shoal.model.errors import Lost, ShoalError, Unavailable
from shoal.sqlite_database import transaction, translate

log = logging.getLogger(__name__)

# Between checkpoints: a log of a few MiB, or of 64 MiB if every row is in another block.
CHECKPOINT_EVERY_ROWS = 16_384


class Owner:
    """The process that may write.

    Calls change the state in RAM first and then write one transaction. If that write fails (most likely
    because the disk is full), RAM is ahead of the disk. Every later call then raises the same error, and the
    next process starts from the disk, which is consistent.
    """

    def __init__(
        self, state: FrontierState, path: Path, clock: Callable[[], float], checkpointer: "Checkpointer"
    ) -> None:
        self.state = state
        self.database = state.database
        self.path = path
        self.acknowledged = asyncio.Event()  # set whenever a page has been parsed
        self._checkpointer = checkpointer
        self._clock = Clock(clock, lambda now, by: set_back(state, now, by))
        self._broken: ShoalError | None = None
        opened = path.stat()
        self._file = opened.st_dev, opened.st_ino

    def now(self) -> float:
        return self._clock.now()

    def refuse_if_broken(self) -> None:
        """Raise the error of the write that failed, if one has."""
        if self._broken is not None:
            raise self._broken

    @contextmanager
    def changing(self) -> Iterator[Changes]:
        """Collect the rows that go with a change of the state in RAM, and write them when the block ends."""
        with self._fail_stop():
            changes = Changes()
            yield changes
            if changes:
                self._check_file()
                with transaction(self.database):
                    changes.write(self.database, self.state.spent)
        self._checkpointer.note(self.database.total_changes)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with self._fail_stop(), transaction(self.database):
            yield self.database

    def _check_file(self) -> None:
        """Raise if the path no longer leads to the open database: SQLite would write to a deleted one."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != self._file:
            raise Lost(f"{self.path} was deleted or replaced while this crawl ran: restore it from a copy")

    @contextmanager
    def _fail_stop(self) -> Iterator[None]:
        self.refuse_if_broken()
        try:
            yield
        except BaseException as error:
            ours = translate(error, self.path) if isinstance(error, sqlite3.Error) else None
            if isinstance(error, ShoalError):
                ours = error
            self._broken = ours or Unavailable(f"{self.path}: stopped after {type(error).__name__}: {error}")
            if ours is not None and ours is not error:
                raise ours from error
            raise


class Checkpointer:
    """Writes WAL checkpoints off the event loop: a thread copies the write-ahead log into the database.

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
