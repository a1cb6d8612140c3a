"""Workers on one machine that die and are restarted."""

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
from shoal.worker.supervisor import MAX_DEATHS, Supervisor, format_exit, pause_before

DIES = "raise SystemExit(70)"
KILLED = f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"
DONE = "raise SystemExit(0)"
REFUSES = "raise SystemExit(1)"
WORKS = "import time; print(flush=True); time.sleep(600)"


class Bench:
    """A supervisor whose workers run the given programs in turn; the last one repeats."""

    def __init__(self, folder: Path, *lives: str) -> None:
        self.said: list[str] = []
        self.started = 0
        self.stop = Stop()
        self.supervisor = Supervisor(self._start, self.stop, self.said.append)
        self._lives: Sequence[str] = lives
        self._log = folder / "worker.log"

    @asynccontextmanager
    async def _start(self, number: int) -> AsyncIterator[ChildProcess]:
        life = self._lives[min(self.started, len(self._lives) - 1)]
        self.started += 1
        async with run_child([sys.executable, "-c", life], log=self._log, env=os.environ) as worker:
            yield worker

    async def running(self) -> None:
        while not (self._log.exists() and self._log.stat().st_size):  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.worker.supervisor.FIRST_PAUSE_S", 0.001)


async def test_a_worker_that_dies_is_restarted_until_it_ends_normally(tmp_path: Path) -> None:
    bench = Bench(tmp_path, KILLED, DIES, DONE)
    [end] = await bench.supervisor.run(1)

    assert (end.code, end.given_up, bench.started) == (0, False, 3)
    assert [line.partition(";")[0] for line in bench.said] == [
        "worker 1 was killed by SIGKILL",
        "worker 1 ended with exit code 70",
    ]


async def test_a_worker_that_dies_too_often_is_given_up(tmp_path: Path) -> None:
    bench = Bench(tmp_path, DIES)
    [end] = await bench.supervisor.run(1)

    assert (end.given_up, bench.started) == (True, MAX_DEATHS)
    assert f"{MAX_DEATHS} times in a row soon after its start: it is not restarted" in bench.said[-1]


async def test_a_misconfigured_worker_is_not_restarted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, REFUSES)
    [end] = await bench.supervisor.run(1)

    assert (end.code, bench.started, bench.said) == (1, 1, [])


async def test_workers_that_are_asked_to_stop_are_not_restarted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, WORKS)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(bench.supervisor.run(2))
        await bench.running()
        bench.stop.ask()

    assert [end.code for end in running.result()] == [-signal.SIGTERM] * 2
    assert (bench.started, bench.said) == (2, [])


async def test_a_request_to_stop_ends_the_pause_before_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.worker.supervisor.FIRST_PAUSE_S", 600.0)
    bench = Bench(tmp_path, DIES)
    async with asyncio.TaskGroup() as group:
        group.create_task(bench.supervisor.run(1))
        while not bench.said:  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.01)
        bench.stop.ask()

    assert bench.started == 1


def test_pauses_grow_and_end() -> None:
    pauses = [pause_before(deaths) for deaths in range(MAX_DEATHS)]
    assert pauses == sorted(pause for pause in pauses if pause is not None)
    assert pause_before(MAX_DEATHS) is None


def test_the_end_of_a_process_is_formatted() -> None:
    assert format_exit(70) == "ended with exit code 70"
    assert format_exit(-9) == "was killed by SIGKILL"
    assert format_exit(-99) == "was killed by signal 99"


async def test_a_fleet_grows_and_shrinks_while_it_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, WORKS)
    async with asyncio.TaskGroup() as group, asyncio.timeout(60):
        running = group.create_task(bench.supervisor.run(1))
        await bench.running()
        bench.supervisor.resize(3)
        while bench.started < 3:  # noqa: ASYNC110 (other processes)
            await asyncio.sleep(0.01)
        bench.supervisor.resize(2)
        bench.supervisor.resize(2)
        while len(bench.supervisor.numbers) > 2:  # noqa: ASYNC110 (other processes)
            await asyncio.sleep(0.01)
        assert bench.supervisor.numbers == [0, 1]
        bench.stop.ask()

    assert [end.code for end in running.result()] == [
        -signal.SIGTERM
    ] * 2  # without the one that was not needed
    assert (bench.started, bench.said) == (3, [])


async def test_a_worker_that_comes_back_does_not_wait_for_one_that_is_ending(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path, "import signal, time; signal.signal(15, lambda *_: time.sleep(0.5)); " + WORKS, WORKS
    )
    async with asyncio.TaskGroup() as group, asyncio.timeout(60):
        group.create_task(bench.supervisor.run(2))
        await bench.running()
        bench.supervisor.resize(1)
        bench.supervisor.resize(2)
        while bench.started < 3:  # noqa: ASYNC110 (other processes)
            await asyncio.sleep(0.01)
        bench.stop.ask()
        bench.stop.ask()


async def test_no_worker_is_started_when_nothing_is_left_to_do(tmp_path: Path) -> None:
    bench = Bench(tmp_path, DONE, WORKS)
    async with asyncio.TaskGroup() as group, asyncio.timeout(60):
        group.create_task(bench.supervisor.run(2))
        while bench.started < 2 or len(bench.supervisor.numbers) > 1:  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.01)
        bench.supervisor.resize(5)
        assert len(bench.supervisor.numbers) == 1
        bench.stop.ask()
    assert bench.started == 2
