"""Keys that the user presses while a screen is shown: `q` does what Ctrl-C does."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

HINT = "q quits"


def can_read_keys() -> bool:
    """Return whether standard input is a terminal whose foreground process is this one.

    A process in the background would be stopped for changing its terminal.
    """
    try:
        fd = sys.stdin.fileno()
        return os.isatty(fd) and os.tcgetpgrp(fd) == os.getpgrp()
    except (AttributeError, OSError, ValueError):  # no standard input, or a closed one
        return False


@contextmanager
def quit_key(on_quit: Callable[[], None]) -> Iterator[None]:
    """Call `on_quit` for each `q` that is pressed while the block runs, if keys can be read."""
    if not can_read_keys():
        yield
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            pressed = os.read(fd, 64)
        except OSError:
            pressed = b""
        if not pressed:  # the terminal is gone
            loop.remove_reader(fd)
        elif b"q" in pressed or b"Q" in pressed:
            on_quit()

    tty.setcbreak(fd, termios.TCSANOW)  # a key counts without Enter; Ctrl-C stays a signal
    loop.add_reader(fd, read)
    try:
        yield
    finally:
        loop.remove_reader(fd)
        with suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSANOW, before)
