"""WARC 1.1 records, built as bytes. Pure: no files, no clock.

Templates and bytes formatting rather than objects, because every page takes two records. Blocks have no
digest: gzip has a checksum for each record, and the payload has the digest that revisits need.
"""

import hashlib
import itertools
import os
import re
import time
from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus

import msgspec

from shoal.archive.base32 import base32
from shoal.archive.redaction import REDACTED, redact_body, redact_cookie
from shoal.archive.request_metadata import MAX_BYTES, format_metadata
from shoal.model.http.header_names import is_secret
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
_CONVERSION = (
    b"WARC/1.1\r\n"
    b"WARC-Type: conversion\r\n"
    b"WARC-Record-ID: <urn:uuid:%b>\r\n"
    b"WARC-Target-URI: %b\r\n"
    b"WARC-Date: %b\r\n"
    b"WARC-Refers-To: <urn:uuid:%b>\r\n"
    b"WARC-Block-Digest: %b\r\n"
    b"%b"
    b"Content-Type: %b\r\n"
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
_METADATA = (
    b"WARC/1.1\r\n"
    b"WARC-Type: metadata\r\n"
    b"WARC-Record-ID: <urn:uuid:%b>\r\n"
    b"WARC-Target-URI: %b\r\n"
    b"WARC-Date: %b\r\n"
    b"Content-Type: %b\r\n"
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

PNG, PDF = b"image/png", b"application/pdf"
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}" for status in HTTPStatus}
_VALIDATORS = frozenset({"If-None-Match", "If-Modified-Since"})
_NOT_MODIFIED = 304
_WITHOUT_LENGTH = {204, 304}  # no body, and a length would be taken for the length of another response
_CONTROLS = re.compile(rb"[\x00-\x20\x7f]")
_BREAKS = str.maketrans("\r\n\0", "   ")


class RecordIds:
    """UUIDs for one writer: a random prefix and a counter, which takes a tenth of the time of `uuid4`."""

    def __init__(self) -> None:
        digits = os.urandom(10).hex()
        # Version 4, variant 1: to readers these are random UUIDs.
        self._prefix = f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-".encode()
        self._count = itertools.count()

    def __call__(self) -> bytes:
        return b"%b%012x" % (self._prefix, next(self._count))


def page_records(
    ids: RecordIds, request: Request, sent_headers: Headers, response: Response
) -> tuple[bytes, bytes, str, bytes]:
    """Return the response record, the request record, the payload digest, and the id of the first."""
    this, url, date = ids(), _uri(response.url), warc_date(response.fetched_at)
    head = _response_head(response)
    digest = sha1(response.wire)
    record = _RESPONSE % (
        this,
        url,
        date,
        _address(response),
        format_metadata(request) + _response_metadata(response),
        digest,
        len(head) + len(response.wire),
        head,
        response.wire,
    )
    return record, _request_record(ids, request, sent_headers, date, this), digest.decode(), this


def conversion_records(ids: RecordIds, response: Response, response_id: bytes) -> list[bytes]:
    """Return the records of what a browser made of a page: its DOM first, then screenshot and PDF."""
    rendered = response.rendered
    if rendered is None:
        return []
    about = msgspec.structs.replace(rendered, screenshot=b"", pdf=b"")
    while len(encoded := msgspec.json.encode(about)) > MAX_BYTES and about.console:
        about = msgspec.structs.replace(about, console=about.console[: len(about.console) // 2])
    described = b"Shoal-Rendered: %b\r\n" % encoded
    url, date = _uri(response.url), warc_date(response.fetched_at)
    parts = [(b"text/html; charset=utf-8", described, response.body)]
    parts += [(PNG, b"", rendered.screenshot)] if rendered.screenshot else []
    parts += [(PDF, b"", rendered.pdf)] if rendered.pdf else []
    return [
        _CONVERSION % (ids(), url, date, response_id, sha1(block), fields, kind, len(block), block)
        for kind, fields, block in parts
    ]


def revisit_records(
    ids: RecordIds, request: Request, sent_headers: Headers, response: Response, original: PageRecord
) -> tuple[bytes, bytes, str]:
    """Return the records for a page whose body is that of `original`, and the payload digest.

    A 304 has no payload; any other response must have the same payload as `original`.
    """
    this, url, date = ids(), _uri(response.url), warc_date(response.fetched_at)
    not_modified = response.status == _NOT_MODIFIED
    head = _response_head(response)
    record = _REVISIT % (
        this,
        url,
        date,
        _address(response),
        b"server-not-modified" if not_modified else b"identical-payload-digest",
        url,
        warc_date(original.fetched_at),
        format_ref(original.ref),
        b"WARC-Payload-Digest: %b\r\n" % original.digest.encode(),
        len(head),
        head,
    )
    return record, _request_record(ids, request, sent_headers, date, this), original.digest


def metadata_record(ids: RecordIds, url: str, *, at: float, kind: str, block: bytes) -> bytes:
    """Return a record with what is known about a page besides its response; `kind` is its content type."""
    return _METADATA % (ids(), _uri(url), warc_date(at), kind.encode(), len(block), block)


def warcinfo_record(ids: RecordIds, segment: str, *, at: float, fields: Iterable[tuple[str, str]]) -> bytes:
    """Return the first record of a segment."""
    block = "".join(f"{name}: {value.translate(_BREAKS)}\r\n" for name, value in fields).encode()
    return _WARCINFO % (ids(), warc_date(at), segment.encode(), len(block), block)


def warc_date(at: float) -> bytes:
    """Return epoch seconds as a WARC 1.1 date, with microseconds."""
    second, micros = divmod(round(at * 1e6), 1_000_000)
    return b"%b.%06dZ" % (_second(second), micros)


def sha1(data: bytes) -> bytes:
    """Return a SHA-1 digest in the format of WARC headers."""
    return b"sha1:" + base32(hashlib.sha1(data, usedforsecurity=False).digest())


def format_ref(ref: PageRef) -> bytes:
    """Return a reference as a header value, which leads from a revisit to its body."""
    return f"{ref.segment} {ref.offset} {ref.length}".encode()


def _request_record(
    ids: RecordIds, request: Request, sent_headers: Headers, date: bytes, response_id: bytes
) -> bytes:
    first = _lines([f"{request.method} {_target(request.url)} HTTP/1.1"])
    body = redact_body(request.body) if request.body else b""
    block = b"%b%b\r\n%b" % (first, _format_headers(tuple(sent_headers)), body)
    return _REQUEST % (ids(), _uri(request.url), date, response_id, len(block), block)


def _format_headers(headers: tuple[tuple[str, str], ...]) -> bytes:
    """Format sent headers. Validators stand last, and are different for every page."""
    usual = len(headers)
    while usual > 1 and headers[usual - 1][0] in _VALIDATORS:
        usual -= 1
    lines = _format_sent(headers[:usual])
    return (
        lines + _lines([f"{name}: {value}" for name, value in headers[usual:]]) if headers[usual:] else lines
    )


@lru_cache(maxsize=256)  # most requests of a crawl have the same headers
def _format_sent(headers: tuple[tuple[str, str], ...]) -> bytes:
    return _lines([f"{name}: {REDACTED if is_secret(name) else value}" for name, value in headers])


def _response_head(response: Response) -> bytes:
    status = response.status
    lines = [_STATUS_LINES.get(status) or f"HTTP/1.1 {status} "]
    for name, value in response.headers:
        if name == "set-cookie":
            lines.append(f"{name}: {redact_cookie(value)}")
        elif name not in ("content-length", "transfer-encoding"):
            lines.append(f"{name}: {value}")
    if status not in _WITHOUT_LENGTH:
        lines.append(f"content-length: {len(response.wire)}")
    return _lines(lines) + b"\r\n"


def _lines(lines: list[str]) -> bytes:
    """Join header lines; a line break inside a value becomes a space."""
    text = "\r\n".join(lines) + "\r\n"
    if text.count("\n") + text.count("\r") != 2 * len(lines) or "\0" in text:
        text = "\r\n".join([line.translate(_BREAKS) for line in lines]) + "\r\n"
    try:
        return text.encode("latin-1")  # HTTP headers are bytes: one character, one byte
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _address(response: Response) -> bytes:
    return b"WARC-IP-Address: %b\r\n" % response.address.encode() if response.address else b""


def _response_metadata(response: Response) -> bytes:
    """Return the header lines for what the response itself does not tell; usually none."""
    lines = b""
    if response.body is not response.wire and response.rendered is None:
        lines = b"Shoal-Decoded-Length: %d\r\n" % len(response.body)
    return lines + b"Shoal-Lenient: true\r\n" if response.lenient else lines


def _uri(url: str) -> bytes:
    uri = url.encode()
    return uri if url.isprintable() else _CONTROLS.sub(lambda found: b"%%%02X" % found[0][0], uri)


def _target(url: str) -> str:
    """Return path and query of a canonical URL."""
    return "/" + url.split("/", 3)[-1]


@lru_cache(maxsize=4)
def _second(at: int) -> bytes:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)).encode()
