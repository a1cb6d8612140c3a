"""The items of a crawl, one by one, while it runs.

The items are read from the output that the crawl writes, so a stream holds none of them in memory and
promises what the output does. While more than `buffer` items wait to be taken, the crawl fetches nothing
further. On a store that outlives the run, the position of the last item that was taken is kept beside the
output: a stream of the same crawl continues there.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from shoal.model.errors import Misconfigured
from shoal.python_api.progress import open_progress
from shoal.python_api.result import Result
from shoal.python_api.running import RunningCrawl
from shoal.services.crawl import CrawlPlan
from shoal.services.item_file import ItemReader

POLL_S = 0.02  # between two looks for the next item
SAVE_EVERY_S = 1.0  # between two records of the position: a kill may repeat the items since


class Stream:
    """Iterates over the items of a crawl: `async for item in stream`, or `for item in stream`.

    The crawl starts with the loop and stops when the loop is left, at the latest when the iterator is
    collected; `async with` and `with` stop it at their end. `result` is there after the last item.
    """

    def __init__(self, plan: CrawlPlan, *, buffer: int, progress: bool | None) -> None:
        if buffer < 1:
            raise Misconfigured(f"buffer: must be at least 1, not {buffer}")
        self._plan = plan
        self._buffer = buffer
        self._progress = progress
        self._running: RunningCrawl | None = None
        self._reader: ItemReader | None = None
        self._saved_at = 0.0
        self._result: Result | None = None

    @property
    def result(self) -> Result:
        """The result of the crawl, once it has ended."""
        if self._result is None:
            raise Misconfigured("the crawl has not ended: take its items first, or leave the loop")
        return self._result

    def __aiter__(self) -> AsyncGenerator[dict[str, Any], None]:
        return self._async_items()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self._items()

    async def __aenter__(self) -> "Stream":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def aclose(self) -> None:
        """Stop the crawl, and return when it has ended."""
        if (running := self._take_running()) is not None:
            running.thread.stop()
            self._result = await running.wait_async()

    def close(self) -> None:
        """Stop the crawl, and return when it has ended."""
        if (running := self._take_running()) is not None:
            running.thread.stop()
            self._result = running.wait()

    async def _async_items(self) -> AsyncGenerator[dict[str, Any], None]:
        running = self._start()
        progress = open_progress(self._progress)
        try:
            while True:
                was_over = running.is_over  # asked first: what is stored in between is read
                if (item := self._next(running)) is not None:
                    yield item
                elif was_over:
                    break
                else:
                    await asyncio.sleep(POLL_S)
                progress.show(running.thread.snapshot)
            await self.aclose()
            progress.close(str(self._result))
        finally:
            await self.aclose()

    def _items(self) -> Iterator[dict[str, Any]]:
        running = self._start()
        progress = open_progress(self._progress)
        try:
            while True:
                was_over = running.is_over  # asked first: what is stored in between is read
                if (item := self._next(running)) is not None:
                    yield item
                elif was_over:
                    break
                else:
                    time.sleep(POLL_S)
                progress.show(running.thread.snapshot)
            self.close()
            progress.close(str(self._result))
        finally:
            self.close()

    def _start(self) -> RunningCrawl:
        if self._running is not None or self._result is not None:
            raise Misconfigured("a stream can be read once: call shoal.stream() again")
        self._running = RunningCrawl(self._plan, is_behind=self._is_behind)
        return self._running

    def _take_running(self) -> RunningCrawl | None:
        """Return the crawl if it was not stopped yet, with the position in its items recorded."""
        running, self._running = self._running, None
        if running is not None and self._reader is not None and running.is_durable:
            self._reader.save()
        return running

    def _is_behind(self) -> bool:
        return self._reader is not None and self._reader.is_behind()

    def _next(self, running: RunningCrawl) -> dict[str, Any] | None:
        """Return the next item, None if it is not stored yet. The one before it counts as used."""
        if self._reader is None:
            path = running.items_path
            if path is None:
                return None
            self._reader = self._open(running, path)
        if running.is_durable and time.monotonic() - self._saved_at > SAVE_EVERY_S:
            self._saved_at = time.monotonic()
            self._reader.save()
        return self._reader.read()

    def _open(self, running: RunningCrawl, path: Path) -> ItemReader:
        return ItemReader(path, buffer=self._buffer, resume=running.is_durable and not self._plan.fresh)
