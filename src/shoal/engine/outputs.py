"""Where the items of a page go when it is committed.

An embedded crawl writes its outputs itself: they are flushed before the pages are settled, and their lengths
are part of the store's transaction. In a fleet many workers run one crawl, and an output has one writer: the
items travel with the settlement of their page, and the store passes them on in the same step.
"""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from shoal.archive.errors import SegmentLost
from shoal.archive.writer import Part
from shoal.model import crawl_totals as sums
from shoal.model.errors import Unavailable
from shoal.model.outcome import Acknowledgement, Settlement
from shoal.model.page import Item, ParseResult
from shoal.model.yields.counts import is_count
from shoal.sinks.drafts import UNFINISHED
from shoal.stores.contract.checkpoints import archive_key, rejects_key, sinks_key

log = logging.getLogger(__name__)

ARCHIVE_RETRY_S = 1.0  # before an unavailable archive is written again

T = TypeVar("T")
Ended = TypeVar("Ended", Settlement, Acknowledgement)


class Durable(NamedTuple):
    """What the store has to record about what was flushed."""

    checkpoints: Mapping[str, bytes] = {}
    crawl_state: Mapping[str, Mapping[str, bytes]] = {}
    archive_s: float = 0.0  # that the archive took of the flush; 0: all of it


class Archive(Protocol):
    async def flush_async(self) -> None: ...


class PartedArchive(Protocol):
    """An archive that is written in another thread while pages are appended; see `ArchiveWriter`."""

    def begin_flush(self) -> list[Part]: ...
    def write_parts(self, parts: Sequence[Part]) -> None: ...
    def end_flush(self, parts: Sequence[Part]) -> bytes: ...


class Run(Protocol):
    """Runs a call that may take long in a thread, one at a time and in order."""

    async def __call__(self, call: Callable[[], T]) -> T: ...


class Writer(Protocol):
    """Runs the calls that write outputs and archive: `WriterThread`, or another kind in a test."""

    async def run(self, call: Callable[[], T]) -> T: ...
    def close(self, *, wait_s: float) -> bool: ...


class ItemWriter(Protocol):
    def write(self, items: Sequence[Item]) -> None: ...
    def flush(self) -> bytes: ...
    def finish(self) -> bytes: ...


class OutputCommit(Protocol):
    def put(self, ended: Ended, result: ParseResult) -> Ended:
        """Take the items of a page, and return its end as the store should commit it."""

    async def flush(self) -> Durable:
        """Make durable what was put and archived so far, and return what the store has to record with it."""

    async def finish(self) -> Durable:
        """Complete the outputs at the end of the run."""


class EmbeddedOutputs:
    """The outputs of an embedded crawl. They are written in a thread, together with the archive."""

    def __init__(
        self,
        crawl: str,
        archive: PartedArchive,
        sinks: ItemWriter,
        rejects: ItemWriter,
        totals: sums.CrawlTotals,
        *,
        run: Run,
    ) -> None:
        self._crawl = crawl
        self._archive = archive
        self._sinks = sinks
        self._rejects = rejects
        self._totals = totals
        self._stored_patterns = totals.known
        self._stored_examples = b""
        self._run = run
        self._items: list[Item] = []
        self._rejected: list[Item] = []
        self._rejects_unflushed = False  # used in the thread only
        self._archive_s = 0.0  # that it took the latest time
        self._changed = False

    def put(self, ended: Ended, result: ParseResult) -> Ended:
        self._items += result.items
        self._rejected += result.rejected
        self._changed |= self._totals.add(self._totals.bounded(sums.tally_of(ended.outcome, result)))
        self._changed |= self._totals.add_items(len(result.items))
        if result.counts:
            self._totals.add_counts(result.counts)
            self._changed = True
        return ended

    async def flush(self) -> Durable:
        """Write in one call of the thread, so that the checkpoints are true of archive and outputs alike.

        Pages that are archived during the call belong to the next flush. If the call fails, or its caller is
        cancelled, sinks and archive still have everything that they were given, and the next call writes it.
        """
        items, self._items = self._items, []
        rejected, self._rejected = self._rejected, []
        parts = self._archive.begin_flush()

        def write() -> dict[str, bytes]:
            self._sinks.write(items)
            self._rejects.write(rejected)
            self._rejects_unflushed |= bool(rejected)
            archiving = time.monotonic()
            self._archive.write_parts(parts)
            self._archive_s = time.monotonic() - archiving
            checkpoints = {sinks_key(self._crawl): self._sinks.flush()}
            if self._rejects_unflushed:
                checkpoints[rejects_key(self._crawl)] = self._rejects.flush()
                self._rejects_unflushed = False
            return checkpoints

        checkpoints = await self._run(write)
        checkpoints[archive_key(self._crawl)] = self._archive.end_flush(parts)
        # Totals change with `put` alone, which no task calls while another one flushes.
        known = self._totals.known
        changed = self._changed or known != self._stored_patterns
        state: dict[str, bytes] = {}
        if changed:
            state[sums.KEY], examples = self._totals.dump_apart()
            if self._totals.examples and examples != self._stored_examples:
                state[sums.EXAMPLES] = self._stored_examples = examples
        self._changed, self._stored_patterns = False, known
        return Durable(checkpoints, {self._crawl: state} if state else {}, self._archive_s)

    async def finish(self) -> Durable:
        finished = await self._run(self._sinks.finish)
        return Durable({sinks_key(self._crawl): finished}, {self._crawl: {UNFINISHED: b""}})


class StreamedOutputs:
    """Items travel with their page through the store to the worker that writes the outputs.

    Writing is retried while the archive is unavailable, for up to `patience` seconds: a worker that ended
    instead would leave its pages to others, which cannot archive them either.
    """

    def __init__(
        self,
        archive: Archive,
        rejects: ItemWriter,
        totals: sums.CrawlTotals,
        *,
        patience: Callable[[], float],
    ) -> None:
        self._archive = archive
        self._rejects = rejects  # a file per worker: for people, not exactly-once
        self._totals = totals
        self._patience = patience

    def put(self, ended: Ended, result: ParseResult) -> Ended:
        tally = self._totals.bounded(sums.tally_of(ended.outcome, result))
        self._totals.add(tally)  # of this run; the store adds it to those of all runs
        if result.counts:
            # What a child calls a count must not change another total.
            counts = {name: number for name, number in result.counts.items() if is_count(name)}
            tally = {**tally, **self._totals.add_counts(counts)}
        self._rejects.write(result.rejected)
        return msgspec.structs.replace(ended, items=result.items, tally=tally)

    async def flush(self) -> Durable:
        began = time.monotonic()
        while True:
            try:
                await self._archive.flush_async()
                self._rejects.flush()
                return Durable()
            except SegmentLost as error:
                log.error("archive.lost", extra={"why": str(error)})  # the next session starts a new segment
                raise
            except Unavailable as error:
                if time.monotonic() - began > self._patience():
                    raise
                log.warning("archive.unavailable", extra={"why": str(error)})
            await asyncio.sleep(ARCHIVE_RETRY_S)

    async def finish(self) -> Durable:
        self._rejects.finish()
        return Durable()


# --- the thread that writes the outputs of an embedded crawl -----------------------------------------------

Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class WriterThread:
    """Runs one call at a time, in order.

    A database that is locked or an object store that does not respond blocks this thread and not the event
    loop: fetching continues until enough pages wait for their commit; signals and the screen keep working.
    The thread does not keep the process alive: a call may never return.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="shoal.writer", daemon=True)
        self._thread.start()

    async def run(self, call: Callable[[], T]) -> T:
        """Wait for the calls before it, run `call`, and return its result.

        If the caller is cancelled, the call still runs to its end; calls after it wait for that.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._jobs.put((call, loop, done))
        return await done

    def close(self, *, wait_s: float) -> bool:
        """End the thread when its calls have returned; return False if that takes longer than `wait_s`."""
        self._jobs.put(None)
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, loop, done = job
            try:
                result = call()
            except BaseException as error:
                _tell(loop, _fail, done, error)
            else:
                _tell(loop, _succeed, done, result)


def _tell(loop: asyncio.AbstractEventLoop, settle: Callable[..., None], *arguments: object) -> None:
    with suppress(RuntimeError):  # the loop is closed: no one waits for the result
        loop.call_soon_threadsafe(settle, *arguments)


def _succeed(done: "asyncio.Future[Any]", result: Any) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: "asyncio.Future[Any]", error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
