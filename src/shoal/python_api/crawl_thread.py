"""A crawl in a thread with a separate event loop.

The thread is a daemon: a program that ends without waiting is not held up. At the exit of the interpreter a
crawl that still runs is asked to stop, and gets a moment for that; whatever it cannot finish, the next run of
the same crawl does, as after a kill.
"""

import asyncio
import atexit
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress

from shoal.model.disk import disk_error
from shoal.model.errors import ShoalError, leaves
from shoal.services.crawl import CrawlPlan, CrawlResult, Opening, Snapshot, Stop, run_crawl

EXIT_S = 10.0  # for a crawl that still runs when the interpreter exits


class CrawlThread:
    def __init__(self, plan: CrawlPlan, *, is_behind: Callable[[], bool] | None = None) -> None:
        self.done: Future[CrawlResult] = Future()
        self.snapshot: Snapshot | None = None  # the latest
        self.opening: Opening | None = None
        self.opened = threading.Event()  # also set when the crawl ends before that
        self._plan = plan
        self._is_behind = is_behind
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = Stop()
        self._thread = threading.Thread(target=self._run, name="shoal.crawl", daemon=True)
        self._thread.start()
        atexit.register(self._exit)

    def stop(self) -> None:
        """Ask the crawl to finish the requests in progress; the second call asks it to stop at once."""
        if self._loop is None:
            self._stop.ask()  # the loop has not started, and reads it when it does
            return
        with suppress(RuntimeError):  # the loop is closed: the crawl has ended
            self._loop.call_soon_threadsafe(self._stop.ask)

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the crawl has ended; return whether it has."""
        finished, _ = wait([self.done], timeout)
        return bool(finished)

    def _exit(self) -> None:
        self.stop()
        self.stop()
        self.join(EXIT_S)

    def _run(self) -> None:
        import uvloop

        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                result = runner.run(self._crawl())
        except BaseException as error:
            self.done.set_exception(first_error(error))
        else:
            self.done.set_result(result)
        finally:
            self.opened.set()
            atexit.unregister(self._exit)

    async def _crawl(self) -> CrawlResult:
        self._loop = asyncio.get_running_loop()
        return await run_crawl(
            self._plan, stop=self._stop, opened=self._open, watch=self._watch, is_behind=self._is_behind
        )

    def _open(self, opening: Opening) -> None:
        self.opening = opening
        self.opened.set()

    def _watch(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot


def first_error(error: BaseException) -> BaseException:
    """Return the error that a caller can handle: the first one, if all in a group are of Shoal's families."""
    found = [disk_error(leaf) or leaf for leaf in leaves(error)]
    return found[0] if all(isinstance(leaf, ShoalError) for leaf in found) else error
