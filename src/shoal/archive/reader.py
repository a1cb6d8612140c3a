"""Reads pages from segments: one by its reference, or all of them."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache, partial

import msgspec

from shoal.archive.contract import ReadableSegments
from shoal.archive.errors import PageDamaged, PageExpired, PageMissing, PageUnreadable
from shoal.archive.gzip_members import CorruptRange, Member, scan, unpack_all
from shoal.archive.names import SegmentName
from shoal.archive.records import (
    ArchivedResponse,
    Conversion,
    WarcRecord,
    parse_conversions,
    parse_metadata_block,
    parse_record,
    parse_response,
)
from shoal.archive.request_metadata import parse_metadata
from shoal.model.errors import Rejected
from shoal.model.limits import MIB
from shoal.model.page import PageRef, Rendered
from shoal.model.request import Request

Decode = Callable[[bytes, str, int | None], bytes]
"""Decodes a body by its Content-Encoding header, to the number of bytes that is recorded with the page.

None: an older version wrote the page and recorded none. Raises `Rejected` for what cannot be decoded."""

_NOT_MODIFIED = 304
_PAGES = ("response", "revisit")

MAX_REVISITS = 8  # from a revisit to its body; a writer refers to the body itself

# Of one record. A segment may have pages that were fetched under any limits, so this is not one of them; it
# keeps a crafted record from filling the memory.
MAX_RECORD_BYTES = 512 * MIB


class StoredPage(msgspec.Struct, frozen=True):
    """A response as it was archived; for a page that had not changed, with the body that it repeats.

    Of a rendered page, `body` is the DOM and `wire` the main response.
    """

    ref: PageRef
    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes  # decoded
    wire: bytes  # as sent
    fetched_at: float
    digest: str
    original: PageRef | None = None  # the page that has the body, if it is another one
    request_metadata: str | None = None  # header value, see `request_metadata.py`
    rendered: Rendered | None = None

    @property
    def leads_to(self) -> str:
        """Where a rendered page navigates by itself; empty: nowhere."""
        return self.rendered.leads_to if self.rendered is not None else ""

    @property
    def request(self) -> Request:
        """The request, with what handlers need; raises `PageDamaged` if it cannot be decoded."""
        return parse_metadata(self.url, self.request_metadata)

    def header(self, name: str, default: str = "") -> str:
        """Return the first value of the header `name` (lower case)."""
        return next((value for key, value in self.headers if key == name), default)


class Damage(msgspec.Struct, frozen=True):
    """A range of a segment that cannot be read, found by a scan."""

    ref: PageRef
    reason: str
    torn: bool = False  # at the end of the segment: an interrupted write, or one that is in progress


class ArchiveReader:
    """Reads what an `ArchiveWriter` has written, also while it writes."""

    def __init__(
        self, segments: ReadableSegments, decode: Decode, *, record_bytes: int = MAX_RECORD_BYTES
    ) -> None:
        self._segments = segments
        self._decode = decode
        self._record_bytes = record_bytes

    @property
    def location(self) -> str:
        """The folder or address of the segments."""
        return str(self._segments.path)

    def read(self, ref: PageRef) -> StoredPage:
        """Return the page at `ref`, or raise `PageDamaged`, `PageMissing` or `PageExpired`."""
        try:
            return self._page(ref, *self._response(ref))
        except PageUnreadable as error:
            raise type(error)(f"archive: {ref.segment} at {ref.offset}: {error}") from None
        except Rejected as error:  # its body cannot be decoded: that concerns no other page
            raise PageDamaged(f"archive: {ref.segment} at {ref.offset}: {error}") from None

    async def read_async(self, ref: PageRef) -> StoredPage:
        """Return the page at `ref` like `read`; where that may take long, in a thread."""
        if self._segments.grows:
            return self.read(ref)
        return await asyncio.to_thread(self.read, ref)

    def read_metadata(self, ref: PageRef, kind: str) -> bytes:
        """Return the block that `append_metadata` wrote at `ref`, or raise `PageUnreadable`."""
        [record, *_] = unpack_all(self._members(ref), limit=self._record_bytes)
        return parse_metadata_block(record, kind)

    async def read_metadata_async(self, ref: PageRef, kind: str) -> bytes:
        """Return a block like `read_metadata`; where that may take long, in a thread."""
        if self._segments.grows:
            return self.read_metadata(ref, kind)
        return await asyncio.to_thread(self.read_metadata, ref, kind)

    def raw_records(self, ref: PageRef) -> bytes:
        """Return the compressed records of a page: response, what was rendered of it, and request."""
        segment, end = SegmentName.parse(ref.segment), ref.offset + ref.length
        read = partial(self._bytes, segment)
        following = next(scan(lambda at, length: read(end + at, length), limit=self._record_bytes), None)
        is_request = False
        with suppress(PageDamaged):
            is_request = isinstance(following, Member) and parse_record(following.record).kind == "request"
        length = ref.length + (following.length if following and is_request else 0)
        return read(ref.offset, length)

    def records(self, segments: Iterable[str] | None = None) -> Iterator[tuple[PageRef, WarcRecord] | Damage]:
        """Yield the records of the named segments (None: all), oldest first, and every damaged range."""
        names = self._segments.segments() if segments is None else sorted(map(SegmentName.parse, segments))
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
        """Yield the pages of the named segments (None: all), oldest first, and every damaged range."""
        for found in whole_pages(self.records(segments)):
            if isinstance(found, Damage):
                yield found
                continue
            ref, record, conversions = found
            if record.kind not in _PAGES:
                continue
            try:
                yield self._page(ref, parse_response(record), parse_conversions(record, conversions))
            except Rejected as error:
                yield Damage(ref, str(error))

    def _page(self, ref: PageRef, response: ArchivedResponse, made: Conversion | None) -> StoredPage:
        at, full = ref, response
        for _ in range(MAX_REVISITS):
            if full.original is None:
                break
            at = full.original
            full, made = self._response(at)
        else:
            raise PageDamaged("its revisits do not lead to a body")
        if full.digest != response.digest:
            raise PageDamaged("the original record has another payload")
        # A 304 confirms the stored response: its status and headers are still valid.
        current = full if response.status == _NOT_MODIFIED else response
        encoding = ",".join(value for name, value in full.headers if name == "content-encoding")
        body = self._decode(full.wire, encoding, full.decoded_bytes) if encoding else full.wire
        return StoredPage(
            ref=ref,
            url=response.url,
            status=current.status,
            headers=current.headers,
            body=body if made is None else made.dom,
            wire=full.wire,
            fetched_at=response.fetched_at,
            digest=response.digest,
            original=None if at == ref else at,
            request_metadata=full.request_metadata,
            rendered=None if made is None else made.rendered,
        )

    def _response(self, ref: PageRef) -> tuple[ArchivedResponse, Conversion | None]:
        records = unpack_all(self._members(ref), limit=self._record_bytes)
        record, *others = map(parse_record, records)
        return parse_response(record), parse_conversions(record, others)

    def _members(self, ref: PageRef) -> bytes:
        """Return the compressed records at `ref`."""
        segment = _segment_name(ref.segment)
        if ref.length > self._record_bytes:
            raise PageDamaged(f"longer than {self._record_bytes} bytes")
        member = self._segments.read(segment, ref.offset, ref.length)
        if member is None:
            if self._segments.was_expired(segment):
                raise PageExpired("the segment has expired and was deleted")
            raise PageMissing("there is no such segment")
        if len(member) < ref.length:
            raise PageDamaged("the segment ends before the page does")
        return member

    def _bytes(self, segment: SegmentName, offset: int, length: int) -> bytes:
        return self._segments.read(segment, offset, length) or b""  # deleted during the scan: it ends here


@lru_cache(maxsize=64)  # the pages of a generation are in few segments
def _segment_name(name: str) -> SegmentName:
    return SegmentName.parse(name)


PageRecords = tuple[PageRef, WarcRecord, list[WarcRecord]]


def whole_pages(found: Iterable[tuple[PageRef, WarcRecord] | Damage]) -> Iterator[PageRecords | Damage]:
    """Join each response record with the conversion records behind it; the reference spans all of them."""
    page: PageRecords | None = None
    for one in found:
        if isinstance(one, Damage):
            yield from () if page is None else (page,)
            page = None
            yield one
            continue
        ref, record = one
        if record.kind == "conversion" and page is not None and record_follows(page[0], ref):
            spanning = PageRef(ref.segment, page[0].offset, page[0].length + ref.length)
            page = spanning, page[1], [*page[2], record]
            continue
        yield from () if page is None else (page,)
        page = ref, record, []
    yield from () if page is None else (page,)


def record_follows(before: PageRef, ref: PageRef) -> bool:
    return (before.segment, before.offset + before.length) == (ref.segment, ref.offset)
