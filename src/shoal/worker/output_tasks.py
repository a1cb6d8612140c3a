"""The outputs of a fleet's crawls: one worker writes those that it was elected for."""

import asyncio
import logging
import os

from shoal.model.errors import Misconfigured
from shoal.sinks.fleet.progress import unfinished
from shoal.sinks.fleet.writer import OutputWriter, WriterOutput
from shoal.sinks.names import public_name
from shoal.stores.contract.crawl_record import CrawlRecord
from shoal.stores.contract.fleet import Fleet
from shoal.stores.contract.heartbeat import OutputActivity
from shoal.stores.contract.places import Places
from shoal.stores.contract.record_reader import settings_of

log = logging.getLogger(__name__)


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
        self._refusals: dict[str, str] = {}  # by output: why it cannot be written here

    @property
    def refusal(self) -> str:
        """Why one of them cannot be written here; empty: all can."""
        return next(iter(self._refusals.values()), "")

    def activity(self, crawl: str) -> list[OutputActivity]:
        """Return what this worker does with each of them."""
        refused = [
            OutputActivity(crawl, public_name(output), "refused", why)
            for output, why in self._refusals.items()
        ]
        return refused + [
            OutputActivity(crawl, public_name(output), writer.state.value, writer.why, writer.items)
            for output, writer in self._writers.items()
        ]

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
        described = WriterOutput(
            number,
            output,
            record.outputs,
            fsync=settings_of(record).crawl.fsync,
            overwrite=record.overwrite and self._places.may_replace(output),
        )
        try:
            self._places.check(output)
            writer = OutputWriter(
                self._fleet.client, described, holder=self._worker, node=os.uname().nodename
            )
            self._writers[output] = writer
            await writer.run(stop)
        except Misconfigured as error:  # another machine may have what this one lacks
            self._refusals[output] = str(error)
            log.error(
                "output.refused",
                extra={"crawl": record.name, "output": public_name(output), "why": str(error)},
            )
        finally:
            self._writers.pop(output, None)


async def are_finished(fleet: Fleet, record: CrawlRecord) -> bool:
    """Return whether the last writer of every output that this machine may write has finished it."""
    number = await fleet.frontier.reader.number(record.name)
    return not await unfinished(fleet.client, number, record.outputs, node=os.uname().nodename)
