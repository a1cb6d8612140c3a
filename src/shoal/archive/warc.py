"""WARC 1.1 records, built as bytes. Pure: no files, no clock.

Templates and bytes formatting rather than objects: two records a page, on the path of every page. Blocks have
no digest of their own: gzip has a checksum for each record, and the payload the digest that revisits need.
"""

import hashlib
import itertools
import os
import re
import time
from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus

from shoal.archive.base32 import base32
from shoal.archive.redaction import REDACTED, is_secret, without_secrets, without_value
from shoal.archive.request_metadata import spell_asked
from shoal.model.page import PageRecord, PageRef, Response
from shoal.model.request import Request

Headers = Iterable[tuple[str, str]]

_RESPONSE = (
    b"WARC/1.1\r\n"
    b"WARC-Type: response\r\n"
    b"WARC-Record-ID: <urn:uuid:%b>\r\n"
    b"WARC-Target-URI: %b\r\n"
    b"WARC-Date: %b\r\n"
    b"%b"
    b"%b"
    b"WARC-Payload-Digest: %b\r\n"
    b"Content-Type: application/http;msgtype=response\r\n"
    b"Content-Length: %d\r\n"
    b"\r\n"
    b"%b%b\r\n\r\n"
)
_REVISIT = (
    b"WARC/1.1\r\n"
    b"WARC-Type: revisit\r\n"
    b"WARC-Record-ID: <urn:uuid:%b>\r\n"
    b"WARC-Target-URI: %b\r\n"
    b"WARC-Date: %b\r\n"
    b"%b"
    b"WARC-Profile: http://netpreserve.org/warc/1.1/revisit/%b\r\n"
    b"WARC-Refers-To-Target-URI: %b\r\n"
    b"WARC-Refers-To-Date: %b\r\n"
    b"Shoal-Refers-To: %b\r\n"
    b"%b"
    b"Content-Type: application/http;msgtype=response\r\n"
    b"Content-Length: %d\r\n"
    b"\r\n"
    b"%b\r\n\r\n"
)
_REQUEST = (
    b"WARC/1.1\r\n"
    b"WARC-Type: request\r\n"
    b"WARC-Record-ID: <urn:uuid:%b>\r\n"
    b"WARC-Target-URI: %b\r\n"
    b"WARC-Date: %b\r\n"
    b"WARC-Concurrent-To: <urn:uuid:%b>\r\n"
    b"Content-Type: application/http;msgtype=request\r\n"
    b"Content-Length: %d\r\n"
    b"\r\n"
    b"%b\r\n\r\n"
)
_WARCINFO = (
    b"WARC/1.1\r\n"
    b"WARC-Type: warcinfo\r\n"
    b"WARC-Record-ID: <urn:uuid:%b>\r\n"
    b"WARC-Date: %b\r\n"
    b"WARC-Filename: %b\r\n"
    b"Content-Type: application/warc-fields\r\n"
    b"Content-Length: %d\r\n"
    b"\r\n"
    b"%b\r\n\r\n"
)

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}" for status in HTTPStatus}
_ANSWERED_ELSEWHERE = 304
_WITHOUT_LENGTH = {204, 304}  # no body, and a length would be taken for the length of another answer
_CONTROLS = re.compile(rb"[\x00-\x20\x7f]")
_BREAKS = str.maketrans("\r\n\0", "   ")


class RecordIds:
    """UUIDs for one writer: a random part drawn once, then a count, for a tenth of what `uuid4` costs."""

    def __init__(self) -> None:
        drawn = os.urandom(10).hex()
        # Version 4, variant 1: to a reader they are random UUIDs like any other.
        self._prefix = f"{drawn[:8]}-{drawn[8:12]}-4{drawn[13:16]}-a{drawn[17:20]}-".encode()
        self._count = itertools.count()

    def __call__(self) -> bytes:
        return b"%b%012x" % (self._prefix, next(self._count))


def page_records(
    ids: RecordIds, request: Request, sent_headers: Headers, response: Response
) -> tuple[bytes, bytes, str]:
    """Return the response record, the request record, and the payload digest."""
    this, url, date = ids(), _uri(response.url), warc_date(response.fetched_at)
    head = _response_head(response)
    digest = sha1(response.wire)
    answer = _RESPONSE % (
        this,
        url,
        date,
        _address(response),
        spell_asked(request),
        digest,
        len(head) + len(response.wire),
        head,
        response.wire,
    )
    return answer, _request_record(ids, request, sent_headers, date, this), digest.decode()


def revisit_records(
    ids: RecordIds, request: Request, sent_headers: Headers, response: Response, original: PageRecord
) -> tuple[bytes, bytes, str]:
    """Return the records for a page whose body is that of `original`, and the payload digest.

    A 304 says so itself; any other response is taken to have brought the same payload again.
    """
    this, url, date = ids(), _uri(response.url), warc_date(response.fetched_at)
    not_modified = response.status == _ANSWERED_ELSEWHERE
    head = _response_head(response)
    answer = _REVISIT % (
        this,
        url,
        date,
        _address(response),
        b"server-not-modified" if not_modified else b"identical-payload-digest",
        url,
        warc_date(original.fetched_at),
        spell_ref(original.ref),
        b"WARC-Payload-Digest: %b\r\n" % original.digest.encode(),
        len(head),
        head,
    )
    return answer, _request_record(ids, request, sent_headers, date, this), original.digest


def warcinfo_record(ids: RecordIds, segment: str, *, at: float, fields: Iterable[tuple[str, str]]) -> bytes:
    """Return the record that opens a segment."""
    block = "".join(f"{name}: {value.translate(_BREAKS)}\r\n" for name, value in fields).encode()
    return _WARCINFO % (ids(), warc_date(at), segment.encode(), len(block), block)


def warc_date(at: float) -> bytes:
    """Spell epoch seconds as WARC 1.1 does, to the microsecond."""
    second, micros = divmod(round(at * 1e6), 1_000_000)
    return b"%b.%06dZ" % (_second(second), micros)


def sha1(data: bytes) -> bytes:
    """Return a digest as WARC headers spell it."""
    return b"sha1:" + base32(hashlib.sha1(data, usedforsecurity=False).digest())


def spell_ref(ref: PageRef) -> bytes:
    """Spell a reference for the header that leads from a revisit to its body."""
    return f"{ref.segment} {ref.offset} {ref.length}".encode()


def _request_record(
    ids: RecordIds, request: Request, sent_headers: Headers, date: bytes, answer: bytes
) -> bytes:
    first = _lines([f"{request.method} {_target(request.url)} HTTP/1.1"])
    body = without_secrets(request.body) if request.body else b""
    block = b"%b%b\r\n%b" % (first, _sent(tuple(sent_headers)), body)
    return _REQUEST % (ids(), _uri(request.url), date, answer, len(block), block)


@lru_cache(maxsize=256)  # a crawl sends the same ones again and again
def _sent(headers: tuple[tuple[str, str], ...]) -> bytes:
    return _lines([f"{name}: {REDACTED if is_secret(name) else value}" for name, value in headers])


def _response_head(response: Response) -> bytes:
    status = response.status
    lines = [_STATUS_LINES.get(status) or f"HTTP/1.1 {status} "]
    for name, value in response.headers:
        if name == "set-cookie":
            lines.append(f"{name}: {without_value(value)}")
        elif name not in ("content-length", "transfer-encoding"):
            lines.append(f"{name}: {value}")
    if status not in _WITHOUT_LENGTH:
        lines.append(f"content-length: {len(response.wire)}")
    return _lines(lines) + b"\r\n"


def _lines(lines: list[str]) -> bytes:
    """Put header lines below one another; a line break smuggled into a value becomes a space."""
    text = "\r\n".join(lines) + "\r\n"
    if text.count("\n") + text.count("\r") != 2 * len(lines) or "\0" in text:
        text = "\r\n".join([line.translate(_BREAKS) for line in lines]) + "\r\n"
    try:
        return text.encode("latin-1")  # HTTP headers are bytes: one character, one byte
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _address(response: Response) -> bytes:
    return b"WARC-IP-Address: %b\r\n" % response.address.encode() if response.address else b""


def _uri(url: str) -> bytes:
    uri = url.encode()
    return uri if url.isprintable() else _CONTROLS.sub(lambda found: b"%%%02X" % found[0][0], uri)


def _target(url: str) -> str:
    """Return path and query of a canonical URL."""
    return "/" + url.split("/", 3)[-1]


@lru_cache(maxsize=4)
def _second(at: int) -> bytes:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)).encode()
