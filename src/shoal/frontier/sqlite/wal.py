"""WAL checkpoints off the event loop: a dedicated thread copies the write-ahead log into the database.

SQLite would do it inside the commit that fills the log, and sync the disk twice there. Here a thread copies
most of the log while commits continue. Commits wait only for the short last part, after which the log
restarts from its beginning. The log stays bounded; if a long read transaction prevents the restart, the next
round tries again.
"""

import logging
import sqlite3
import threading
from pathlib import Path
from types import TracebackType

log = logging.getLogger(__name__)

# Between checkpoints: a log of a few MiB, or of 64 MiB if every row is in another block.
CHECKPOINT_EVERY_ROWS = 16_384


class Checkpointer:
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
