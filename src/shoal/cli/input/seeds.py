"""Start URLs from a file, standard input or a query: one per line, each checked on its own.

The reader takes the next chunk of lines only after the URLs of the previous one are in the frontier, so
memory does not depend on the length of the list. A slow writer at the other end of a pipe only delays the
crawl.
"""

import asyncio
import gzip
import io
import logging
import os
import sys
import threading
import time
import zlib
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Protocol

from shoal.cli.views.output import print_message
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.start_url import MAX_LINE_CHARS, start_url

log = logging.getLogger("shoal.progress")

STDIN = "-"
MAX_REPORTED_LINES = 10  # bad lines that are printed; a file of something else would fill the screen
CHUNK_BYTES = 256 * 1024  # some thousand URLs
PROGRESS_EVERY_S = 5.0


class SeedSource(Protocol):
    """The bytes of a list."""

    def read(self, size: int, /) -> bytes:
        """Return some bytes, waiting for the first of them; b"": that was all."""

    def close(self) -> None: ...


class _FileSource:
    """A file, or standard input."""

    def __init__(self, path: str) -> None:
        try:
            self._raw = io.FileIO(sys.stdin.fileno() if path == STDIN else path, closefd=path != STDIN)
        except OSError as error:
            raise Misconfigured(f"--seeds {path}: cannot be read: {error.strerror}") from None
        self._read: Callable[[int], bytes | None] = self._raw.read
        if path.endswith(".gz"):
            self._read = gzip.GzipFile(fileobj=io.BufferedReader(self._raw)).read1

    def read(self, size: int) -> bytes:
        return self._read(size) or b""

    def close(self) -> None:
        self._raw.close()

    @property
    def percent(self) -> int | None:
        """Return how much was read; None: the size of a pipe is not known."""
        size = os.fstat(self._raw.fileno()).st_size
        return round(100 * self._raw.tell() / size) if size else None


class SeedFile:
    """An open list of start URLs; `first` is the first of them. `source` is read instead of a file."""

    def __init__(self, path: str, source: SeedSource | None = None) -> None:
        self.name = "standard input" if path == STDIN else path
        self.new = self.known = self.bad = 0
        self.lines = 0
        self._urls: list[str] = []  # read and not yielded yet
        self._errors: list[str] = []  # not printed yet
        self._partial_line = ""
        self._ended = False
        self._reading = False
        self._chunk: asyncio.Future[bytes] | None = None  # being read
        self._reported = False  # how many bad lines there were
        # Accepts the line breaks of all three systems, also one that is split between two chunks.
        utf8 = getincrementaldecoder("utf-8-sig")(errors="surrogateescape")
        self._text = io.IncrementalNewlineDecoder(utf8, translate=True)
        self._source = source or _FileSource(path)
        self.first = self._find_first()

    def _find_first(self) -> str:
        while not self._urls and not self._ended:
            self._parse(self._read_chunk())
        if not self._urls:
            self.close()
            first = f"; the first bad line: {self._errors[0]}" if self._errors else ""
            raise Misconfigured(f"--seeds: no start URL in {self.name}{first}")
        return self._urls[0]

    def close(self) -> None:
        if not self._reading:  # else the reading thread still uses it, and ends with the process
            self._source.close()

    async def pieces(self) -> AsyncGenerator[Sequence[str], None]:
        """Yield the URLs in lists as they are read; print bad lines and progress on standard error."""
        due = time.monotonic() + PROGRESS_EVERY_S
        while True:
            self._print_errors()
            if self._urls:
                yield self._urls
                self._urls = []  # not before: an interrupted reader gets them again
            if self._ended:
                break
            if time.monotonic() >= due:
                due = time.monotonic() + PROGRESS_EVERY_S
                log.info("seeds.progress", extra=self._progress())
            if self._chunk is None:
                self._reading = True
                self._chunk = _read_in_thread(self._read_chunk)
            # Shielded: standard input cannot be read twice, so what was read is kept for the next call.
            try:
                chunk, self._chunk = await asyncio.shield(self._chunk), None
            except Misconfigured:
                self.close()
                raise
            self._parse(chunk)
        self.close()
        if (more := self.bad - MAX_REPORTED_LINES) > 0 and not self._reported:
            self._reported = True
            print_message(f"{self.name}: and {more:,} more lines that are not start URLs")

    def _progress(self) -> dict[str, object]:
        percent = getattr(self._source, "percent", None)
        share = {} if percent is None else {"percent": percent}
        return {"lines": self.lines, "new": self.new, "known": self.known, "bad": self.bad, **share}

    def _read_chunk(self) -> bytes:
        """Read what is available; block only if nothing is. Return b"" at the end."""
        try:
            return self._source.read(CHUNK_BYTES)
        except (OSError, EOFError, zlib.error) as error:
            why = getattr(error, "strerror", None) or error
            raise Misconfigured(
                f"--seeds: {self.name} cannot be read after line {self.lines}: {why}"
            ) from None
        finally:
            self._reading = False

    def _parse(self, chunk: bytes) -> None:
        """Check the lines that a chunk completes."""
        text = self._partial_line + self._text.decode(chunk, final=not chunk)
        *lines, self._partial_line = text.split("\n")
        if not chunk:
            self._ended = True
            lines += [self._partial_line] if self._partial_line else []
        self._partial_line = self._partial_line[: MAX_LINE_CHARS + 1]
        for line in lines:
            self.lines += 1
            url = line.strip()
            if not url or url.startswith("#"):
                continue
            try:
                self._urls.append(start_url(url))
            except Rejected as error:
                self.bad += 1
                if self.bad <= MAX_REPORTED_LINES:
                    self._errors.append(f"{self.name}:{self.lines}: {error}")

    def _print_errors(self) -> None:
        for error in self._errors:
            print_message(error)
        self._errors.clear()


def _read_in_thread(read: Callable[[], bytes]) -> "asyncio.Future[bytes]":
    """Read in a daemon thread: the read may block for as long as the writer sends nothing."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[bytes] = loop.create_future()

    def resolve(data: bytes | None, error: Exception | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(data or b"")

    def run() -> None:
        data, error = None, None
        try:
            data = read()
        except Exception as caught:
            error = caught
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(resolve, data, error)

    threading.Thread(target=run, name="seeds", daemon=True).start()
    return future
