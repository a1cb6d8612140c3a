"""Responses that break the rules of HTTP and can be read all the same, and some that cannot.

`READABLE` must be read as curl reads them. `REFUSED_BY_BOTH` are failures here and in curl. `STRICTER` are read
by curl and refused here, `MORE_LENIENT` the other way round, each with the reason.
"""

import gzip

TEXT = b"<title>page</title>hello"
LENGTH = b"Content-Length: %d" % len(TEXT)
CHUNKED = b"Transfer-Encoding: chunked"
CHUNKS = b"18\r\n" + TEXT + b"\r\n0\r\n\r\n"
assert int("18", 16) == len(TEXT)


def http(
    *lines: bytes, body: bytes = TEXT, end: bytes = b"\r\n", status: bytes = b"HTTP/1.1 200 OK"
) -> bytes:
    return end.join([status, *lines, b"", body])


def length(*lines: bytes, **how: bytes) -> bytes:
    return http(*lines, LENGTH, **how)


def chunked(body: bytes) -> bytes:
    return http(CHUNKED, body=body)


def in_chunks_of(size: int, *, sep: bytes = b"\r\n", pad: bytes = b"") -> bytes:
    pieces = [TEXT[at : at + size] for at in range(0, len(TEXT), size)]
    return b"".join(b"%x%b%b%b%b" % (len(p), pad, sep, p, sep) for p in pieces) + b"0" + pad + sep + sep


_STATUS_LINES = {
    "no reason": b"HTTP/1.1 200",
    "no reason, blank": b"HTTP/1.1 200 ",
    "HTTP 1.0": b"HTTP/1.0 200 OK",
    "long reason": b"HTTP/1.1 200 " + b"very " * 100 + b"good",
    "reason in UTF-8": "HTTP/1.1 200 schön".encode(),
    "reason with a tab": b"HTTP/1.1 200 O\tK",
    "reason with a control character": b"HTTP/1.1 200 O\x01K",
    "reason with a colon": b"HTTP/1.1 200 a: b",
    "status 299": b"HTTP/1.1 299 OK",
    "status 700": b"HTTP/1.1 700 OK",
    "status 999": b"HTTP/1.1 999 OK",
    "status 226": b"HTTP/1.1 226 OK",
    "status 206 unasked": b"HTTP/1.1 206 Partial",
}

_HEADERS = {
    "folded": [b"X-A: one", b" two"],
    "folded with a tab": [b"X-A: one", b"\ttwo"],
    "folded twice": [b"X-A: one", b"  two", b"  three"],
    "folded, empty": [b"X-A: one", b" "],
    "folded, value on the next line": [b"X-A:", b" one"],
    "blank before the colon": [b"X-A : one"],
    "tab before the colon": [b"X-A\t: one"],
    "blanks before the colon": [b"X-A   : one"],
    "blank in the name": [b"X A: one"],
    "control character in a value": [b"X-A: o\x01ne"],
    "escape in a value": [b"X-A: \x1b[31mred"],
    "DEL in a value": [b"X-A: o\x7fne"],
    "carriage return in a value": [b"X-A: o\rne"],
    "control character in a name": [b"X\x02A: one"],
    "8-bit name": [b"X-\xe4: one"],
    "8-bit value": [b"X-A: \xe4\xf6\xff"],
    "empty name": [b": one"],
    "empty name and value": [b":"],
    "parentheses in a name": [b"X(A): one"],
    "quotes in a name": [b'"X-A": one'],
    "slash in a name": [b"X/A: one"],
    "at sign in a name": [b"X@A: one"],
    "brackets in a name": [b"[X]: one"],
    "equals in a name": [b"X=A: one"],
    "no value": [b"X-A:"],
    "many blanks in a value": [b"X-A:" + b" " * 500 + b"one"],
    "value of 16 KB": [b"X-A: " + b"v" * 16_000],
    "200 headers": [b"X-%d: v" % n for n in range(200)],
    "the same header twice": [b"X-A: one", b"x-a: two"],
    "two colons": [b"X-A:: one"],
    "bad date": [b"Date: yesterday"],
    "bad Content-Type": [b"Content-Type: ;;=,"],
    "Content-Type twice": [b"Content-Type: text/html", b"Content-Type: text/plain"],
    "Connection with junk": [b"Connection: \x01, ,keep-alive;;"],
    "Keep-Alive with junk": [b"Keep-Alive: timeout=-1, max=x"],
    "Upgrade unasked": [b"Upgrade: h2,h2c", b"Connection: Upgrade"],
    "Content-Encoding none": [b"Content-Encoding: none"],
    "Content-Encoding identity": [b"Content-Encoding: identity"],
    "Content-Encoding empty": [b"Content-Encoding:"],
    "Set-Cookie with a control character": [b"Set-Cookie: a=\x02b"],
    "Content-Range on a 200": [b"Content-Range: bytes 0-23/24"],
    "Trailer unused": [b"Trailer: X-A"],
}

_LENGTHS = {
    "twice": [LENGTH, LENGTH],
    "three times": [LENGTH, LENGTH, LENGTH],
    "as a list": [LENGTH + b", 24"],
    "in lower case": [LENGTH.lower()],
    "in upper case": [LENGTH.upper()],
    "no blank after the colon": [b"Content-Length:24"],
    "blanks around": [b"Content-Length:   24  "],
    "a tab after the colon": [b"Content-Length:\t24"],
    "leading zeros": [b"Content-Length: 0024"],
    "blank before the colon": [b"Content-Length : 24"],
    "none": [],
    "none, and keep-alive": [b"Connection: keep-alive"],
    "with identity": [b"Transfer-Encoding: identity", LENGTH],
    "identity alone": [b"Transfer-Encoding: identity"],
}

_CHUNKS = {
    "blank after the size": b"18 \r\n" + TEXT + b"\r\n0\r\n\r\n",
    "blanks after the size": b"18      \r\n" + TEXT + b"\r\n0     \r\n\r\n",
    "tab after the size": b"18\t\r\n" + TEXT + b"\r\n0\r\n\r\n",
    "line feed after the size": b"18\n" + TEXT + b"\r\n0\r\n\r\n",
    "line feeds only": b"18\n" + TEXT + b"\n0\n\n",
    "line feed after the data": b"18\r\n" + TEXT + b"\n0\r\n\r\n",
    "line feed after the last size": b"18\r\n" + TEXT + b"\r\n0\n\r\n",
    "upper case": b"0000018\r\n" + TEXT + b"\r\n0\r\n\r\n",
    "zeros as the last size": b"18\r\n" + TEXT + b"\r\n0000\r\n\r\n",
    "extension": b"18;a=b\r\n" + TEXT + b"\r\n0;c\r\n\r\n",
    "blank before an extension": b"18 ;a=b\r\n" + TEXT + b"\r\n0\r\n\r\n",
    "quoted extension": b'18;a="b c"\r\n' + TEXT + b"\r\n0\r\n\r\n",
    "extension with a control character": b"18;a=\x01\r\n" + TEXT + b"\r\n0\r\n\r\n",
    "extension with 8 bits": b"18;\xe4=\xff\r\n" + TEXT + b"\r\n0\r\n\r\n",
    "trailer": b"18\r\n" + TEXT + b"\r\n0\r\nX-A: one\r\n\r\n",
    "trailer with a blank before the colon": b"18\r\n" + TEXT + b"\r\n0\r\nX-A : one\r\n\r\n",
    "trailer with line feeds": b"18\r\n" + TEXT + b"\r\n0\r\nX-A: one\n\n",
    "one byte each": in_chunks_of(1),
    "one byte each, padded": in_chunks_of(1, pad=b"   "),
    "seven bytes each, line feeds": in_chunks_of(7, sep=b"\n"),
    "data after the end": CHUNKS + b"HTTP/1.1 200 OK\r\n\r\nsmuggled",
}

READABLE: dict[str, bytes] = {
    **{f"status line: {name}": length(status=line) for name, line in _STATUS_LINES.items()},
    **{f"header: {name}": length(*lines) for name, lines in _HEADERS.items()},
    **{f"length: {name}": http(*lines) for name, lines in _LENGTHS.items()},
    **{f"chunks: {name}": chunked(body) for name, body in _CHUNKS.items()},
    "line feeds: everywhere": length(b"X-A: one", end=b"\n"),
    "line feeds: everywhere, no length": http(b"X-A: one", end=b"\n"),
    "line feeds: in the headers, with chunks": http(CHUNKED, body=CHUNKS, end=b"\n"),
    "line feeds: only before the body": b"HTTP/1.1 200 OK\r\n" + LENGTH + b"\r\n\n" + TEXT,
    "line feeds: only after the status line": b"HTTP/1.1 200 OK\n" + LENGTH + b"\r\n\r\n" + TEXT,
    "line feeds: in an interim response": b"HTTP/1.1 100 Continue\n\n" + length(end=b"\n"),
    "interim: 103 before a folded header": b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n"
    + length(b"X-A: 1", b" 2"),
    "both: a length and chunks": http(LENGTH, CHUNKED, body=CHUNKS),
    "both: chunks and a length": http(CHUNKED, LENGTH, body=CHUNKS),
    "both: a wrong length and chunks": http(b"Content-Length: 3", CHUNKED, body=CHUNKS),
    "chunks in HTTP 1.0": http(CHUNKED, body=CHUNKS, status=b"HTTP/1.0 200 OK"),
    "chunks: CHUNKED in upper case": http(b"Transfer-Encoding: CHUNKED", body=CHUNKS),
    "chunks: blank after chunked": http(b"Transfer-Encoding: chunked ", body=CHUNKS),
    "chunks: folded header beside": http(b"X-A: one", b" two", CHUNKED, body=CHUNKS),
    "data after the end of the length": length() + b"HTTP/1.1 200 OK\r\n\r\nsmuggled",
    "data after the end, folded header": length(b"X-A: 1", b" 2") + b"HTTP/1.1 200 OK\r\n\r\nsmuggled",
    "206 unasked, whole": length(b"Content-Range: bytes 0-23/24", status=b"HTTP/1.1 206 Partial Content"),
    "gzip behind a folded header": http(
        b"X-A: one", b" two", b"Content-Encoding: gzip", body=gzip.compress(TEXT)
    ),
    "gzip in chunks with blanks": http(
        CHUNKED,
        b"Content-Encoding: gzip",
        body=b"%x \r\n%b\r\n0\r\n\r\n" % (len(gzip.compress(TEXT, mtime=1)), gzip.compress(TEXT, mtime=1)),
    ),
    "x-gzip": http(b"Content-Encoding: x-gzip", body=gzip.compress(TEXT)),
    "empty body, gzip": http(b"Content-Encoding: gzip", b"Content-Length: 0", body=b""),
    "empty body, no length": http(body=b""),
    "204 with a length": http(b"Content-Length: 5", body=b"", status=b"HTTP/1.1 204 No Content"),
}

REFUSED_BY_BOTH: dict[str, bytes] = {
    "a length that is longer than the body": http(b"Content-Length: 99"),
    "chunks without the last": chunked(b"18\r\n" + TEXT + b"\r\n"),
    "chunks without the empty line": chunked(b"18\r\n" + TEXT + b"\r\n0\r\n"),
    "chunk size in letters": chunked(b"zz\r\n" + TEXT + b"\r\n0\r\n\r\n"),
    "chunk size negative": chunked(b"-18\r\n" + TEXT + b"\r\n0\r\n\r\n"),
    "chunk without a line end": chunked(b"18\r\n" + TEXT + b"0\r\n\r\n"),
    "length negative": http(b"Content-Length: -24"),
    "length in letters": http(b"Content-Length: many"),
    "NUL in a header": length(b"X-A: o\0ne"),
    "version 1.2": length(status=b"HTTP/1.2 200 OK"),
    "version 3": length(status=b"HTTP/3 200 OK"),
    "RTSP": length(status=b"RTSP/1.0 200 OK"),
    "ICY": length(status=b"ICY 200 OK"),
    "no status line": TEXT,
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
    "transfer encoding unknown": http(b"Transfer-Encoding: secret"),
    "nothing": b"",
}

STRICTER: dict[str, bytes] = {
    # The page must be complete or failed.
    "gzip without its checksum": http(b"Content-Encoding: gzip", body=gzip.compress(TEXT)[:-3]),
    "a part of the page, unasked": length(b"Content-Range: bytes 0-23/99", status=b"HTTP/1.1 206 Partial"),
    # Not HTTP/1: the client has not offered anything else.
    "version 2.0": length(status=b"HTTP/2.0 200 OK"),
    # Framing that two readers may take differently.
    "two different lengths": http(b"Content-Length: 3", LENGTH),
    "two different lengths in a list": http(LENGTH + b", 3"),
    "length with a plus": http(b"Content-Length: +24"),
    "length and letters": http(b"Content-Length: 24abc"),
    "length above 2^63, cut by the end": http(b"Content-Length: 99999999999999999999"),
    "chunked twice": http(b"Transfer-Encoding: chunked, chunked", body=CHUNKS),
    "chunk size and letters": chunked(b"18xyz\r\n" + TEXT + b"\r\n0\r\n\r\n"),
    "control character in Content-Length": http(b"Content-Length: 24\x01"),
    "folded Content-Length": http(b"Content-Length:", b" 24"),
    "chunked, header folded": http(b"Transfer-Encoding:", b" chunked"),
}
MORE_LENIENT: dict[str, bytes] = {
    # Browsers drop such lines, and nothing depends on them.
    "blank before the first name": length(b" X-A: one"),
    "blank name": length(b"  : one"),
    "no colon": length(b"this is not a header"),
    "semicolon instead of a colon": length(b"X-A; one"),
    "a status line as a header": length(b"HTTP/1.1 200 OK"),
    "trailer without a colon": chunked(b"18\r\n" + TEXT + b"\r\n0\r\njunk\r\n\r\n"),
    # As browsers do: the body is what the server sent.
    "Content-Encoding unknown": length(b"Content-Encoding: utf-8"),
    "Content-Encoding unknown, and gzip": http(b"Content-Encoding: gzip, utf-8", body=gzip.compress(TEXT)),
    # A number with zeros in front; curl counts the digits.
    "chunk size of 17 digits": chunked(b"00000000000000018\r\n" + TEXT + b"\r\n0\r\n\r\n"),
}
