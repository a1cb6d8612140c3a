"""`shoal crawl --every`: the same crawl again and again, until it is asked to stop.

Each run is a process with the same arguments and `--again`: it resumes an interrupted run, else it begins a
new generation. A run that takes longer than the interval skips the ticks that it covers.
"""

import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from types import FrameType

from shoal.cli.process.exit_codes import ExitCode

# After these the next run may succeed. After others a person has to act, or the run was interrupted.
CONTINUE_AFTER = frozenset(
    {
        ExitCode.FINISHED,
        ExitCode.DEAD_LETTERS,
        ExitCode.UNAVAILABLE,
        ExitCode.BAD_LINES,
        ExitCode.KEPT,
        ExitCode.HELD,
        ExitCode.NO_DATA,
        ExitCode.YIELD_DROPPED,
        ExitCode.NO_EXIT,
    }
)
LOOK_EVERY_S = 0.5


def arguments_of_a_run(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of one run: without `--every`, with `--again`."""
    kept: list[str] = []
    given = iter(arguments)
    for argument in given:
        if argument == "--":
            return [*kept, *_again(kept), argument, *given]
        if argument == "--every":
            next(given, None)
        elif not argument.startswith("--every="):
            kept.append(argument)
    return [*kept, *_again(kept)]


def _again(given: Sequence[str]) -> list[str]:
    return [] if "--again" in given else ["--again"]


def next_tick(began: float, every: float, now: float) -> tuple[float, int]:
    """Return when the next run starts, and how many ticks a run that ended at `now` has skipped."""
    passed = max(0, math.floor((now - began) / every))
    return began + (passed + 1) * every, max(0, passed)


class Repetition:
    """Runs a command at every tick; the first run starts at once."""

    def __init__(
        self, command: Sequence[str], every: float, say: Callable[[str], None], *, quiet: bool = False
    ) -> None:
        self._command = command
        self._every = every
        self._say = (lambda _: None) if quiet else say
        self._stopped = False
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Run until a signal, or until a run ends as another one cannot repair; return the code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        tick = time.time()
        while True:
            self._child = subprocess.Popen(self._command)  # noqa: S603 - the arguments of this process
            code = self._child.wait()
            if self._stopped:
                return ExitCode.INTERRUPTED if code in (0, -signal.SIGTERM) else code
            if code not in CONTINUE_AFTER:
                return code if code >= 0 else ExitCode.UNAVAILABLE
            tick, skipped = next_tick(tick, self._every, time.time())
            late = f"; it took longer than --every, {skipped} skipped" if skipped else ""
            self._say(
                f"next run at {datetime.fromtimestamp(tick):%Y-%m-%d %H:%M:%S}{late} (Ctrl-C ends this)"
            )
            while not self._stopped and (left := tick - time.time()) > 0:
                time.sleep(min(left, LOOK_EVERY_S))
            if self._stopped:
                return ExitCode.FINISHED

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """End after the current run, which drains; Ctrl-C has reached it by itself."""
        self._stopped = True
        if number == signal.SIGTERM and self._child is not None and self._child.poll() is None:
            self._child.terminate()


def repeat(every: float, say: Callable[[str], None], *, quiet: bool) -> int:
    """Run this process's own command at every tick."""
    command = [sys.executable, "-m", "shoal", *arguments_of_a_run(sys.argv[1:])]
    return Repetition(command, every, say, quiet=quiet).run()
