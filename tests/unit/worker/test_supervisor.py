"""Workers on one machine that die, and are started again."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shoal.child_process import ChildProcess, run_child
from shoal.engine.plan import Stop
from shoal.worker.supervisor import MOST, Supervisor, pause_before, told

DIES = "raise SystemExit(70)"
KILLED = f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"
DONE = "raise SystemExit(0)"
REFUSES = "raise SystemExit(1)"
WORKS = "import time; print(flush=True); time.sleep(600)"


class Bench:
    """A crew whose workers do what they are told, one after the other; the last one again and again."""

    def __init__(self, folder: Path, *lives: str) -> None:
        self.said: list[str] = []
        self.started = 0
        self.stop = Stop()
        self.crew = Supervisor(self._start, self.stop, self.said.append)
        self._lives: Sequence[str] = lives
        self._log = folder / "worker.log"

    @asynccontextmanager
    async def _start(self, place: int) -> AsyncIterator[ChildProcess]:
        life = self._lives[min(self.started, len(self._lives) - 1)]
        self.started += 1
        async with run_child([sys.executable, "-c", life], log=self._log, env=os.environ) as worker:
            yield worker

    async def at_work(self) -> None:
        while not (self._log.exists() and self._log.stat().st_size):  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.worker.supervisor.FIRST_PAUSE", 0.001)


async def test_a_worker_that_dies_is_replaced_until_one_ends_in_good_order(tmp_path: Path) -> None:
    bench = Bench(tmp_path, KILLED, DIES, DONE)
    [end] = await bench.crew.run(1)

    assert (end.code, end.given_up, bench.started) == (0, False, 3)
    assert [line.partition(";")[0] for line in bench.said] == [
        "worker 1 was killed by SIGKILL",
        "worker 1 ended with exit code 70",
    ]


async def test_a_worker_that_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    bench = Bench(tmp_path, DIES)
    [end] = await bench.crew.run(1)

    assert (end.given_up, bench.started) == (True, MOST)
    assert f"{MOST} times in a row soon after its start: it is not started again" in bench.said[-1]


async def test_a_worker_that_no_start_can_help_is_not_started_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, REFUSES)
    [end] = await bench.crew.run(1)

    assert (end.code, bench.started, bench.said) == (1, 1, [])


async def test_a_crew_that_is_asked_to_stop_is_not_started_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, WORKS)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(bench.crew.run(2))
        await bench.at_work()
        bench.stop.ask()

    assert [end.code for end in running.result()] == [-signal.SIGTERM] * 2
    assert (bench.started, bench.said) == (2, [])


async def test_a_crew_that_is_asked_to_stop_waits_for_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.worker.supervisor.FIRST_PAUSE", 600.0)
    bench = Bench(tmp_path, DIES)
    async with asyncio.TaskGroup() as group:
        group.create_task(bench.crew.run(1))
        while not bench.said:  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.01)
        bench.stop.ask()

    assert bench.started == 1


def test_pauses_grow_and_end() -> None:
    pauses = [pause_before(deaths) for deaths in range(MOST)]
    assert pauses == sorted(pause for pause in pauses if pause is not None)
    assert pause_before(MOST) is None


def test_how_a_process_ended_is_put_in_words() -> None:
    assert told(70) == "ended with exit code 70"
    assert told(-9) == "was killed by SIGKILL"
    assert told(-99) == "was killed by signal 99"
