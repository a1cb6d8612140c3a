"""Log what user code prints and logs, line by line, at a limited rate.

A spider that prints more blocks on the pipe, and a page that prints without end runs into its time limit.
"""

import asyncio
import logging
import os
from collections.abc import Callable

from shoal.parse.spider_log import decode_line

log = logging.getLogger("shoal.spider")  # a separate one: shown without -v

CHUNK_BYTES = 16 * 1024
MAX_LINES = 50  # of a chunk
MAX_LINE_CHARS = 3200
PAUSE_S = 0.05  # between two chunks: at most 320 KiB and 1,000 lines per second


def spider_log_level() -> int:
    """Return the level from which on records of a spider are logged."""
    return log.getEffectiveLevel()


def printable(text: str) -> str:
    """Return text for the log: cut to the limit, without control characters."""
    return "".join(c if c.isprintable() or c in "\t\n" else "\ufffd" for c in text[:MAX_LINE_CHARS])


def log_line(line: bytes, hide: Callable[[str], str] = str) -> None:
    """Log a line that user code has printed, or logged with a level and the name of a logger.

    `hide` replaces secrets.
    """
    text = line.decode("utf-8", "replace")
    if (record := decode_line(text)) is None:
        log.info("spider.output", extra={"line": printable(hide(text))})
    elif log.isEnabledFor(record.level):
        facts = {"logger": printable(record.logger), "line": printable(hide(record.text))}
        log.log(record.level, "spider.log", extra=facts)


class CapturedOutput:
    """Logs what arrives on `pipe`, which this object owns."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: int, hide: Callable[[str], str] = str) -> None:
        self._loop = loop
        self._hide = hide  # replaces secrets
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
        for line in filter(None, lines[:MAX_LINES]):
            log_line(line, self._hide)
        if len(lines) > MAX_LINES:
            log.info("spider.output", extra={"line": f"({len(lines) - MAX_LINES} more lines)"})
