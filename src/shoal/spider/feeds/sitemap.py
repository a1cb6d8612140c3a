"""Read sitemaps: XML, a sitemap index, plain text or a feed; each of them also gzipped.

A sitemap is read in pieces while it is iterated, so memory does not grow with its size. URLs are returned as
written: the scope and the connect guard check them later. Entries that cannot be URLs are skipped and
counted. A truncated sitemap is read up to where it ends. If reading fails, `failure` says why, after the
iteration.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import chain

from isal import igzip_lib

from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import KIB, MIB, LinkLimits
from shoal.spider.feeds.feed import FEED_FIELDS, FEED_RECORDS, FEED_ROOTS, read_entry
from shoal.spider.feeds.xml_records import UnexpectedDocument, XmlRecord, read_records
from shoal.spider.feeds.xml_tokens import MaliciousXml
from shoal.spider.text.dates import parse_date
from shoal.spider.text.decoding import declared_encoding
from shoal.spider.text.encodings import UTF_8, decode_pieces

_PIECE_BYTES = 64 * KIB
_GZIP = b"\x1f\x8b"
_GZIP_ERROR: type[Exception] = igzip_lib.error  # type: ignore[assignment]
_MAX_MEMBERS = 64  # concatenated gzip members; ordinary files have one
_ROOTS = FEED_ROOTS | {"urlset", "sitemapindex"}
_RECORDS = FEED_RECORDS | {"url", "sitemap"}
_FIELDS = FEED_FIELDS | {"loc", "lastmod"}


@dataclass(frozen=True, slots=True)
class SitemapLimits:
    body_bytes: int = 50 * MIB  # decoded
    urls: int = 50_000
    depth: int = 3  # nested sitemap indexes; the caller counts them
    url_bytes: int = LinkLimits().url_bytes


class EntryKind(StrEnum):
    PAGE = "page"
    SITEMAP = "sitemap"


@dataclass(frozen=True, slots=True)
class SitemapEntry:
    loc: str  # as written
    lastmod: datetime | None = None
    kind: EntryKind = EntryKind.PAGE


class Sitemap:
    """One sitemap. Iterate over it once, then read the counters and `failure`."""

    def __init__(self, body: bytes, content_type: str = "", *, limits: SitemapLimits | None = None) -> None:
        self.limits = limits or SitemapLimits()
        self.skipped = 0  # entries without a usable URL
        self.beyond = 0  # entries above the limit, not returned
        self.truncated = False  # the document ends early
        self.failure: Failure | None = None  # why all or the rest of it could not be read
        self._body = body
        self._content_type = content_type
        self._full = False

    def __iter__(self) -> Iterator[SitemapEntry]:
        """Yield the entries. Never raises."""
        found = 0
        try:
            for entry in self._entries():
                if self._full:
                    self.beyond += 1
                elif not entry.loc or len(entry.loc.encode()) > self.limits.url_bytes:
                    self.skipped += 1
                else:
                    yield entry
                    found += 1
                self._full = found + self.skipped >= self.limits.urls
        except _Unreadable as unreadable:
            self.failure = unreadable.failure
        except UnexpectedDocument as error:
            self.failure = Failure(FailureClass.PARSE_ERROR, f"not a sitemap: {error}")
        except MaliciousXml as error:
            self.failure = Failure(FailureClass.BOMB, f"malicious sitemap: {error}")

    @property
    def partial(self) -> str:
        """Why entries are missing, after the iteration; empty if none are."""
        if self.failure is not None:
            return self.failure.reason
        missing = []
        if self.truncated:
            missing.append("the sitemap ends early")
        if self.beyond:
            missing.append(f"{self.beyond} entries beyond the first {self.limits.urls}")
        if self.skipped:
            missing.append(f"{self.skipped} entries without a usable URL")
        return "; ".join(missing)

    def _entries(self) -> Iterator[SitemapEntry]:
        texts = self._texts()
        first = next(texts, "").lstrip()
        rest = chain([first], texts)
        return self._read_xml(_CountableRest(rest)) if first.startswith("<") else _read_lines(rest)

    def _read_xml(self, texts: "_CountableRest") -> Iterator[SitemapEntry]:
        complete = False
        for record in read_records(texts, _ROOTS, _RECORDS, _FIELDS):
            if self._full and not texts.closed:
                self.beyond += texts.count_rest(f"</{record.tag}>")
            complete = record.complete or texts.closed
            if record.name in _RECORDS and (record.complete or not texts.closed):
                yield _sitemap_entry(record)
        self.truncated |= not complete

    def _texts(self) -> Iterator[str]:
        pieces = self._pieces()
        first = next(pieces, b"")
        encoding, mark = declared_encoding(first, self._content_type)
        return decode_pieces(chain([first[mark:]], pieces), encoding or UTF_8)

    def _pieces(self) -> Iterator[bytes]:
        """Yield the decompressed body in pieces. Raises `_Unreadable` above the size limit."""
        packed = self._body.startswith(_GZIP)
        size = 0
        for piece in self._decompress() if packed else _slices(self._body):
            size += len(piece)
            if size > self.limits.body_bytes:
                failure_class = FailureClass.BOMB if packed else FailureClass.TOO_LARGE
                raise _Unreadable(failure_class, f"it is larger than {self.limits.body_bytes} bytes")
            yield piece

    def _decompress(self) -> Iterator[bytes]:
        data = self._body
        for _ in range(_MAX_MEMBERS):
            stream = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
            try:
                yield stream.decompress(data, _PIECE_BYTES)
                while not stream.eof:
                    if stream.needs_input:
                        self.truncated = True
                        return
                    yield stream.decompress(b"", _PIECE_BYTES)
            except _GZIP_ERROR as error:
                raise _Unreadable(FailureClass.DECODE, f"it cannot be decompressed: {error}") from None
            data = stream.unused_data
            if not data.startswith(_GZIP):
                return
        raise _Unreadable(FailureClass.BOMB, f"it has more than {_MAX_MEMBERS} gzip members")


class _CountableRest:
    """An iterator over texts that can count entries in the rest without parsing: a thousand times cheaper."""

    def __init__(self, texts: Iterator[str]) -> None:
        self.closed = False
        self._texts = texts
        self._last = ""

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            self._last = text
            yield text
            if self.closed:
                return

    def count_rest(self, mark: str) -> int:
        """End the iteration, and return how often `mark` occurs in what was not yet yielded."""
        self.closed = True
        count = 0
        overlap = self._last
        for text in self._texts:
            overlap = overlap[-len(mark) + 1 :] + text
            count += overlap.count(mark)
        return count


class _Unreadable(Exception):
    def __init__(self, failure_class: FailureClass, reason: str) -> None:
        self.failure = Failure(failure_class, f"not a readable sitemap: {reason}")


def _slices(body: bytes) -> Iterator[bytes]:
    return (body[start : start + _PIECE_BYTES] for start in range(0, len(body), _PIECE_BYTES))


def _sitemap_entry(record: XmlRecord) -> SitemapEntry:
    if record.name in FEED_RECORDS:
        entry = read_entry(record)
        return SitemapEntry(entry.link, entry.updated or entry.published)
    loc = next((field.text for field in record.own("loc")), "")
    lastmod = next((parse_date(field.text) for field in record.own("lastmod")), None)
    return SitemapEntry(loc, lastmod, EntryKind.SITEMAP if record.name == "sitemap" else EntryKind.PAGE)


def _read_lines(texts: Iterable[str]) -> Iterator[SitemapEntry]:
    """Yield one entry per line. Raises `_Unreadable` if no line is a URL."""
    any_url = False
    for line in _lines(texts):
        if line.lower().startswith(("http://", "https://")):
            any_url = True
            yield SitemapEntry(line)
        elif line:
            yield SitemapEntry("")
    if not any_url:
        raise _Unreadable(FailureClass.PARSE_ERROR, "it is neither XML nor a list of URLs")


def _lines(texts: Iterable[str]) -> Iterator[str]:
    rest = ""
    for text in texts:
        *lines, rest = (rest + text).replace("\r", "\n").split("\n")
        yield from map(str.strip, lines)
        rest = rest[:_PIECE_BYTES]  # a longer line cannot be a URL
    yield rest.strip()
