"""The outputs of a fleet's crawls: one worker writes those that it was elected for."""

import asyncio
import logging
import os
import time
from contextlib import suppress

from shoal.model.errors import Misconfigured, Unavailable
from shoal.sinks.fleet.election import TERM_S
from shoal.sinks.fleet.progress import unfinished
from shoal.sinks.fleet.writer import OutputWriter, WriterOutput, WriterState
from shoal.sinks.names import public_name
from shoal.stores.contract.crawl_record import CrawlRecord
from shoal.stores.contract.fleet import Fleet
from shoal.stores.contract.heartbeat import OutputActivity
from shoal.stores.contract.places import Places
from shoal.stores.contract.record_reader import settings_of

log = logging.getLogger(__name__)

SHORTEST_TERM_S = 3.0  # waiting for a disk takes up to two seconds
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0  # before an output that was refused is tried again


class OutputTasks:
    """The outputs of one crawl."""

    def __init__(self, fleet: Fleet, *, worker: str, places: Places) -> None:
        self._fleet = fleet
        self._places = places
        self._worker = worker
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._revision = ""
        self._writers: dict[str, OutputWriter] = {}
        self._refusals: dict[str, str] = {}  # by output: why it could not be written here; it is tried again

    @property
    def refusal(self) -> str:
        """Why one of them cannot be written here; empty: all can."""
        return next(iter(self._current_refusals().values()), "")

    def activity(self, crawl: str) -> list[OutputActivity]:
        """Return what this worker does with each of them."""
        refused = [
            OutputActivity(crawl, public_name(output), "refused", why)
            for output, why in self._current_refusals().items()
        ]
        return refused + [
            OutputActivity(crawl, public_name(output), writer.state.value, writer.why, writer.items)
            for output, writer in self._writers.items()
            if output not in self._current_refusals()
        ]

    def _current_refusals(self) -> dict[str, str]:
        """Return the refusals of outputs that are not being written again."""
        writing = (WriterState.WAITING, WriterState.WRITING)
        again = {output for output, writer in self._writers.items() if writer.state in writing}
        return {output: why for output, why in self._refusals.items() if output not in again}

    def is_writing(self, record: CrawlRecord) -> bool:
        """Return whether the outputs of this submission are being written, or cannot be."""
        return self._revision == record.revision and bool(self._tasks or self.refusal)

    async def start(self, group: asyncio.TaskGroup, record: CrawlRecord) -> None:
        """Write the outputs of a crawl from now on, whenever no other worker does."""
        await self.leave()
        number = await self._fleet.frontier.reader.number(record.name)
        self._stop, self._revision, self._refusals = asyncio.Event(), record.revision, {}
        self._tasks = [
            group.create_task(
                self._write(record, number, output, self._stop), name=f"output.{public_name(output)}"
            )
            for output in record.outputs
        ]

    async def leave(self) -> None:
        """Complete what this worker writes, so that others can continue."""
        self._stop.set()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks = []

    async def _write(self, record: CrawlRecord, number: int, output: str, stop: asyncio.Event) -> None:
        settings = settings_of(record).crawl
        described = WriterOutput(
            number,
            output,
            record.outputs,
            fsync=settings.fsync,
            overwrite=record.overwrite and self._places.may_replace(output),
        )
        failures = 0
        while True:
            began = time.monotonic()
            try:
                self._places.check(output)
                writer = OutputWriter(
                    self._fleet.client,
                    described,
                    holder=self._worker,
                    node=os.uname().nodename,
                    term_s=term_for(settings.lease),
                )
                self._writers[output] = writer
                await writer.run(stop)
                self._refusals.pop(output, None)
                return
            except Misconfigured as error:  # another machine may have what this one lacks
                why, event = str(error), "output.refused"
            except Unavailable:
                raise
            except Exception as error:  # of this output: it must end neither the worker nor the crawl
                why, event = f"{type(error).__name__}: {error}", "output.failed"
                log.debug("output.traceback", exc_info=error)
            finally:
                self._writers.pop(output, None)
            failures = 1 if time.monotonic() - began > LONGEST_PAUSE_S else failures + 1
            pause = pause_after(failures)
            if self._refusals.get(output) != why:
                about = {"crawl": record.name, "output": public_name(output), "why": why}
                log.error(event, extra={**about, "retry_in_s": pause})
            self._refusals[output] = why
            if event == "output.failed":
                await self._fleet.damage.check_all()
            if await _stopped(stop, pause):
                return


def term_for(lease_s: float) -> float:
    """Return the term of a writer: not longer than workers may hold requests without a heartbeat."""
    return min(TERM_S, max(SHORTEST_TERM_S, lease_s))


def pause_after(failures: int) -> float:
    """Return the seconds after which an output that was refused `failures` times in a row is tried again."""
    return min(FIRST_PAUSE_S * (1 << min(failures - 1, 10)), LONGEST_PAUSE_S)


async def _stopped(stop: asyncio.Event, seconds: float) -> bool:
    """Wait; return whether the writer was asked to stop."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()


async def are_finished(fleet: Fleet, record: CrawlRecord) -> bool:
    """Return whether the last writer of every output that this machine may write has finished it."""
    number = await fleet.frontier.reader.number(record.name)
    return not await unfinished(fleet.client, number, record.outputs, node=os.uname().nodename)
