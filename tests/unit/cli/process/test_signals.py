import os
import signal
import subprocess
import sys

import pytest

from shoal.cli.process.signals import STOP_SIGNALS, resume_command, stop_on_signals
from shoal.services.crawl import Stop


async def deliver(number: int, stop: Stop, *, now: bool = False) -> None:
    os.kill(os.getpid(), number)
    await (stop.now if now else stop.drain).wait()


@pytest.mark.parametrize("number", STOP_SIGNALS)
async def test_the_first_signal_drains_the_second_stops_and_both_print_how_to_resume(
    number: signal.Signals,
) -> None:
    stop, messages = Stop(), list[str]()
    before = signal.getsignal(number)
    try:
        with stop_on_signals(stop, messages.append, resume="shoal crawl x"):
            await deliver(number, stop)
            assert not stop.now.is_set()
            await deliver(number, stop, now=True)
    finally:
        signal.signal(number, before)

    assert [text.rpartition(": ")[2] for text in messages] == ["shoal crawl x", "shoal crawl x"]
    assert "finishing requests in progress" in messages[0]
    assert "stopping now" in messages[1]


HANGS = """
import asyncio, os, signal, sys
from shoal.cli.process.signals import stop_on_signals
from shoal.services.crawl import Stop

async def main():
    stop = Stop()
    with stop_on_signals(stop, lambda text: None, resume=""):
        for event in (stop.drain, stop.now):
            os.kill(os.getpid(), signal.SIGTERM)
            await event.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(60)

asyncio.run(main())
"""


def test_the_third_signal_ends_a_program_whose_stopping_hangs() -> None:
    assert subprocess.run([sys.executable, "-c", HANGS], check=False).returncode == -signal.SIGTERM


def test_the_command_that_resumes_has_neither_fresh_nor_a_password() -> None:
    typed = ["crawl", "my spider.py", "--fresh", "--store", "redis://user:secret@host/0"]
    assert resume_command(typed) == "shoal crawl 'my spider.py' --store 'redis://***@host/0'"
