"""What a command costs: CPU of all its processes, wall time, peak memory of all together."""

import ctypes
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

PR_SET_CHILD_SUBREAPER = 36  # Linux, prctl(2)
SAMPLE = 0.2  # seconds between looks at memory


@dataclass(frozen=True, slots=True)
class Cost:
    wall_s: float
    cpu_s: float  # user and system, of every process that the command started
    peak_bytes: int  # proportional set size, summed over the processes alive at one time
    exit_code: int


def run(command: Sequence[str], *, cores: Sequence[int] = (), env: Mapping[str, str], timeout: float) -> Cost:
    """Run `command` to its end, on `cores` alone if any are named."""
    # Processes that outlive their parent become ours, so that waiting for them counts their time too.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = _cpu_of_children()
    began = time.perf_counter()
    with started_on(cores):
        process = subprocess.Popen(command, env={**os.environ, **env}, start_new_session=True)
    with _MemoryWatch(process.pid) as memory:
        try:
            exit_code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            exit_code = process.wait()
        wall_s = time.perf_counter() - began
    _wait_for_group(process.pid)
    return Cost(wall_s, _cpu_of_children() - before, memory.peak_bytes, exit_code)


@contextmanager
def started_on(cores: Sequence[int]) -> Iterator[None]:
    """Let processes that are started inside run on `cores` alone, if any are named."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _wait_for_group(group: int) -> None:
    try:
        while True:
            os.waitpid(-group, 0)
    except ChildProcessError:
        return


class _MemoryWatch:
    """Looks at a process and all below it from time to time."""

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self._root = psutil.Process(pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_MemoryWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE):
            self.peak_bytes = max(self.peak_bytes, self._look())

    def _look(self) -> int:
        total = 0
        try:
            for process in (self._root, *self._root.children(recursive=True)):
                total += process.memory_full_info().pss
        except psutil.Error:  # one of them ended while we looked
            return 0
        return total
