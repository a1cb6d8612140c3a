"""The outputs of a fleet's crawls, as one worker attends to them: it writes those that it was elected for."""

import asyncio
import logging
import os

from shoal.frontier.redis import RedisFrontier
from shoal.model.errors import Misconfigured
from shoal.redis_client import RedisClient
from shoal.sinks.fleet.progress import unfinished
from shoal.sinks.fleet.writer import OutputWriter, WriterOutput
from shoal.sinks.names import shown
from shoal.stores.contract.crawl_record import CrawlRecord, settings_of
from shoal.stores.contract.heartbeat import OutputActivity

log = logging.getLogger(__name__)


class OutputTasks:
    """The outputs of one crawl."""

    def __init__(self, store: RedisClient, *, worker: str) -> None:
        self._store = store
        self._worker = worker
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._revision = ""
        self._writers: dict[str, OutputWriter] = {}
        self._refused: dict[str, str] = {}  # by output: why it cannot be written here

    @property
    def refused(self) -> str:
        """Why one of them cannot be written here."""
        return next(iter(self._refused.values()), "")

    def at(self, crawl: str) -> list[OutputActivity]:
        """Say what this worker is to each of them."""
        refused = [
            OutputActivity(crawl, shown(output), "refused", why) for output, why in self._refused.items()
        ]
        return refused + [
            OutputActivity(crawl, shown(output), writer.post.value, writer.why, writer.items)
            for output, writer in self._writers.items()
        ]

    def attends(self, record: CrawlRecord) -> bool:
        """Tell whether this is the way in which the outputs are being written, or cannot be."""
        return self._revision == record.revision and bool(self._tasks or self.refused)

    async def attend(self, group: asyncio.TaskGroup, record: CrawlRecord) -> None:
        """Write the outputs of a crawl from now on, whenever no other worker does."""
        await self.leave()
        number = await RedisFrontier(self._store).reader.number(record.name)
        self._stop, self._revision, self._refused = asyncio.Event(), record.revision, {}
        self._tasks = [
            group.create_task(self._write(record, number, output, self._stop), name=f"output.{shown(output)}")
            for output in record.outputs
        ]

    async def leave(self) -> None:
        """Complete what this worker writes, and let others go on."""
        self._stop.set()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks = []

    async def _write(self, record: CrawlRecord, number: int, output: str, stop: asyncio.Event) -> None:
        writer = OutputWriter(
            self._store,
            WriterOutput(
                number,
                output,
                record.outputs,
                fsync=settings_of(record).crawl.fsync,
                overwrite=record.overwrite,
            ),
            holder=self._worker,
            node=os.uname().nodename,
        )
        self._writers[output] = writer
        try:
            await writer.run(stop)
        except Misconfigured as error:  # another machine may have what this one lacks
            self._refused[output] = str(error)
            log.error("output.refused", extra={"crawl": record.name, "why": str(error)})
        finally:
            self._writers.pop(output, None)


async def are_finished(store: RedisClient, record: CrawlRecord) -> bool:
    """Tell whether every output that this machine may write was finished by whoever wrote it last."""
    number = await RedisFrontier(store).reader.number(record.name)
    return not await unfinished(store, number, record.outputs, node=os.uname().nodename)
