"""Reads pages from segments: one by its reference, or all of them."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from shoal.archive.contract import ReadableSegments
from shoal.archive.errors import PageDamaged, PageExpired, PageMissing, PageUnreadable
from shoal.archive.gzip_members import CorruptRange, Member, scan, unpack
from shoal.archive.names import SegmentName
from shoal.archive.records import ArchivedResponse, WarcRecord, parse_record, parse_response
from shoal.archive.request_metadata import parse_metadata
from shoal.model.errors import Rejected
from shoal.model.limits import MIB
from shoal.model.page import PageRef
from shoal.model.request import Request

Decode = Callable[[bytes, str, int | None], bytes]
"""Decodes a body by its Content-Encoding header, to the number of bytes that is recorded with the page.

None: an older version wrote the page and recorded none. Raises `Rejected` for what cannot be decoded."""

_NOT_MODIFIED = 304
_PAGES = ("response", "revisit")

# Of one record. A segment may have pages that were fetched under any limits, so this is not one of them; it
# keeps a crafted record from filling the memory.
MAX_RECORD_BYTES = 512 * MIB


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A response as it was archived; for a page that had not changed, with the body that it repeats."""

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

    @property
    def request(self) -> Request:
        """The request, with what handlers need; raises `PageDamaged` if it cannot be decoded."""
        return parse_metadata(self.url, self.request_metadata)

    def header(self, name: str, default: str = "") -> str:
        """Return the first value of the header `name` (lower case)."""
        return next((value for key, value in self.headers if key == name), default)


@dataclass(frozen=True, slots=True)
class Damage:
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
            return self._page(ref, self._response(ref))
        except PageUnreadable as error:
            raise type(error)(f"archive: {ref.segment} at {ref.offset}: {error}") from None
        except Rejected as error:  # its body cannot be decoded: that concerns no other page
            raise PageDamaged(f"archive: {ref.segment} at {ref.offset}: {error}") from None

    async def read_async(self, ref: PageRef) -> StoredPage:
        """Return the page at `ref` like `read`; where that may take long, in a thread."""
        if self._segments.grows:
            return self.read(ref)
        return await asyncio.to_thread(self.read, ref)

    def raw_records(self, ref: PageRef) -> bytes:
        """Return the compressed records of a page: the response, and the request after it."""
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
        for found in self.records(segments):
            if isinstance(found, Damage):
                yield found
                continue
            ref, record = found
            if record.kind not in _PAGES:
                continue
            try:
                yield self._page(ref, parse_response(record))
            except Rejected as error:
                yield Damage(ref, str(error))

    def _page(self, ref: PageRef, response: ArchivedResponse) -> StoredPage:
        at, full = ref, response
        while full.original is not None:
            if _order(full.original) >= _order(at):  # which also guarantees that this loop ends
                raise PageDamaged("a revisit has to refer to an earlier record")
            at = full.original
            full = self._response(at)
        if full.digest != response.digest:
            raise PageDamaged("the original record has another payload")
        # A 304 confirms the stored response: its status and headers are still valid.
        current = full if response.status == _NOT_MODIFIED else response
        encoding = ",".join(value for name, value in full.headers if name == "content-encoding")
        return StoredPage(
            ref=ref,
            url=response.url,
            status=current.status,
            headers=current.headers,
            body=self._decode(full.wire, encoding, full.decoded_bytes) if encoding else full.wire,
            wire=full.wire,
            fetched_at=response.fetched_at,
            digest=response.digest,
            original=None if at == ref else at,
            request_metadata=full.request_metadata,
        )

    def _response(self, ref: PageRef) -> ArchivedResponse:
        segment = SegmentName.parse(ref.segment)
        if ref.length > self._record_bytes:
            raise PageDamaged(f"longer than {self._record_bytes} bytes")
        member = self._segments.read(segment, ref.offset, ref.length)
        if member is None:
            if self._segments.was_expired(segment):
                raise PageExpired("the segment has expired and was deleted")
            raise PageMissing("there is no such segment")
        if len(member) < ref.length:
            raise PageDamaged("the segment ends before the page does")
        return parse_response(parse_record(unpack(member, limit=self._record_bytes)))

    def _bytes(self, segment: SegmentName, offset: int, length: int) -> bytes:
        return self._segments.read(segment, offset, length) or b""  # deleted during the scan: it ends here


def _order(ref: PageRef) -> tuple[SegmentName, int]:
    return SegmentName.parse(ref.segment), ref.offset
