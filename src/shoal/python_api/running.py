"""One crawl of a program: its thread, and the output that its items are read from."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from shoal.model.errors import Misconfigured
from shoal.python_api.crawl_thread import CrawlThread
from shoal.python_api.plan import MEMORY
from shoal.python_api.progress import NoProgress, ProgressView
from shoal.python_api.result import Result, result_of
from shoal.services.crawl import CrawlPlan, CrawlResult
from shoal.services.item_file import decode_items, is_item_file, read_items

WAIT_S = 0.1  # between two looks at the progress


class RunningCrawl:
    """Starts the crawl. Every way to wait for its end returns its result, or raises its error."""

    def __init__(self, plan: CrawlPlan, *, is_behind: Callable[[], bool] | None = None) -> None:
        # A stream reads items as they are written; those of a guest may be cut back when its owner is killed.
        plan = replace(plan, opens_complete=True, alone=is_behind is not None)
        self.is_durable = plan.settings.store != MEMORY
        self._folder: TemporaryDirectory[str] | None = None
        self._items: Path | None = None
        if not any(map(is_item_file, plan.outputs)):
            if self.is_durable:
                plan = replace(plan, keep_items=True)
            else:
                self._folder = TemporaryDirectory(prefix="shoal-items-")
                plan = replace(plan, outputs=(*plan.outputs, f"{self._folder.name}/items.jsonl"))
        self.thread = CrawlThread(plan, is_behind=is_behind)

    @property
    def items_path(self) -> Path | None:
        """Where the items are, once the crawl has opened its outputs."""
        if self._items is None and self.thread.opened.is_set() and self.thread.opening is not None:
            outputs = self.thread.opening.outputs
            # Absolute at once: the program may change its current folder.
            self._items = Path(next(filter(is_item_file, outputs))).absolute()
        return self._items

    @property
    def is_over(self) -> bool:
        """Whether the crawl has ended, so that no further item will be stored."""
        return self.thread.done.done()

    def wait(self, progress: ProgressView | None = None) -> Result:
        """Wait for the end. Ctrl-C asks the crawl to stop and is raised when it has; a second one hurries."""
        progress = progress or NoProgress()
        interrupt: KeyboardInterrupt | None = None
        while True:
            try:
                while not self.thread.join(WAIT_S):
                    progress.show(self.thread.snapshot)
                break
            except KeyboardInterrupt as error:
                interrupt = error
                self.thread.stop()
        if interrupt is not None:
            self._close()
            raise interrupt
        return self._finish()

    async def wait_async(self, progress: ProgressView | None = None) -> Result:
        """Wait for the end. Cancelling asks the crawl to stop, and takes effect when it has."""
        progress = progress or NoProgress()
        cancelled: asyncio.CancelledError | None = None
        while not self.is_over:
            try:
                await asyncio.sleep(WAIT_S)
                progress.show(self.thread.snapshot)
            except asyncio.CancelledError as error:
                cancelled = error
                self.thread.stop()
        if cancelled is not None:
            self._close()
            raise cancelled
        return self._finish()

    def _finish(self) -> Result:
        try:
            found = self.thread.done.result()
            return result_of(self._without_temporary(found), self._loader(found))
        finally:
            self._close()

    def _loader(self, found: CrawlResult) -> Callable[[], list[dict[str, Any]]]:
        path = self.items_path
        if path is None:
            return list
        if self._folder is not None:
            stored = path.read_bytes()  # the folder is about to be deleted
            return lambda: decode_items(stored)

        def load() -> list[dict[str, Any]]:
            try:
                return list(read_items(path))
            except FileNotFoundError:
                if not found.summary.snapshot.counts.get("done"):
                    return []
                raise Misconfigured(
                    f"the items are not on this machine: another worker of the fleet writes {path}"
                ) from None

        return load

    def _without_temporary(self, found: CrawlResult) -> CrawlResult:
        if self._folder is None:
            return found
        kept = tuple(output for output in found.summary.outputs if not output.startswith(self._folder.name))
        return replace(found, summary=replace(found.summary, outputs=kept))

    def _close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
