"""One thread for calls that may take long: flushes of outputs and of the archive.

A database that is locked or an object store that does not respond blocks this thread and not the event loop:
fetching goes on until enough pages wait for their commit, and signals and the screen keep working.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class WriterThread:
    """Runs one call at a time, in order. It does not keep the process alive: a call may never return."""

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
