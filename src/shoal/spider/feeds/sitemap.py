"""Sitemaps: XML, an index of others, plain text, a feed; each of them also gzipped.

A sitemap is read while it is walked, in pieces: memory does not grow with it. What is in it is passed on as
written, for the scope and the connect guard to judge; what cannot be an address is skipped and counted. A cut
sitemap is good up to the cut. What went wrong with the whole is a `Failure`, known when the walk is over.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import chain

from isal import igzip_lib

from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import KIB, MIB, LinkLimits
from shoal.spider.feeds.feed import FEED_FIELDS, FEED_RECORDS, FEED_ROOTS, entry_of
from shoal.spider.feeds.xml_records import Foreign, XmlRecord, records
from shoal.spider.feeds.xml_tokens import Hostile
from shoal.spider.text.dates import moment
from shoal.spider.text.decoding import declared
from shoal.spider.text.encodings import UTF_8, read_pieces

_PIECE = 64 * KIB
_GZIP = b"\x1f\x8b"
_UNPACK_ERROR: type[Exception] = igzip_lib.error  # type: ignore[assignment]
_MEMBERS = 64  # gzip members in a row; nobody honest comes near
_ROOTS = FEED_ROOTS | {"urlset", "sitemapindex"}
_RECORDS = FEED_RECORDS | {"url", "sitemap"}
_FIELDS = FEED_FIELDS | {"loc", "lastmod"}


@dataclass(frozen=True, slots=True)
class SitemapLimits:
    body_bytes: int = 50 * MIB  # decoded
    urls: int = 50_000
    depth: int = 3  # of indexes below one another; for the caller to count
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
    """One sitemap. Walk it once, then ask what became of it."""

    def __init__(self, body: bytes, content_type: str = "", *, limits: SitemapLimits | None = None) -> None:
        self.limits = limits or SitemapLimits()
        self.skipped = 0  # entries without a usable address
        self.beyond = 0  # entries that were too many
        self.truncated = False  # it stops before its end
        self.failure: Failure | None = None  # why the rest of it, or all, could not be read
        self._body = body
        self._content_type = content_type
        self._full = False

    def __iter__(self) -> Iterator[SitemapEntry]:
        """Walk the entries. Never raises."""
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
        except Foreign as foreign:
            self.failure = Failure(FailureClass.PARSE_ERROR, f"not a sitemap: {foreign}")
        except Hostile as hostile:
            self.failure = Failure(FailureClass.BOMB, f"the sitemap is not read: {hostile}")

    def _entries(self) -> Iterator[SitemapEntry]:
        texts = self._texts()
        first = next(texts, "").lstrip()
        rest = chain([first], texts)
        return self._entries_of_xml(_Tap(rest)) if first.startswith("<") else _entries_of_lines(rest)

    def _entries_of_xml(self, tap: "_Tap") -> Iterator[SitemapEntry]:
        complete = False
        for record in records(tap, _ROOTS, _RECORDS, _FIELDS):
            if self._full and not tap.closed:
                self.beyond += tap.count_rest(f"</{record.tag}>")
            complete = record.complete or tap.closed
            if record.name in _RECORDS and (record.complete or not tap.closed):
                yield _entry_of(record)
        self.truncated |= not complete

    def _texts(self) -> Iterator[str]:
        pieces = self._pieces()
        first = next(pieces, b"")
        encoding, mark = declared(first, self._content_type)
        return read_pieces(chain([first[mark:]], pieces), encoding or UTF_8)

    def _pieces(self) -> Iterator[bytes]:
        """Give the body in pieces, unpacked, up to the limit."""
        packed = self._body.startswith(_GZIP)
        size = 0
        for piece in self._unpacked() if packed else _slices(self._body):
            size += len(piece)
            if size > self.limits.body_bytes:
                kind = FailureClass.BOMB if packed else FailureClass.TOO_LARGE
                raise _Unreadable(kind, f"it is larger than {self.limits.body_bytes} bytes")
            yield piece

    def _unpacked(self) -> Iterator[bytes]:
        data = self._body
        for _ in range(_MEMBERS):
            stream = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
            try:
                yield stream.decompress(data, _PIECE)
                while not stream.eof:
                    if stream.needs_input:
                        self.truncated = True
                        return
                    yield stream.decompress(b"", _PIECE)
            except _UNPACK_ERROR as error:
                raise _Unreadable(FailureClass.DECODE, f"it cannot be unpacked: {error}") from None
            data = stream.unused_data
            if not data.startswith(_GZIP):
                return
        raise _Unreadable(FailureClass.BOMB, f"it is packed in more than {_MEMBERS} parts")


class _Tap:
    """Gives text to a reader, until the rest of it need only be counted: a thousand times cheaper."""

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
        """Take what has not been given yet away from the reader, and count how often `mark` is in it."""
        self.closed = True
        count = 0
        overlap = self._last
        for text in self._texts:
            overlap = overlap[-len(mark) + 1 :] + text
            count += overlap.count(mark)
        return count


class _Unreadable(Exception):
    def __init__(self, kind: FailureClass, reason: str) -> None:
        self.failure = Failure(kind, f"not a readable sitemap: {reason}")


def _slices(body: bytes) -> Iterator[bytes]:
    return (body[start : start + _PIECE] for start in range(0, len(body), _PIECE))


def _entry_of(record: XmlRecord) -> SitemapEntry:
    if record.name in FEED_RECORDS:
        entry = entry_of(record)
        return SitemapEntry(entry.link, entry.updated or entry.published)
    loc = next((field.text for field in record.own("loc")), "")
    lastmod = next((moment(field.text) for field in record.own("lastmod")), None)
    return SitemapEntry(loc, lastmod, EntryKind.SITEMAP if record.name == "sitemap" else EntryKind.PAGE)


def _entries_of_lines(texts: Iterable[str]) -> Iterator[SitemapEntry]:
    """Read one address a line; if there is none at all, it is something else."""
    any_address = False
    for line in _lines(texts):
        if line.lower().startswith(("http://", "https://")):
            any_address = True
            yield SitemapEntry(line)
        elif line:
            yield SitemapEntry("")
    if not any_address:
        raise _Unreadable(FailureClass.PARSE_ERROR, "it is neither XML nor a list of addresses")


def _lines(texts: Iterable[str]) -> Iterator[str]:
    rest = ""
    for text in texts:
        *lines, rest = (rest + text).replace("\r", "\n").split("\n")
        yield from map(str.strip, lines)
        rest = rest[:_PIECE]  # a line that is longer is no address
    yield rest.strip()
