"""The owner of a store: state in RAM, transactions and clock, shared by all parts of the frontier."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.frontier.clock import Clock
from shoal.frontier.sqlite.changes import Changes
from shoal.frontier.sqlite.leases import set_back
from shoal.frontier.sqlite.state import FrontierState
from shoal.model.errors import Lost, ShoalError, Unavailable
from shoal.sqlite_database import Checkpointer, transaction, translate


class Owner:
    """The process that may write.

    Calls change the state in RAM first and then write one transaction. If that write fails (most likely
    because the disk is full), RAM is ahead of the disk. Every later call then raises the same error, and the
    next process starts from the disk, which is consistent.
    """

    def __init__(
        self, state: FrontierState, path: Path, clock: Callable[[], float], checkpointer: Checkpointer
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
