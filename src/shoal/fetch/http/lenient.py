"""Read a response that breaks the rules of HTTP, if it can be read in one way only.

The strict parser (`exchange.py`) reads every response first. It gives up where a response breaks the grammar,
because a client that keeps a connection must be sure where the next response starts. This reader takes over
from the first byte, and its connection is always closed afterwards, so that nothing can follow the response.

It reads what curl and browsers read: line feeds without carriage return, folded headers, blanks before a
colon, control characters (each becomes a space), lines without a name or a colon (dropped), the same
Content-Length several times, Content-Length beside chunks (chunks count), blanks after a chunk size.

It refuses what can be read in two ways: Content-Lengths that differ or are not plain digits, transfer
encodings other than chunked and identity, framing headers that are folded or contain control characters,
chunk sizes that are not plain hexadecimal, chunks without a line end, and NUL bytes in headers.
"""

import re

from shoal.model.failure import FailureClass
from shoal.model.limits import FetchLimits

MAX_LINE_BYTES = 8192  # of a chunk size with its extension, and of a trailer

_START = b"HTTP/1."
_STATUS_LINE = re.compile(rb"HTTP/1\.([01])[ \t]+(\d{3})(?:[ \t].*|)")
_END_OF_HEADERS = re.compile(rb"\n\r?\n")
_CONTROLS = re.compile(rb"[\x01-\x08\x0a-\x1f\x7f]")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,16})[ \t]*(?:;.*)?")
_LENGTH = re.compile(r"\d{1,18}", re.ASCII)
_FRAMING = frozenset({"content-length", "transfer-encoding"})
_NO_BODY = (204, 304)


class UnreadableResponse(Exception):
    """The response cannot be read; the argument is the failure."""

    def __init__(self, failure_class: FailureClass, reason: str) -> None:
        self.failure_class = failure_class
        self.reason = reason


class LenientReader:
    """Reads one response. Every byte of it goes through `feed`, which raises `UnreadableResponse`."""

    def __init__(self, limits: FetchLimits, *, head: bool) -> None:
        self._limits = limits
        self._head = head
        self._pending = bytearray()  # received and not read yet: headers, a chunk line, a trailer
        self._searched = 0  # bytes of them without the end of the headers
        self._left = 0  # bytes of the body or chunk to come
        self._chunked = False
        self._in_chunk = False  # in the data of a chunk, or in the line end after it
        self._in_trailers = False
        self._framing = 0  # bytes of chunk lines and trailers
        self.status = 0  # 0: the headers are not complete
        self.headers: list[tuple[str, str]] = []
        self.body = bytearray()
        self.complete = False
        self.until_close = False

    def feed(self, data: bytes) -> bool:
        """Read bytes; return True if the response is complete."""
        self._pending += data
        while not self.status:
            if not self._read_headers():
                return False
        if not self.complete:
            self._read_chunks() if self._chunked else self._read_body()
        return self.complete

    # -- headers ------------------------------------------------------------------------------------------

    def _read_headers(self) -> bool:
        """Read the headers, interim responses (1xx) included; return False if more bytes are needed."""
        pending = self._pending
        while pending.startswith((b"\r", b"\n")):  # empty lines before the status line
            del pending[:1]
        # From where the last search ended: a server may send its headers byte by byte.
        found = _END_OF_HEADERS.search(pending, max(0, self._searched - 2))
        end = found.end() if found else len(pending)
        if end > self._limits.header_bytes:
            raise UnreadableResponse(
                FailureClass.TOO_LARGE, f"headers above {self._limits.header_bytes} bytes"
            )
        if not _START.startswith(pending[: len(_START)]):
            raise UnreadableResponse(FailureClass.PROTOCOL, "not valid HTTP: no status line")
        if found is None:
            self._searched = end
            return False
        line, _, rest = bytes(pending[:end]).partition(b"\n")
        status = _STATUS_LINE.fullmatch(line.rstrip(b"\r"))
        if status is None:
            raise UnreadableResponse(FailureClass.PROTOCOL, "not valid HTTP: no status line")
        del pending[:end]
        self._searched = 0
        code = int(status[2])
        if code < 100:
            raise UnreadableResponse(FailureClass.PROTOCOL, f"status {code}")
        if code >= 200:
            lines = rest.split(b"\n")[:-2]
            if len(lines) > self._limits.header_lines:
                raise UnreadableResponse(
                    FailureClass.TOO_LARGE, f"more than {self._limits.header_lines} header lines"
                )
            self.headers, framing = read_fields(lines)
            self.status = code
            self._set_framing(framing)
        elif code == 101:
            raise UnreadableResponse(FailureClass.PROTOCOL, "status 101")
        return True

    def _set_framing(self, framing: dict[str, list[str]]) -> None:
        length = agreed_length(framing["content-length"])
        codings = [name for name in framing["transfer-encoding"] if name != "identity"]
        if codings not in ([], ["chunked"]):
            raise UnreadableResponse(FailureClass.PROTOCOL, f"transfer encoding {codings[0][:32]!r}")
        if self._head or self.status in _NO_BODY:
            self.complete = True
        elif codings:
            self._chunked = True
        elif length is None:
            self.until_close = True
        elif length > self._limits.wire_bytes:
            raise UnreadableResponse(
                FailureClass.TOO_LARGE, f"announces {length} bytes, limit {self._limits.wire_bytes}"
            )
        else:
            self._left = length

    # -- body ---------------------------------------------------------------------------------------------

    def _read_body(self) -> None:
        """Read a body whose end is known by its length, or by the end of the connection."""
        data = self._pending if self.until_close else self._pending[: self._left]
        if len(self.body) + len(data) > self._limits.wire_bytes:
            raise UnreadableResponse(FailureClass.TOO_LARGE, f"body above {self._limits.wire_bytes} bytes")
        self.body += data
        self._pending = bytearray()
        self._left -= len(data)
        self.complete = not self.until_close and not self._left

    def _read_chunks(self) -> None:
        position, pending = 0, bytes(self._pending)
        while not self.complete:
            if self._in_chunk:
                step = min(self._left, len(pending) - position)
                self.body += memoryview(pending)[position : position + step]
                position += step
                self._left -= step
                end = _line_end(pending, position) if not self._left else None
                if end is None:
                    break
                position = end
                self._in_chunk = False
            newline = pending.find(b"\n", position)
            line_bytes = (newline if newline >= 0 else len(pending)) - position
            self._check_line(line_bytes)
            if newline < 0:
                break
            line = pending[position:newline].removesuffix(b"\r")
            position = newline + 1
            # What a chunk needs does not count, only extensions and trailers.
            self._framing += len(line) if self._in_trailers else max(0, len(line) - 16)
            if self._in_trailers:
                self.complete = not line
            else:
                self._read_size(line)
        self._pending = bytearray(pending[position:])

    def _read_size(self, line: bytes) -> None:
        found = _CHUNK_SIZE.fullmatch(line)
        if found is None:
            raise UnreadableResponse(FailureClass.PROTOCOL, "not valid HTTP: a chunk size")
        size = int(found[1], 16)
        if len(self.body) + size > self._limits.wire_bytes:
            raise UnreadableResponse(FailureClass.TOO_LARGE, f"body above {self._limits.wire_bytes} bytes")
        if size:
            self._left, self._in_chunk = size, True
        else:
            self._in_trailers = True

    def _check_line(self, line_bytes: int) -> None:
        if line_bytes > MAX_LINE_BYTES:
            what = "trailer" if self._in_trailers else "chunk extension"
            raise UnreadableResponse(FailureClass.PROTOCOL, f"endless {what}")
        if self._framing + line_bytes > self._limits.header_bytes:
            what = "trailers" if self._in_trailers else "chunk extensions"
            raise UnreadableResponse(
                FailureClass.TOO_LARGE, f"{what} above {self._limits.header_bytes} bytes"
            )


def _line_end(data: bytes, position: int) -> int | None:
    """Return the position after the line end at `position`; None if it has not arrived."""
    end = data[position : position + 2]
    if end[:1] == b"\n":
        return position + 1
    if end == b"\r\n":
        return position + 2
    if end in (b"", b"\r"):
        return None
    raise UnreadableResponse(FailureClass.PROTOCOL, "not valid HTTP: no line end after a chunk")


def read_fields(lines: list[bytes]) -> tuple[list[tuple[str, str]], dict[str, list[str]]]:
    """Return the headers in `lines`, and the values of the framing headers, split at commas."""
    headers: list[tuple[str, str]] = []
    framing: dict[str, list[str]] = {name: [] for name in _FRAMING}
    for raw in lines:
        line = raw.removesuffix(b"\r")
        if b"\0" in line:
            raise UnreadableResponse(FailureClass.PROTOCOL, "not valid HTTP: a NUL byte in a header")
        plain = _CONTROLS.sub(b" ", line)
        if plain[:1] in (b" ", b"\t"):
            if headers:
                name, value = headers[-1]
                if name in _FRAMING:
                    raise UnreadableResponse(FailureClass.PROTOCOL, f"not valid HTTP: a folded {name}")
                headers[-1] = (name, f"{value} {plain.decode('latin-1').strip()}".strip())
            continue
        key, colon, content = plain.decode("latin-1").partition(":")
        name, value = key.strip().lower(), content.strip(" \t")
        if not colon or not name:
            continue
        headers.append((name, value))
        if name in _FRAMING:
            if plain != line:
                raise UnreadableResponse(
                    FailureClass.PROTOCOL, f"not valid HTTP: a control character in {name}"
                )
            framing[name] += [piece.strip(" \t") for piece in value.lower().split(",")]
    return headers, framing


def agreed_length(values: list[str]) -> int | None:
    """Return the length that all Content-Length values agree on; None: no header gives one."""
    if not values:
        return None
    if len(set(values)) > 1:
        raise UnreadableResponse(FailureClass.PROTOCOL, "not valid HTTP: different Content-Lengths")
    if _LENGTH.fullmatch(values[0]) is None:
        raise UnreadableResponse(
            FailureClass.PROTOCOL, "not valid HTTP: a Content-Length that is not a number"
        )
    return int(values[0])
