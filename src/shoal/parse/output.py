"""Log what user code prints, line by line, at a limited rate.

A spider that prints more blocks on the pipe, and a page that prints without end runs into its time limit.
"""

import asyncio
import logging
import os

log = logging.getLogger(__name__)

CHUNK_BYTES = 16 * 1024
MAX_LINES = 50  # of a chunk
MAX_LINE_CHARS = 2000
PAUSE_S = 0.05  # between two chunks: at most 320 KiB and 1,000 lines per second


def printable(line: bytes) -> str:
    """Return a line for the log: cut to the limit, without control characters."""
    text = line.decode("utf-8", "replace")[:MAX_LINE_CHARS]
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)


class CapturedOutput:
    """Logs what arrives on `pipe`, which this object owns."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: int) -> None:
        self._loop = loop
        self._pipe = pipe
        self._rest = b""
        self._resume: asyncio.TimerHandle | None = None
        os.set_blocking(pipe, False)
        loop.add_reader(pipe, self._read)

    def close(self) -> None:
        """Log what is still in the pipe, at most one chunk, and close it."""
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._pipe)
        try:
            self._log(os.read(self._pipe, CHUNK_BYTES) + b"\n")
        except BlockingIOError:
            self._log(b"\n")
        os.close(self._pipe)

    def _read(self) -> None:
        data = os.read(self._pipe, CHUNK_BYTES)
        self._loop.remove_reader(self._pipe)
        if data:  # empty: all processes that could print have ended
            self._log(data)
            self._resume = self._loop.call_later(PAUSE_S, self._loop.add_reader, self._pipe, self._read)

    def _log(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > CHUNK_BYTES:
            lines, self._rest = [*lines, self._rest], b""
        shown = [printable(line) for line in lines[:MAX_LINES] if line]
        if len(lines) > MAX_LINES:
            shown.append(f"({len(lines) - MAX_LINES} more lines)")
        for line in shown:
            # A warning, so that the author of a spider sees it at the default level.
            log.warning("spider.output", extra={"line": line})
