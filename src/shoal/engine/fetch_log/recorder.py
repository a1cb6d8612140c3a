"""Collects rows on the event loop and has them written in a thread, once per second.

The log is evidence and not state. If it cannot be written, rows wait for a while, then the oldest are dropped
and counted; the crawl continues.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from shoal.archive.fetch_log.columns import Row
from shoal.engine.fetch_log.rows import acknowledgement_row, settlement_row
from shoal.model.errors import ShoalError
from shoal.model.outcome import Acknowledgement, Settlement
from shoal.model.page import ParseResult

log = logging.getLogger(__name__)

EVERY_S = 1.0  # between two writes
EVERY_OBJECT_S = 10.0  # the same on an object store, where every write makes an object
WRITE_ROWS = 1_000  # that are written at once without waiting for the time
MAX_WAITING_ROWS = 50_000  # about 25 MB
CLOSE_S = 3.0  # for the last rows
COMPLETE_S = 5.0  # for the last part
WARN_AFTER = 2  # writes that fail in a row; what also ends the crawl, like a full disk, has ended it by then

T = TypeVar("T")


class LogWriter(Protocol):
    """Where rows go; see `FetchLogWriter`."""

    @property
    def grows(self) -> bool: ...
    def write(self, rows: Sequence[Row]) -> None: ...
    def finish(self) -> None: ...


class RunInThread(Protocol):
    """Runs calls in a thread, one at a time and in order."""

    async def __call__(self, call: Callable[[], T]) -> T: ...


class FetchLog:
    """The fetch log of one crawl in this process."""

    def __init__(self, writer: LogWriter, run: RunInThread, *, worker: str, version: str) -> None:
        self._writer = writer
        self._run_in_thread = run
        self._worker = worker
        self._version = version
        self._rows: list[Row] = []
        self._full = asyncio.Event()
        self._failures = 0  # in a row
        self._why = ""  # of the last one
        self._reported = False  # this outage
        self.dropped = 0  # rows that could not be written

    def settled(self, settlement: Settlement, result: ParseResult | None, *, lost: bool = False) -> None:
        """Log an attempt whose outcome the store has committed; `lost`: or refused."""
        row = settlement_row(settlement, result, worker=self._worker, version=self._version, lost=lost)
        if row is not None:
            self._add(row)

    def acknowledged(self, end: Acknowledgement, result: ParseResult | None) -> None:
        """Log the parse of a page whose attempt was logged before."""
        self._add(acknowledgement_row(end, result, worker=self._worker, version=self._version))

    def _add(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) == WRITE_ROWS:
            self._full.set()

    async def run(self) -> None:
        """Write what was logged, until cancelled."""
        every = EVERY_S if self._writer.grows else EVERY_OBJECT_S
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(every):
                    await self._full.wait()
            await self.flush()
            if self._failures:
                await asyncio.sleep(every)

    async def flush(self) -> None:
        """Write what was logged so far."""
        self._full.clear()
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        try:
            await self._run_in_thread(lambda: self._writer.write(rows))
        except (ShoalError, OSError) as error:
            self._keep(rows)
            self._failures += 1
            self._why = str(error)
            if self._failures >= WARN_AFTER:
                self._report(self._why)
        else:
            if self._reported:
                log.info("fetch_log.recovered", extra={"dropped": self.dropped})
            self._failures = 0
            self._reported = False

    def _report(self, why: str, level: int = logging.WARNING) -> None:
        """Log an outage, once."""
        if not self._reported:
            log.log(level, "fetch_log.unavailable", extra={"why": why, "rows": len(self._rows)})
        self._reported = True

    def _keep(self, rows: list[Row]) -> None:
        """Keep rows that could not be written for the next time, the latest ones if they are too many."""
        self._rows[:0] = rows
        if (beyond := len(self._rows) - MAX_WAITING_ROWS) > 0:
            del self._rows[:beyond]
            self.dropped += beyond

    async def close(self, *, failed: bool = False) -> None:
        """Write the rest and complete the last part; give up after a few seconds.

        A part that is not completed in time stays as it is: every reader takes it, and the next run of the
        crawl completes it. `failed`: an error has ended the crawl. It is what people have to know, and most
        often why the log cannot be written either: the log then says so at info only.
        """
        level = logging.INFO if failed else logging.WARNING
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.flush()
        except TimeoutError:
            self._report("no response", level)
            return
        if self._failures:
            self._report(self._why, level)
        try:
            async with asyncio.timeout(COMPLETE_S):
                await self._run_in_thread(self._writer.finish)
        except TimeoutError:
            pass  # the machine is busy
        except (ShoalError, OSError) as error:
            self._report(str(error), level)
