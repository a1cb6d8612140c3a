"""A command on a pseudo-terminal, as a person runs it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.command import SHOAL, TIMEOUT, surroundings


class Terminal:
    """What a command has written to its terminal, and the keys that are pressed there."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self.process = process
        self.text = ""

    def wait_for(self, text: str) -> None:
        """Wait until the command has written `text`."""
        until = time.monotonic() + TIMEOUT
        while text not in self.text:
            assert time.monotonic() < until, self.text
            assert self._read(), self.text

    def press(self, key: str) -> None:
        os.write(self._master, key.encode())

    def end(self) -> int:
        """Wait for the command to end; return its exit code."""
        while self._read():
            pass
        return self.process.wait(TIMEOUT)

    def _read(self) -> bool:
        readable, _, _ = select.select([self._master], [], [], TIMEOUT)
        try:
            found = os.read(self._master, 1 << 16) if readable else b""
        except OSError:  # the command has closed the terminal
            return False
        self.text += found.decode("utf-8", "backslashreplace")
        return bool(found)


@contextmanager
def on_terminal(
    *arguments: str, cwd: Path, env: Mapping[str, str] = {}, columns: int = 80, rows: int = 24
) -> Iterator[Terminal]:
    """Run a command on a terminal of this size; it is killed at the end of the block."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = surroundings({"TERM": "xterm", **env})
    process = subprocess.Popen(
        [*SHOAL, *arguments],
        cwd=cwd,
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
    )
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        process.kill()
        process.wait()
        os.close(master)
