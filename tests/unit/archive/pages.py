"""Pages to archive, and a way to read them back."""

import random
from pathlib import Path

from isal import isal_zlib

from shoal.archive import ArchiveReader, ArchiveWriter, SegmentFolder, WriteRules
from shoal.model.page import PageRecord, PageRef, Response
from shoal.model.request import Request

NOON = 1_763_208_000.123456  # 2025-11-15T12:00:00.123456Z
DAY = 86_400.0
SENT = (("Host", "books.example"), ("User-Agent", "Shoal/0"), ("Accept-Encoding", "gzip"))


def decode(wire: bytes, content_encoding: str, decoded_bytes: int | None) -> bytes:
    assert content_encoding == "gzip"
    body: bytes = isal_zlib.decompress(wire, 31)
    return body


def text(number: int, *, size: int = 4000) -> bytes:
    """Return a unique body that compresses partly, as real pages do."""
    rng = random.Random(number)
    return "".join(rng.choices("<a href=/>\n 0123456789abcdef", k=size)).encode()


def page(
    body: bytes = b"<h1>hello</h1>",
    *,
    url: str = "https://books.example/a?b=1",
    status: int = 200,
    headers: tuple[tuple[str, str], ...] = (("content-type", "text/html"),),
    at: float = NOON,
    encoded: bool = False,
) -> tuple[Request, Response]:
    wire = isal_zlib.compress(body, 1, 31) if encoded else body
    if encoded:
        headers = (*headers, ("content-encoding", "gzip"))
    return Request(url=url), Response(url, status, headers, body, wire, at, 0.2, "192.0.2.7")


def record_of(ref: PageRef, digest: str, response: Response) -> PageRecord:
    return PageRecord(ref, response.status, response.fetched_at, digest=digest)


def open_writer(
    folder: Path, checkpoint: bytes | None = None, *, segment_bytes: int = 1 << 30
) -> ArchiveWriter:
    return ArchiveWriter.open(
        SegmentFolder(folder), checkpoint, WriteRules(crawl="books", segment_bytes=segment_bytes)
    )


def open_reader(folder: Path) -> ArchiveReader:
    return ArchiveReader(SegmentFolder(folder), decode)


def append(writer: ArchiveWriter, *args: object, **kwargs: object) -> PageRef:
    """Archive one page made from the arguments of `page`."""
    request, response = page(*args, **kwargs)  # type: ignore[arg-type]  # passed through as they are
    return writer.append(request, SENT, response)[0]


def sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.glob("*.warc.gz"))}
