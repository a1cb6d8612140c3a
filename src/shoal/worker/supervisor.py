"""The workers of a fleet on one machine: processes that are started again when they die.

A worker that dies loses nothing, but what it had in hand waits for its lease to run out, and the others have
its work to do. So it is started again: soon the first time, later and later if it dies soon each time. One
that does so again and again is not started any more, since something is wrong that a start does not mend.
A page that kills whoever takes it is given up before (`crawl.max_crashes`).
"""

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from shoal.child_process import ChildProcess
from shoal.engine.plan import Stop

FIRST_PAUSE = 0.5  # seconds
SOON = 10.0  # seconds after its start: a worker that dies before has hardly begun
MOST = 5  # deaths in a row, each soon after the start
LAST_WORDS = 5.0  # seconds between the second request to stop and the end
# Nothing is left to do; a person has to change something; somebody has asked it to stop.
LEFT = frozenset({0, 1, 3})


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """How a worker has ended for good."""

    code: int  # negative for a signal
    log: Path
    given_up: bool = False  # it died again and again


def pause_before(deaths: int) -> float | None:
    """Say how long to wait before the next start, after so many deaths soon after a start; None: for ever."""
    if deaths >= MOST:
        return None
    return FIRST_PAUSE * float(2**deaths)


def told(code: int) -> str:
    """Say how a process ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


class Supervisor:
    """`start` runs the worker of a place; what people should know is said to `say`."""

    def __init__(
        self,
        start: Callable[[int], AbstractAsyncContextManager[ChildProcess]],
        stop: Stop,
        say: Callable[[str], None],
    ) -> None:
        self._start = start
        self._stop = stop
        self._say = say
        self._at_work: dict[int, ChildProcess] = {}

    async def run(self, places: int) -> list[WorkerEnd]:
        """Keep every place filled until its worker has ended in good order, or is given up."""
        async with asyncio.TaskGroup() as group:
            heed = group.create_task(self._heed(), name="fleet.stop")
            posts = [
                group.create_task(self._keep(place), name=f"fleet.worker.{place}") for place in range(places)
            ]
            await asyncio.wait(posts)
            heed.cancel()
        return [post.result() for post in posts]

    async def _keep(self, place: int) -> WorkerEnd:
        deaths = 0
        while True:
            began = time.monotonic()
            async with self._start(place) as worker:
                self._at_work[place] = worker
                if self._stop.drain.is_set():  # it was asked while this one was being started
                    worker.signal(signal.SIGTERM)
                code = await worker.ended()
            del self._at_work[place]
            if code in LEFT or self._stop.drain.is_set():
                return WorkerEnd(code, worker.log)
            deaths = deaths + 1 if time.monotonic() - began < SOON else 0
            what = f"worker {place + 1} {told(code)}"
            if (pause := pause_before(deaths)) is None:
                self._say(
                    f"{what}, {deaths} times in a row soon after its start: it is not started again;"
                    f" {worker.log} says why"
                )
                return WorkerEnd(code, worker.log, given_up=True)
            self._say(
                f"{what}; starting another one in {pause:g} s. What it had is done by others; {worker.log}"
            )
            await self._rest(pause)
            if self._stop.drain.is_set():
                return WorkerEnd(code, worker.log)

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.drain.wait()

    async def _heed(self) -> None:
        """Pass requests to stop on: the first lets workers finish what they have, the second does not."""
        await self._stop.drain.wait()
        self._signal(signal.SIGTERM)
        await self._stop.now.wait()
        self._signal(signal.SIGTERM)
        await asyncio.sleep(LAST_WORDS)
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for worker in self._at_work.values():
            worker.signal(number)
