"""Checkpoints off the event loop: moving the write-ahead log into the database from a thread of its own.

SQLite would do it inside the commit that fills the log up, and sync the disk twice there. Here a thread
copies most of the log while commits go on, and only for the short rest, with which the log can start anew,
are they held up. The log stays bounded; if a long reader keeps it from starting anew, the next round tries
again.
"""

import logging
import sqlite3
import threading
from pathlib import Path
from types import TracebackType

log = logging.getLogger(__name__)

EVERY = (
    16_384  # changed rows between checkpoints: a log of a few MiB, or 64 if every row lies in another block
)


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
        """Learn how many rows the owner has changed in all."""
        if changed_rows - self._since >= EVERY:
            self._since = changed_rows
            self._wake.set()

    def _run(self) -> None:
        # No waiting: holding the writer's lock while waiting for a reader would hold up the owner.
        database = sqlite3.connect(self._path, isolation_level=None, timeout=0.0)
        try:
            # SQLite opens the file with the first statement: now, so that a crawl's open files do not grow.
            database.execute("PRAGMA schema_version").fetchone()
            while self._wake.wait() and not self._stop:
                self._wake.clear()
                try:
                    database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                    database.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
                except sqlite3.Error as error:
                    # The log is still whole, and the owner's next commit meets the same disk.
                    log.warning("store.checkpoint_failed", extra={"reason": str(error)})
        finally:
            database.close()
