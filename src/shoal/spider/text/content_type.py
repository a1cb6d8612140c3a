"""What a body contains: by its Content-Type, unless its first bytes contradict that."""

from enum import StrEnum
from functools import lru_cache


class ContentKind(StrEnum):
    HTML = "html"
    XML = "xml"
    JSON = "json"
    TEXT = "text"
    BINARY = "binary"


_MAGIC = (
    *(
        b"%PDF-",
        b"%!PS",
        b"PK\x03\x04",
        b"\x1f\x8b",
        b"BZh",
        b"\xfd7zXZ",
        b"7z\xbc\xaf",
        b"Rar!\x1a",
        b"\x28\xb5\x2f\xfd",
    ),
    *(b"\x89PNG", b"GIF87a", b"GIF89a", b"\xff\xd8\xff", b"\x00\x00\x01\x00", b"II*\x00", b"MM\x00*"),
    *(b"RIFF", b"ID3", b"OggS", b"fLaC", b"\x1aE\xdf\xa3", b"wOFF", b"wOF2", b"\x7fELF", b"\xca\xfe\xba\xbe"),
)
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_HEAD_BYTES = 512


def detect_kind(body: bytes, content_type: str) -> ContentKind:
    """Return what a response contains."""
    declared = _declared(content_type[:200])
    if declared is ContentKind.BINARY:
        return declared
    if body.startswith(_MAGIC):
        return ContentKind.BINARY
    head = body[:_HEAD_BYTES]
    if 0 in head and not (
        head.lstrip().startswith(b"<") or head.startswith(_UTF16_MARKS) or "utf-16" in content_type.lower()
    ):
        return ContentKind.BINARY
    return declared or _sniff(head)


@lru_cache(maxsize=256)
def _declared(content_type: str) -> ContentKind | None:
    mime = content_type.partition(";")[0].strip().lower()
    major, _, minor = mime.partition("/")
    if mime in ("text/html", "application/xhtml+xml"):
        return ContentKind.HTML
    if minor.endswith(("+json", "json")):
        return ContentKind.JSON
    if minor.endswith(("+xml", "xml")):
        return ContentKind.XML
    if major == "text" or minor in ("javascript", "x-javascript", "x-ndjson"):
        return ContentKind.TEXT
    if not minor or mime in ("application/octet-stream", "application/unknown", "unknown/unknown"):
        return None
    return ContentKind.BINARY


def _sniff(head: bytes) -> ContentKind:
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(b"<?xml"):
        return ContentKind.HTML if b"<html" in head.lower() else ContentKind.XML
    if head.startswith(b"<"):
        return ContentKind.HTML
    if head.startswith((b"{", b"[")):
        return ContentKind.JSON
    return ContentKind.BINARY if any(byte < 9 or 14 <= byte < 27 for byte in head) else ContentKind.TEXT
