"""Receive one response: parsed by llhttp, with limits applied as bytes arrive. No socket.

llhttp refuses most broken framing: a duplicate, signed or overflowing Content-Length, one together with
Transfer-Encoding, bad chunk sizes, bare line feeds. What it refuses near the start of a response is read
again by `lenient.py`, and then the connection is closed. This module also refuses transfer encodings other
than chunked, too many or too large headers, trailers and chunk framing, bodies where none is allowed, and
data after the end of a response. In all these cases the connection is closed, never drained.
"""

import re

import httptools

from shoal.fetch.http.lenient import LenientReader, UnreadableResponse
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import KIB, FetchLimits

FRAMING_BYTES = 16  # bytes of framing per chunk that are not counted as extension
# A response is read leniently if its first fault is in these bytes, which are kept until then. Servers that
# write chunks wrongly do so from the first one.
REREAD_BYTES = 64 * KIB

_START = b"HTTP/1."
_VERSIONS = ("1.1", "1.0")
_NAMES: dict[
    bytes, str
] = {}  # header names as sent -> in lower case: the same few, thousands of times a second
_NAMES_KEPT = 2_000
_FRAMING = frozenset({"content-length", "transfer-encoding", "content-encoding"})
_WHOLE_RANGE = re.compile(r"\s*bytes\s+0-(\d+)/(\d+)\s*", re.ASCII | re.IGNORECASE)


class _Stop(Exception):
    """Ends parsing from inside a callback."""


class Exchange:
    """Parses one response after another. One is over when it is `complete` or has a `failure`.

    A connection has one for its lifetime: creating a parser costs as much as parsing a page's headers.
    """

    __slots__ = (
        "_body",
        "_chunk_open",
        "_chunked",
        "_chunks",
        "_first_bytes",
        "_head",
        "_in_headers",
        "_lenient",
        "_limits",
        "_moved_at",
        "_other_start",
        "_parser",
        "_progress",
        "_ranged",
        "_seen",
        "_spill",
        "_trailers",
        "complete",
        "encoding",
        "failure",
        "first_byte_at",
        "headers",
        "received",
        "reusable",
        "sent_at",
        "size",
        "started_at",
        "status",
        "until_close",
    )

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.failure: Failure | None = None

    def begin(
        self,
        limits: FetchLimits,
        *,
        started_at: float,
        head: bool = False,
        ranged: bool = False,
        first_bytes: int = 0,
    ) -> None:
        """Prepare for a response. The total time counts from `started_at`.

        `first_bytes`: end the exchange after so many bytes of the body; 0: read all of it.
        """
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.encoding = ""  # Content-Encoding, its lines joined
        self.received = 0  # bytes in total
        self.size = 0  # bytes of body, transfer coding removed
        self.complete = False
        self.failure = None
        self.reusable = False  # the connection, for another exchange
        self.until_close = False  # only the end of the connection ends the body
        self.started_at = self.sent_at = self._moved_at = started_at
        self.first_byte_at = 0.0
        self._limits = limits
        self._head = head
        self._ranged = ranged
        self._first_bytes = first_bytes
        self._in_headers = True
        self._chunked = False
        self._chunk_open = False
        self._chunks = 0
        self._trailers = 0
        self._body = b""
        self._spill: bytearray | None = None
        self._progress = 0
        self._seen: list[bytes] | None = None  # received so far, while it may have to be read again
        self._lenient: LenientReader | None = None
        self._other_start = False  # not in one piece, after empty lines, or of another version

    @property
    def lenient(self) -> bool:
        """Whether the response breaks the rules of HTTP and was read all the same."""
        return self._lenient is not None

    def forget(self) -> None:
        """Drop the response: an idle connection must not keep its last body in memory."""
        self.headers = []
        self._body = b""
        self._spill = None
        self._seen = self._lenient = None

    def close(self) -> None:
        """Drop the parser, which has a reference to this object."""
        del self._parser

    @property
    def body(self) -> bytes:
        return self._body if self._spill is None else bytes(self._spill)

    def feed(self, data: bytes) -> bool:
        """Parse received bytes; return True if the exchange is over."""
        if self._lenient is not None:
            self.received += len(data)
            return self._feed_lenient(self._lenient, data)
        room = self._limits.header_bytes - self.received
        if not self.received and data[:7] != _START:
            if data[0] in b"RI":  # llhttp also accepts RTSP and ICE
                self._fail(FailureClass.PROTOCOL, "not valid HTTP: no status line")
                return True
            self._other_start = True
        self.received += len(data)
        try:
            if self._in_headers and room < len(data):
                self._feed_headers(data, room)
            else:
                self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self.failure is None and not self.complete:
                return self._read_again(data, error)
            self.reusable = False  # if complete: unrequested data follows
        if self.complete or self.failure is not None:
            return True
        if self._in_headers or self._chunked:
            if self.received > REREAD_BYTES:
                self._seen = None
            elif self._seen is None:
                self._seen = [data]
            else:
                self._seen.append(data)
            if self._chunked:
                self._check_framing()
        return self.failure is not None

    def end(self, *, reset: bool) -> None:
        """Record the end of the connection."""
        how = "reset" if reset else "closed"
        if self._lenient is not None:
            self._copy(self._lenient)
        if self.until_close and not reset:
            self.complete = True
        elif not self.received:
            self._fail(FailureClass.CONNECT, f"{how} by the server before the response")
        else:
            where = "in the headers" if self._in_headers else f"after {self.size} bytes of body"
            self._fail(FailureClass.TRUNCATED, f"{how} by the server {where}")

    def overdue(self, now: float) -> bool:
        """Fail if a time limit is exceeded. Called a few times a second, so the limits are that exact."""
        if reason := self._late(now):
            self._fail(FailureClass.TIMEOUT, reason)
        return bool(reason)

    def excuse(self, now: float, seconds: float) -> None:
        """Exclude a pause of ours: it does not count towards any time limit of the server."""
        self.started_at += seconds
        self.first_byte_at += seconds
        self._moved_at = now

    def _late(self, now: float) -> str:
        limits = self._limits
        if now - self.started_at > limits.total:
            return f"total: not complete after {limits.total:g} s"
        if not self.received:
            late = now - self.sent_at > limits.first_byte
            return f"first byte: none within {limits.first_byte:g} s" if late else ""
        if self.received != self._progress:
            self._progress = self.received
            self._moved_at = now
        elif now - self._moved_at > limits.idle:
            return f"idle: nothing for {limits.idle:g} s"
        reading = now - self.first_byte_at
        if reading > limits.slow_after and self.received < limits.slow_rate * reading:
            return f"slow: under {limits.slow_rate} bytes/s after {limits.slow_after:g} s"
        return ""

    # -- called by the parser -----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.complete:
            raise _Stop  # a second response after the first
        self.headers = []  # drops those of an interim response (1xx)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_headers:
            self.headers.append((_NAMES.get(name) or _lower(name), value.decode("latin-1")))
        else:  # trailers are counted and dropped
            self._trailers += 1
            if self._trailers > self._limits.header_lines:
                self._stop(FailureClass.TOO_LARGE, f"more than {self._limits.header_lines} trailers")

    def on_headers_complete(self) -> None:
        status = self.status = self._parser.get_status_code()
        if status < 200:
            if status < 100:
                self._stop(FailureClass.PROTOCOL, f"status {status}")
            return  # interim: the final response follows, within the same header limits
        self._in_headers = False
        if self._other_start and self._parser.get_http_version() not in _VERSIONS:
            self._stop(FailureClass.PROTOCOL, f"HTTP version {self._parser.get_http_version()}")
        if len(self.headers) > self._limits.header_lines:
            self._stop(FailureClass.TOO_LARGE, f"more than {self._limits.header_lines} header lines")
        length = transfer = None
        for name, value in self.headers:
            if name in _FRAMING:
                if name == "content-length":
                    length = value
                elif name == "transfer-encoding":
                    transfer = value if transfer is None else f"{transfer}, {value}"
                else:
                    self.encoding = f"{self.encoding},{value}" if self.encoding else value
        if self._head:
            # llhttp has no option for a response without a body, and would wait for one. The connection is
            # closed: that is cheaper than a mistake about where the next response starts.
            self.complete = True
            raise _Stop
        if status == 206 and not self._ranged:
            self._check_whole()
        if status in (204, 304):
            return
        if transfer is not None and transfer.strip().lower() != "identity":
            if transfer.strip().lower() != "chunked":
                self._stop(FailureClass.PROTOCOL, f"transfer encoding {transfer[:32]!r}")
            self._chunked = True
        elif length is None:
            self.until_close = True
        elif int(length) > self._limits.wire_bytes and not self._first_bytes:
            self._stop(FailureClass.TOO_LARGE, f"announces {length} bytes, limit {self._limits.wire_bytes}")

    def on_body(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self._limits.wire_bytes and not self._first_bytes:
            self._stop(FailureClass.TOO_LARGE, f"body above {self._limits.wire_bytes} bytes")
        if self._spill is not None:
            self._spill += data
        elif self._body:
            # Not a list of parts: a body in two-byte chunks would take twenty times its size.
            self._spill = bytearray(self._body)
            self._spill += data
        else:
            self._body = data
        if self._first_bytes and self.size >= self._first_bytes:
            self.complete = True
            raise _Stop  # the connection is closed: the rest is not wanted

    def on_chunk_header(self) -> None:
        self._chunks += 1
        self._chunk_open = True

    def on_chunk_complete(self) -> None:
        self._chunk_open = False

    def on_message_complete(self) -> None:
        if self.status >= 200:
            self.complete = True
            self.reusable = self._parser.should_keep_alive()

    # -- limits -------------------------------------------------------------------------------------------

    def _feed_headers(self, data: bytes, room: int) -> None:
        """Feed the parser at most `room` bytes of headers: it buffers unfinished ones without limit."""
        view = memoryview(data)
        self._parser.feed_data(view[:room])
        if self._in_headers:
            self._fail(FailureClass.TOO_LARGE, f"headers above {self._limits.header_bytes} bytes")
        else:
            self._parser.feed_data(view[room:])

    def _check_framing(self) -> None:
        """Limit what chunked coding adds to a body: chunk sizes, extensions, trailers."""
        limits = self._limits
        if self.received > limits.wire_bytes + 2 * limits.header_bytes:
            self._fail(FailureClass.TOO_LARGE, f"body and chunk sizes above {limits.wire_bytes} bytes")
        # Twice the limit: once for the headers, once for extensions and trailers. Trailers come after the
        # header of the last chunk, extensions before the end of a chunk header.
        elif self.received - self.size > 2 * limits.header_bytes + self._chunks * FRAMING_BYTES:
            if self._chunk_open:
                self._fail(FailureClass.TOO_LARGE, f"trailers above {limits.header_bytes} bytes")
            else:
                self._fail(FailureClass.PROTOCOL, "endless chunk extension")

    def _check_whole(self) -> None:
        """Fail if a 206 that was not asked for has only a part of the page."""
        value = next((value for name, value in self.headers if name == "content-range"), "")
        found = _WHOLE_RANGE.fullmatch(value)
        if value and (found is None or int(found[1][:18]) + 1 != int(found[2][:18])):
            self._fail(FailureClass.TRUNCATED, "206 with a part of the page, which was not asked for")

    # -- lenient reading ----------------------------------------------------------------------------------

    def _read_again(self, data: bytes, error: Exception) -> bool:
        """Read the response leniently from its first byte, after the strict parser has rejected it."""
        seen = b"".join([*(self._seen or ()), data])
        self._seen = None
        if len(seen) < self.received:
            self._fail(FailureClass.PROTOCOL, f"not valid HTTP: {error}")
            return True
        self._lenient = LenientReader(self._limits, head=self._head)
        return self._feed_lenient(self._lenient, seen)

    def _feed_lenient(self, reader: LenientReader, data: bytes) -> bool:
        try:
            reader.feed(data)
        except UnreadableResponse as error:
            self.status = reader.status
            self._fail(error.failure_class, error.reason)
            return True
        self.size = len(reader.body)
        if reader.complete:
            self._copy(reader)
        elif self.received > self._limits.wire_bytes + 2 * self._limits.header_bytes:
            self._fail(FailureClass.TOO_LARGE, f"response above {self._limits.wire_bytes} bytes")
        return self.complete or self.failure is not None

    def _copy(self, reader: LenientReader) -> None:
        """Take over what the lenient reader has read."""
        self.status, self.headers, self.until_close = reader.status, reader.headers, reader.until_close
        self._in_headers = not reader.status
        self._body, self._spill, self.size = b"", reader.body, len(reader.body)
        self.encoding = ",".join(value for name, value in reader.headers if name == "content-encoding")
        self.complete, self.reusable = reader.complete, False
        if self.status == 206 and not self._ranged:
            self._check_whole()

    def _stop(self, failure_class: FailureClass, reason: str) -> None:
        self._fail(failure_class, reason)
        raise _Stop

    def _fail(self, failure_class: FailureClass, reason: str) -> None:
        self.failure = Failure(failure_class, reason, self.status)


def _lower(raw: bytes) -> str:
    name = raw.decode("latin-1").lower()
    if len(_NAMES) < _NAMES_KEPT and len(raw) <= 64:
        _NAMES[raw] = name
    return name
