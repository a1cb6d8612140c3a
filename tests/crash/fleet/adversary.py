"""An adversary of a fleet: it kills workers, stops them for longer than a lease, and kills what they share.

What it does, and in which order, comes from a seed. When it does it is up to the machine, so a seed that once
failed need not fail again; it fails more often than others.
"""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from tests.fleet_crawl import Fleet, Worker

MAX_REST_S = 900.0  # until a crawl that is left alone has to be finished
MAX_STOPPED = 2  # workers at once, so that others continue the crawl


class Deed(Enum):
    KILL = "kill -9 of a worker and its children; another one takes its place"
    STOP = "SIGSTOP of a worker until its leases have run out, then SIGCONT"
    STRIKE = "what the scenario does to the store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Malice:
    """How much is done, and how soon after one another."""

    kills: int
    stops: int = 0
    strikes: int = 0
    pauses: tuple[float, float] = (0.5, 2.0)  # seconds between two deeds, at least and at most

    @property
    def deeds(self) -> tuple[int, int, int]:
        return self.kills, self.stops, self.strikes

    def plan(self, rng: random.Random) -> list[Deed]:
        deeds = [Deed.KILL] * self.kills + [Deed.STOP] * self.stops + [Deed.STRIKE] * self.strikes
        rng.shuffle(deeds)
        return deeds


@dataclass(slots=True)
class Adversary:
    """`roles`: the options of each worker; its replacement gets the same."""

    fleet: Fleet
    rng: random.Random
    roles: Sequence[tuple[str, ...]]
    strike: Callable[[], Awaitable[None]]
    kills: int = 0
    stops: int = 0
    strikes: int = 0
    _posts: list[Worker] = field(default_factory=list)
    _stopped: dict[int, asyncio.Task[None]] = field(default_factory=dict)  # by number of the post

    @property
    def done(self) -> tuple[int, int, int]:
        return self.kills, self.stops, self.strikes

    async def torment(self, malice: Malice) -> list[int]:
        """Run the workers, do everything that is planned, then wait; return the exit codes of the workers."""
        self._posts = [self._start(number) for number in range(len(self.roles))]
        for deed in malice.plan(self.rng):
            await asyncio.sleep(self.rng.uniform(*malice.pauses))
            # One that has ended by itself is done, and the crawl with it, or has failed: the caller sees which.
            if any(worker.poll() is not None for worker in self._posts):
                break
            await self._do(deed)
        await asyncio.gather(*self._stopped.values())
        return [await self.fleet.ended(worker, within=MAX_REST_S) for worker in self._posts]

    async def _do(self, deed: Deed) -> None:
        match deed:
            case Deed.KILL:
                number = self._pick()
                self.fleet.kill(self._posts[number])
                self._posts[number] = self._start(number)
                self.kills += 1
            case Deed.STOP:
                while len(self._stopped) >= MAX_STOPPED:
                    await asyncio.wait(self._stopped.values(), return_when=asyncio.FIRST_COMPLETED)
                number = self._pick()
                for_s = self.fleet.lease * self.rng.uniform(1.1, 2.0)
                self._stopped[number] = asyncio.create_task(self._stop(number, for_s))
                self.stops += 1
            case Deed.STRIKE:
                await self.strike()
                self.strikes += 1

    def _pick(self) -> int:
        return self.rng.choice([number for number in range(len(self._posts)) if number not in self._stopped])

    def _start(self, number: int) -> Worker:
        return self.fleet.start("--until-done", *self.roles[number])

    async def _stop(self, number: int, for_s: float) -> None:
        group = self._posts[number].pid
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGSTOP)
            await asyncio.sleep(for_s)
            os.killpg(group, signal.SIGCONT)
        del self._stopped[number]
