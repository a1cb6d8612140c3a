"""What user code prints: read from a pipe, logged line by line, at a pace that cannot hurt the parent.

A spider that prints more waits for the pipe, and a page that prints without end runs into its own wall clock.
"""

import asyncio
import logging
import os

log = logging.getLogger(__name__)

CHUNK = 16 * 1024
LINES = 50  # shown of a chunk
LINE = 2000  # characters shown of a line
PAUSE = 0.05  # seconds between two chunks: at most 320 KiB and 1,000 lines each second


def printable(line: bytes) -> str:
    """Make a line fit to be shown: not too long, and nothing that a terminal would obey."""
    text = line.decode("utf-8", "replace")[:LINE]
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)


class CapturedOutput:
    """Log what comes out of `pipe`, which this object owns."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: int) -> None:
        self._loop = loop
        self._pipe = pipe
        self._rest = b""
        self._resume: asyncio.TimerHandle | None = None
        os.set_blocking(pipe, False)
        loop.add_reader(pipe, self._read)

    def close(self) -> None:
        """Log what is still in the pipe, at most one chunk of it, and let go of it."""
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._pipe)
        try:
            self._log(os.read(self._pipe, CHUNK) + b"\n")
        except BlockingIOError:
            self._log(b"\n")
        os.close(self._pipe)

    def _read(self) -> None:
        data = os.read(self._pipe, CHUNK)
        self._loop.remove_reader(self._pipe)
        if data:  # else everybody who could print is gone
            self._log(data)
            self._resume = self._loop.call_later(PAUSE, self._loop.add_reader, self._pipe, self._read)

    def _log(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > CHUNK:
            lines, self._rest = [*lines, self._rest], b""
        shown = [printable(line) for line in lines[:LINES] if line]
        if len(lines) > LINES:
            shown.append(f"({len(lines) - LINES} more lines)")
        for line in shown:
            log.warning("spider.output", extra={"line": line})  # by default, whoever prints wants to read it
