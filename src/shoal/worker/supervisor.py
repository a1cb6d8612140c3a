"""The workers of a fleet on one machine: processes that are restarted when they die.

A worker that dies loses nothing, but its requests wait until their leases expire, and the others have to do
its work. So it is restarted: soon the first time, and after longer pauses if it dies soon after each start.
After `MAX_DEATHS` deaths in a row it is given up, because another start will not help. A page that kills
every worker that takes it is given up before that (`crawl.max_crashes`).
"""

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from shoal.child_process import ChildProcess
from shoal.engine.plan import Stop

FIRST_PAUSE_S = 0.5
EARLY_DEATH_S = 10.0  # after its start
MAX_DEATHS = 10  # early ones in a row; more than `crawl.max_crashes`
KILL_AFTER_S = 5.0  # after the second request to stop
NO_EXIT = 12  # exit code of a worker that waits no longer for a proxy that works
LOST = 5  # exit code of a worker whose crawl has vanished from the store
# Exit codes of a worker that is not restarted: nothing is left; a person has to change something;
# interrupted; a crawl is lost, of which the next worker would not even know; no proxy works.
FINAL_CODES = frozenset({0, 1, 3, LOST, NO_EXIT})


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """The end of a worker that is not restarted."""

    code: int  # negative for a signal
    log: Path
    given_up: bool = False  # it died too often


def pause_before(deaths: int) -> float | None:
    """Return the seconds before the next start, after `deaths` early deaths in a row; None: give up."""
    if deaths >= MAX_DEATHS:
        return None
    return FIRST_PAUSE_S * float(2**deaths)


def format_exit(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


class Supervisor:
    """`start` runs the worker of a number; `say` prints a line for the operator."""

    def __init__(
        self,
        start: Callable[[int], AbstractAsyncContextManager[ChildProcess]],
        stop: Stop,
        say: Callable[[str], None],
    ) -> None:
        self._start = start
        self._stop = stop
        self._say = say
        self._running: dict[int, ChildProcess] = {}
        self._kept: dict[int, asyncio.Task[WorkerEnd]] = {}
        self._retiring: set[int] = set()  # workers that were stopped because fewer are enough
        self._ended = asyncio.Event()  # one of them has
        self._group: asyncio.TaskGroup | None = None
        self._is_ending = False  # a worker found nothing left to do

    async def run(self, workers: int) -> list[WorkerEnd]:
        """Keep the workers running until each has ended normally, or is given up; return how they ended.

        `resize` changes their number; a worker that it stopped is not in the result.
        """
        ends: list[WorkerEnd] = []
        async with asyncio.TaskGroup() as group:
            self._group = group
            stopping = group.create_task(self._forward_stop(), name="fleet.stop")
            self.resize(workers)
            while self._kept:
                await self._ended.wait()
                self._ended.clear()
                for number in [number for number, task in self._kept.items() if task.done()]:
                    end = self._kept.pop(number).result()
                    if number in self._retiring:
                        self._retiring.discard(number)
                    else:
                        ends.append(end)
                        self._is_ending = True
            stopping.cancel()
        return ends

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of the workers that run, those that are being stopped included."""
        return sorted(self._kept)

    def resize(self, workers: int) -> None:
        """Start workers, or stop some: those finish what is in progress. Call it while `run` runs.

        Nothing is started when a worker has found nothing left to do, or was given up.
        """
        if self._group is None or self._is_ending or self._stop.drain.is_set():
            return
        active = sorted(self._kept.keys() - self._retiring)
        for number in active[workers:]:
            self._retiring.add(number)
            if (worker := self._running.get(number)) is not None:
                worker.signal(signal.SIGTERM)
        free = (number for number in count() if number not in self._kept)
        for _ in range(workers - len(active)):
            number = next(free)
            task = self._group.create_task(self._keep(number), name=f"fleet.worker.{number}")
            task.add_done_callback(lambda _: self._ended.set())
            self._kept[number] = task

    async def _keep(self, number: int) -> WorkerEnd:
        deaths = 0
        while True:
            began = time.monotonic()
            async with self._start(number) as worker:
                self._running[number] = worker
                if self._is_stopping(number):  # asked while this one was being started
                    worker.signal(signal.SIGTERM)
                code = await worker.ended()
            del self._running[number]
            if code in FINAL_CODES or self._is_stopping(number):
                return WorkerEnd(code, worker.log)
            deaths = deaths + 1 if time.monotonic() - began < EARLY_DEATH_S else 0
            what = f"worker {number + 1} {format_exit(code)}"
            if (pause := pause_before(deaths)) is None:
                self._say(
                    f"{what}, {deaths} times in a row soon after its start: it is not restarted;"
                    f" see {worker.log}"
                )
                return WorkerEnd(code, worker.log, given_up=True)
            self._say(f"{what}; restarting it in {pause:g} s. Other workers take over; see {worker.log}")
            await self._pause(pause)
            if self._is_stopping(number):
                return WorkerEnd(code, worker.log)

    def _is_stopping(self, number: int) -> bool:
        return self._stop.drain.is_set() or number in self._retiring

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.drain.wait()

    async def _forward_stop(self) -> None:
        """Send SIGTERM to the workers at the first and second request to stop, and SIGKILL after that."""
        await self._stop.drain.wait()
        self._signal(signal.SIGTERM)
        await self._stop.now.wait()
        self._signal(signal.SIGTERM)
        await asyncio.sleep(KILL_AFTER_S)
        self._signal(signal.SIGKILL)

    def _signal(self, signum: signal.Signals) -> None:
        for worker in self._running.values():
            worker.signal(signum)
