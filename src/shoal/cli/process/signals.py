"""Signals: the first one drains, the second stops at once, the third is the system's."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shoal.engine.plan import Stop

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stopped_by_signals(stop: Stop, say: Callable[[str], None], *, resume: str) -> Iterator[None]:
    """Turn signals into requests to stop while the block runs; `resume` is the command that goes on."""
    loop = asyncio.get_running_loop()

    def asked(number: signal.Signals) -> None:
        first = not stop.drain.is_set()
        stop.ask()
        if first:
            say(f"{number.name}: finishing what is in hand, once more stops at once; go on with: {resume}")
            return
        say(f"{number.name}: stopping now; nothing is lost, go on with: {resume}")
        for each in ASKING:  # stopping may itself hang: the next signal does what it does to any program
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)

    for number in ASKING:
        loop.add_signal_handler(number, asked, number)
    try:
        yield
    finally:
        for number in ASKING:
            loop.remove_signal_handler(number)
