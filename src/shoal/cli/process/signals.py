"""Signals: the first one drains, the second stops at once, the third has its default effect."""

import asyncio
import re
import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from shoal.services.crawl import Stop

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_COLONS = re.compile(r"^((?:--proxy=)?[^\s/:]+:\d+):[^/].*")  # an exit: HOST:PORT:USER:PASSWORD
_PASSWORD = re.compile(r"(?<=://)[^/@\s]*@")


def resume_command(arguments: Sequence[str]) -> str:
    """Return the command that resumes this one: the same, without `--fresh` and without passwords."""
    left_out = ("--fresh", "--yes", "-y")
    kept = [
        _COLONS.sub(r"\1:***", _PASSWORD.sub("***@", argument))
        for argument in arguments
        if argument not in left_out
    ]
    return shlex.join(["shoal", *kept])


def interrupt() -> None:
    """Do what Ctrl-C does."""
    signal.raise_signal(signal.SIGINT)


@contextmanager
def stop_on_signals(stop: Stop, message: Callable[[str], None], *, resume: str) -> Iterator[None]:
    """Set `stop` on signals while the block runs; `resume` is the command that resumes."""
    loop = asyncio.get_running_loop()

    def handle(number: signal.Signals) -> None:
        first = not stop.drain.is_set()
        stop.ask()
        if first:
            message(
                f"{number.name}: finishing requests in progress; repeat to stop at once;"
                f" resume with: {resume}"
            )
            return
        message(f"{number.name}: stopping now; nothing is lost, resume with: {resume}")
        for each in STOP_SIGNALS:  # stopping may itself hang: the next signal ends the process
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
