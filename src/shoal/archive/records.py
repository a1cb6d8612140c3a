"""Parses WARC records; every length and digest is checked."""

import re
from collections.abc import Sequence
from datetime import datetime

import msgspec

from shoal.archive.errors import PageDamaged
from shoal.archive.warc import PDF, PNG, sha1
from shoal.model.page import PageRef, Rendered

_END = b"\r\n\r\n"
_METADATA = b"WARC/1.1\r\nWARC-Type: metadata\r\n"
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


class WarcRecord(msgspec.Struct, frozen=True):
    kind: str  # response, conversion, revisit, request, warcinfo
    fields: dict[str, str]  # WARC headers, names in lower case
    block: bytes


class ArchivedResponse(msgspec.Struct, frozen=True):
    """An HTTP response, as stored in a response or revisit record."""

    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    wire: bytes
    fetched_at: float
    digest: str  # of the payload, which a revisit does not contain
    original: PageRef | None  # the page that has the payload of a revisit
    request_metadata: str | None = None  # header value, see `request_metadata.py`
    decoded_bytes: int | None = None  # of the body; None: not encoded, or written by an older version
    lenient: bool = False  # the response broke the rules of HTTP


def parse_record(data: bytes) -> WarcRecord:
    """Parse one whole record, or raise `PageDamaged`."""
    head, found, rest = data.partition(_END)
    if not found or not head.startswith(b"WARC/1.1\r\n"):
        raise PageDamaged("not a WARC record")
    try:
        lines = head.decode().split("\r\n")[1:]
    except UnicodeDecodeError:
        raise PageDamaged("not a WARC record") from None
    fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    if fields.get("content-length") != str(len(rest) - len(_END)) or not rest.endswith(_END):
        raise PageDamaged("the length of the record is wrong")
    return WarcRecord(fields.get("warc-type", ""), fields, rest[: -len(_END)])


def parse_metadata_block(data: bytes, kind: str) -> bytes:
    """Return the block of a metadata record of that content type, or raise `PageDamaged`.

    Faster than `parse_record`: it is read for every page of a new generation.
    """
    head, found, rest = data.partition(_END)
    kinds = b"\r\nContent-Type: %b\r\nContent-Length: %d" % (kind.encode(), len(rest) - len(_END))
    if not (found and head.startswith(_METADATA) and head.endswith(kinds) and rest.endswith(_END)):
        raise PageDamaged(f"not a metadata record of type {kind}")
    return rest[: -len(_END)]


def parse_response(record: WarcRecord) -> ArchivedResponse:
    """Parse the HTTP response of a response or revisit record, or raise `PageDamaged`."""
    fields = record.fields
    head, found, wire = record.block.partition(_END)
    status = _STATUS_LINE.match(head)
    try:
        if not found or status is None:
            raise ValueError
        lines = head.decode("latin-1").split("\r\n")[1:]
        response = ArchivedResponse(
            url=fields["warc-target-uri"],
            status=int(status[1]),
            headers=tuple((name, value) for name, _, value in (line.partition(": ") for line in lines)),
            wire=wire,
            fetched_at=datetime.fromisoformat(fields["warc-date"]).timestamp(),
            digest=fields["warc-payload-digest"],
            original=_parse_ref(fields["shoal-refers-to"]) if record.kind == "revisit" else None,
            request_metadata=fields.get("shoal-request"),
            decoded_bytes=_parse_size(fields.get("shoal-decoded-length")),
            lenient=fields.get("shoal-lenient") == "true",
        )
    except (KeyError, ValueError):
        raise PageDamaged(f"not an HTTP response: a record of type {record.kind!r}") from None
    if response.original is None and response.digest != sha1(wire).decode():
        raise PageDamaged("the payload does not match its digest")
    return response


class Conversion(msgspec.Struct, frozen=True):
    """What a browser made of a page: its DOM, and what is stored beside it."""

    dom: bytes
    rendered: Rendered


def parse_conversions(response: WarcRecord, records: Sequence[WarcRecord]) -> Conversion | None:
    """Parse the conversion records behind a response record, or raise `PageDamaged`; None: it has none."""
    if not records:
        return None
    blocks: dict[str, bytes] = {}
    for record in records:
        fields = record.fields
        if record.kind != "conversion" or fields.get("warc-refers-to") != response.fields["warc-record-id"]:
            raise PageDamaged(f"a record of type {record.kind!r} where a page should end")
        if fields.get("warc-block-digest") != sha1(record.block).decode():
            raise PageDamaged("what the browser rendered does not match its digest")
        blocks[fields.get("content-type", "")] = record.block
    try:
        rendered = msgspec.json.decode(records[0].fields["shoal-rendered"], type=Rendered)
    except (KeyError, msgspec.MsgspecError):
        raise PageDamaged("what the browser rendered cannot be read") from None
    pictures = {"screenshot": blocks.get(PNG.decode(), b""), "pdf": blocks.get(PDF.decode(), b"")}
    return Conversion(records[0].block, msgspec.structs.replace(rendered, **pictures))


def _parse_size(value: str | None) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal() and len(value) <= 12):
        raise ValueError
    return int(value)


def _parse_ref(value: str) -> PageRef:
    segment, offset, length = value.split(" ")
    return PageRef(segment, int(offset), int(length))
