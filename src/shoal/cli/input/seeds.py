"""Start URLs from a file or standard input: one a line, each judged by itself, however many there are.

Lines are read a chunk at a time, and the next chunk only when the URLs of the one before are in the frontier:
memory does not depend on the length of the list, and a writer that takes its time is waited for.
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

from shoal.cli.views.output import tell
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.url import canonical

log = logging.getLogger("shoal.progress")

STDIN = "-"
SHOWN = 10  # complaints that are told in full; a file of something else would fill the screen
CHUNK = 256 * 1024  # bytes: some thousand URLs
LONGEST = 64 * 1024  # characters of a line; what is longer is no URL, and need not be held
LINE_EVERY = 5.0  # seconds between two words on how far it is


class SeedFile:
    """An open list of start URLs; `first` is the first of them."""

    def __init__(self, path: str) -> None:
        self.name = "standard input" if path == STDIN else path
        self.new = self.known = self.bad = 0
        self.lines = 0
        self._ahead: list[str] = []  # URLs that were read and not handed out
        self._complaints: list[str] = []  # that were not told yet
        self._rest = ""  # of a line whose end has not come
        self._ended = False
        self._reading = False
        # Line breaks of all three systems, also where one falls on the border between two chunks.
        utf8 = getincrementaldecoder("utf-8-sig")(errors="surrogateescape")
        self._text = io.IncrementalNewlineDecoder(utf8, translate=True)
        try:
            self._raw = io.FileIO(sys.stdin.fileno() if path == STDIN else path, closefd=path != STDIN)
        except OSError as error:
            raise Misconfigured(f"--seeds {path}: cannot be read: {error.strerror}") from None
        self._read: Callable[[int], bytes | None] = self._raw.read
        if path.endswith(".gz"):
            self._read = gzip.GzipFile(fileobj=io.BufferedReader(self._raw)).read1
        self.first = self._find_first()

    def _find_first(self) -> str:
        while not self._ahead and not self._ended:
            self._take(self._chunk())
        if not self._ahead:
            self.close()
            first = f", and the first line is wrong: {self._complaints[0]}" if self._complaints else ""
            raise Misconfigured(f"--seeds: no start URL in {self.name}{first}")
        return self._ahead[0]

    def close(self) -> None:
        if not self._reading:  # else the thread that reads still has it, and ends with the process
            self._raw.close()

    async def pieces(self) -> AsyncGenerator[Sequence[str], None]:
        """Give the URLs as they come, in pieces; complaints and progress go to standard error meanwhile."""
        due = time.monotonic() + LINE_EVERY
        try:
            while True:
                self._complain()
                urls, self._ahead = self._ahead, []
                if urls:
                    yield urls
                if self._ended:
                    return
                if time.monotonic() >= due:
                    due = time.monotonic() + LINE_EVERY
                    log.info("seeds.progress", extra=self._progress())
                self._reading = True
                self._take(await _aside(self._chunk))
        finally:
            self.close()
            if self.bad > SHOWN:
                tell(f"{self.name}: and {self.bad - SHOWN:,} more lines that are no start URLs")

    def _progress(self) -> dict[str, object]:
        size = os.fstat(self._raw.fileno()).st_size  # 0: whoever writes it knows
        share = {"percent": round(100 * self._raw.tell() / size)} if size else {}
        return {"lines": self.lines, "new": self.new, "known": self.known, "bad": self.bad, **share}

    def _chunk(self) -> bytes:
        """Read what is there, waiting only if there is nothing; empty: the end."""
        try:
            return self._read(CHUNK) or b""
        except (OSError, EOFError, zlib.error) as error:
            why = getattr(error, "strerror", None) or error
            raise Misconfigured(
                f"--seeds: {self.name} cannot be read after line {self.lines}: {why}"
            ) from None
        finally:
            self._reading = False

    def _take(self, chunk: bytes) -> None:
        """Judge the lines that a chunk completes."""
        *lines, self._rest = (self._rest + self._text.decode(chunk, final=not chunk)).split("\n")
        if not chunk:
            self._ended = True
            lines += [self._rest] if self._rest else []
        self._rest = self._rest[: LONGEST + 1]
        for line in lines:
            self.lines += 1
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            try:
                self._ahead.append(start_url(text))
            except Rejected as error:
                self.bad += 1
                if self.bad <= SHOWN:
                    self._complaints.append(f"{self.name}:{self.lines}: {error}")

    def _complain(self) -> None:
        for complaint in self._complaints:
            tell(complaint)
        self._complaints.clear()


def start_url(text: str) -> str:
    """Spell a start URL in canonical form; raises `Rejected` for what is none."""
    if len(text) > LONGEST:
        raise Rejected(f"longer than {LONGEST:,} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Rejected("not a text in UTF-8") from None
    url = canonical(text)
    if not url.startswith(("http://", "https://")):
        raise Rejected(f"only http and https can be crawled: {text[:200]!r}")
    return url


def _aside(read: Callable[[], bytes]) -> "asyncio.Future[bytes]":
    """Read in a thread that nobody has to wait for: it may hang for as long as somebody writes nothing."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[bytes] = loop.create_future()

    def put(data: bytes | None, error: Exception | None) -> None:
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
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(put, data, error)

    threading.Thread(target=run, name="seeds", daemon=True).start()
    return future
