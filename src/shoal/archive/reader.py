"""Pages out of segments: by reference, or all of them."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from shoal.archive.errors import PageDamaged, PageExpired, PageMissing, PageUnreadable
from shoal.archive.gzip_members import CorruptRange, Member, scan, unpack
from shoal.archive.names import SegmentName
from shoal.archive.records import ArchivedResponse, WarcRecord, parse_answer, parse_record
from shoal.archive.request_metadata import read_asked
from shoal.archive.segments import Readable
from shoal.model.errors import Rejected
from shoal.model.limits import KIB, FetchLimits
from shoal.model.page import PageRef
from shoal.model.request import Request

Decode = Callable[[bytes, list[str]], bytes]
"""Undo content encodings, listed in the order in which they were applied, within the limits of fetching.

Raises `Rejected` for what cannot be decoded."""

_NOT_MODIFIED = 304
_PAGES = ("response", "revisit")
_WARC_HEADERS = 16 * KIB  # generous for what surrounds the HTTP message in a record


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A response as it was archived; of a page that had not changed, with the body it repeats."""

    ref: PageRef
    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes  # decoded
    wire: bytes  # as sent
    fetched_at: float
    digest: str
    original: PageRef | None = None  # where the body lies, if elsewhere
    asked: str | None = None

    @property
    def request(self) -> Request:
        """What a handler gets to know of the request; raises `PageDamaged` if it cannot be read."""
        return read_asked(self.url, self.asked)

    def header(self, name: str, default: str = "") -> str:
        """Give the first value of `name` (lower case)."""
        return next((value for key, value in self.headers if key == name), default)


@dataclass(frozen=True, slots=True)
class Damage:
    """A stretch of a segment that cannot be read, met while going through it."""

    ref: PageRef
    reason: str
    torn: bool = False  # the segment's end: a write that was cut off, or is still going on


class ArchiveReader:
    """Reads what an `ArchiveWriter` wrote, beside it if need be."""

    def __init__(self, folder: Readable, decode: Decode, *, limits: FetchLimits | None = None) -> None:
        self._folder = folder
        self._decode = decode
        limits = limits or FetchLimits()
        self._record_bytes = limits.wire_bytes + 2 * limits.header_bytes + _WARC_HEADERS

    @property
    def place(self) -> str:
        """Where the segments are, for people."""
        return str(self._folder.path)

    def read(self, ref: PageRef) -> StoredPage:
        """Return the page at `ref`, or raise `PageDamaged`, `PageMissing` or `PageExpired`."""
        try:
            return self._page(ref, self._answer(ref))
        except PageUnreadable as error:
            raise type(error)(f"archive: {ref.segment} at {ref.offset}: {error}") from None

    async def read_aside(self, ref: PageRef) -> StoredPage:
        """Do what `read` does; where that takes long, without keeping the event loop from other work."""
        if self._folder.grows:
            return self.read(ref)
        return await asyncio.to_thread(self.read, ref)

    def packed(self, ref: PageRef) -> bytes:
        """Return a page's records as they lie in the segment: the answer, and the request that led to it."""
        segment, end = SegmentName.parse(ref.segment), ref.offset + ref.length
        read = partial(self._bytes, segment)
        following = next(scan(lambda at, length: read(end + at, length), limit=self._record_bytes), None)
        asked = isinstance(following, Member) and parse_record(following.record).kind == "request"
        length = ref.length + (following.length if following and asked else 0)
        return read(ref.offset, length)

    def records(self, segments: Iterable[str] | None = None) -> Iterator[tuple[PageRef, WarcRecord] | Damage]:
        """Go through the records of the segments named (None: all), oldest first, past any damage."""
        names = self._folder.segments() if segments is None else sorted(map(SegmentName.parse, segments))
        for name in names:
            for found in scan(partial(self._bytes, name), limit=self._record_bytes):
                ref = PageRef(str(name), found.offset, found.length)
                if isinstance(found, CorruptRange):
                    yield Damage(ref, found.reason, found.torn)
                    continue
                try:
                    yield ref, parse_record(found.record)
                except PageDamaged as error:
                    yield Damage(ref, str(error))

    def pages(self, segments: Iterable[str] | None = None) -> Iterator[StoredPage | Damage]:
        """Go through the pages of the segments named (None: all), oldest first, past any damage."""
        for found in self.records(segments):
            if isinstance(found, Damage):
                yield found
                continue
            ref, record = found
            if record.kind not in _PAGES:
                continue
            try:
                yield self._page(ref, parse_answer(record))
            except Rejected as error:
                yield Damage(ref, str(error))

    def _page(self, ref: PageRef, answer: ArchivedResponse) -> StoredPage:
        at, full = ref, answer
        while full.original is not None:
            if _place(full.original) >= _place(at):  # also what keeps this loop from going on for ever
                raise PageDamaged("a revisit has to refer to an earlier record")
            at = full.original
            full = self._answer(at)
        if full.digest != answer.digest:
            raise PageDamaged("the record referred to holds another payload")
        # A 304 is about the stored answer, whose status and headers are then still the ones that count.
        shown = full if answer.status == _NOT_MODIFIED else answer
        encodings = _encodings(full)
        return StoredPage(
            ref=ref,
            url=answer.url,
            status=shown.status,
            headers=shown.headers,
            body=self._decode(full.wire, encodings) if encodings else full.wire,
            wire=full.wire,
            fetched_at=answer.fetched_at,
            digest=answer.digest,
            original=None if at == ref else at,
            asked=full.asked,
        )

    def _answer(self, ref: PageRef) -> ArchivedResponse:
        segment = SegmentName.parse(ref.segment)
        if ref.length > self._record_bytes:
            raise PageDamaged(f"longer than {self._record_bytes} bytes")
        member = self._folder.read(segment, ref.offset, ref.length)
        if member is None:
            if self._folder.was_expired(segment):
                raise PageExpired("the segment was kept long enough and deleted")
            raise PageMissing("there is no such segment")
        if len(member) < ref.length:
            raise PageDamaged("the segment ends before the page does")
        return parse_answer(parse_record(unpack(member, limit=self._record_bytes)))

    def _bytes(self, segment: SegmentName, offset: int, length: int) -> bytes:
        return self._folder.read(segment, offset, length) or b""  # expired while we were at it: it ends here


def _place(ref: PageRef) -> tuple[SegmentName, int]:
    return SegmentName.parse(ref.segment), ref.offset


def _encodings(answer: ArchivedResponse) -> list[str]:
    listed = ",".join(value for name, value in answer.headers if name == "content-encoding").lower()
    return [name for name in map(str.strip, listed.split(",")) if name not in ("", "identity")]
