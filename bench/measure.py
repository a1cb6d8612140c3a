"""What a command costs: CPU of all its processes, wall time, peak memory of all together.

The command runs below a small separate process (this module), which adopts whatever outlives its parent and
waits for all of it: only then is the kernel's account of CPU time complete.
"""

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil

ROOT = Path(__file__).parents[1]
PR_SET_CHILD_SUBREAPER = 36  # Linux, prctl(2)
SAMPLE = 0.2  # seconds between looks at memory


class Cost(msgspec.Struct, frozen=True):
    wall_s: float
    cpu_s: float  # user and system, of every process that the command started
    peak_bytes: int  # proportional set size, summed over the processes alive at one time
    exit_code: int


def run(
    command: Sequence[str],
    *,
    folder: Path = ROOT,
    cores: Sequence[int] = (),
    env: Mapping[str, str],
    timeout: float,
) -> Cost:
    """Run `command` in `folder` to its end, on `cores` alone if any are named, `timeout` seconds at most."""
    # Compiled modules are kept, as in any installation: compiling them all is most of what a start takes.
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.NamedTemporaryFile(prefix="bench-cost-") as result:
        adopter = [sys.executable, "-m", "bench.measure", result.name, str(timeout), str(folder), *command]
        with started_on(cores):
            process = subprocess.Popen(adopter, env={**own, **env}, cwd=ROOT)
        process.wait()
        return msgspec.json.decode(Path(result.name).read_bytes(), type=Cost)


@contextmanager
def started_on(cores: Sequence[int]) -> Iterator[None]:
    """Run processes that are started inside on `cores` only, if any are named."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _adopt(command: Sequence[str], folder: str, timeout: float) -> Cost:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder)
    with _Watch(deadline=began + timeout) as watch:
        exit_code = process.wait()
        wall_s = time.perf_counter() - began
        _wait_for_the_rest()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, watch.peak_bytes, exit_code)


def _wait_for_the_rest() -> None:
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


class _Watch:
    """Looks at all processes below this one from time to time, and ends them at the deadline."""

    def __init__(self, *, deadline: float) -> None:
        self.peak_bytes = 0
        self._deadline = deadline
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE):
            processes = psutil.Process().children(recursive=True)
            self.peak_bytes = max(self.peak_bytes, sum(map(_pss, processes)))
            if time.perf_counter() > self._deadline:
                for process in processes:
                    process.kill()


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:  # it ended while we looked
        return 0


if __name__ == "__main__":
    result, timeout, folder, *command = sys.argv[1:]
    Path(result).write_bytes(msgspec.json.encode(_adopt(command, folder, float(timeout))))
