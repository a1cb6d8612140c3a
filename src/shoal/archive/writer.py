"""Writes pages to segments, with a checkpoint to which a crash is undone."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, time

import msgspec

from shoal import __version__
from shoal.archive.contract import Segments
from shoal.archive.gzip_members import pack, pack_short, pack_stored
from shoal.archive.names import SegmentName, file_name
from shoal.archive.warc import (
    Headers,
    RecordIds,
    conversion_records,
    metadata_record,
    page_records,
    revisit_records,
    warcinfo_record,
)
from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.limits import MIB
from shoal.model.page import PageRecord, PageRef, Response
from shoal.model.request import Request

_DAY_S = 86_400.0

Part = tuple[SegmentName, int, bytes]  # segment, offset, data


class WriteRules(msgspec.Struct, frozen=True):
    crawl: str
    writer: str = ""  # name of the writer, if several write: each has separate segments
    robots: bool = True  # whether robots.txt was obeyed, for the header of every segment
    segment_bytes: int = 1 << 30
    buffer_bytes: int = 8 * MIB  # appended and not written yet; beyond it `append` writes
    fsync: bool = False

    @property
    def stem(self) -> str:
        """The first part of the names of the segments."""
        return file_name(f"{self.crawl}.{self.writer}" if self.writer else self.crawl)


class ArchiveCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    """The end of the archive: the last segment and its length; an empty name: nothing was written."""

    segment: str = ""
    length: int = 0
    accepted: bool = False  # the operator knows that this segment lacks bytes; the next page starts another


class Cut(msgspec.Struct, frozen=True):
    """What has to be removed so that the archive ends at its checkpoint."""

    remove: tuple[SegmentName, ...] = ()
    last: SegmentName | None = None  # None: no segment remains
    length: int = 0  # of the last segment afterwards
    shorten: bool = False  # it is longer than that now
    missing: int = 0  # bytes of the checkpoint that it does not have
    accepted: bool = False  # the operator knows that


def plan_cut(sizes: Mapping[SegmentName, int], checkpoint: ArchiveCheckpoint) -> Cut:
    """Decide how to cut the archive back to `checkpoint`."""
    if not checkpoint.segment:
        return Cut(remove=tuple(sizes))
    last = SegmentName.parse(checkpoint.segment)
    size = sizes.get(last, 0)
    return Cut(
        remove=tuple(segment for segment in sizes if segment > last),
        last=last,
        length=min(size, checkpoint.length),
        shorten=size > checkpoint.length,
        missing=max(checkpoint.length - size, 0),
        accepted=checkpoint.accepted,
    )


def accept_loss(segments: Segments, checkpoint: bytes) -> tuple[bytes, str] | None:
    """Return a checkpoint with which a crawl resumes although its archive lacks bytes, and what it lacks.

    None: it lacks none, or they have expired.
    """
    state = msgspec.msgpack.decode(checkpoint, type=ArchiveCheckpoint)
    if not state.segment or state.accepted:
        return None
    last = SegmentName.parse(state.segment)
    missing = state.length - (segments.size(last) or 0)
    if missing <= 0 or segments.was_expired(last):
        return None
    accepted = msgspec.structs.replace(state, accepted=True)
    return msgspec.msgpack.encode(accepted), f"{segments.path}/{last} lacks {missing} bytes"


class ArchiveWriter:
    """Writes the archive of a crawl, or the segments of one worker; made by `open`."""

    def __init__(self, segments: Segments, rules: WriteRules) -> None:
        self._segments = segments
        self._rules = rules
        self._ids = RecordIds()
        self._segment: SegmentName | None = None
        self._name = ""
        self._length = 0  # of the segment, including the buffer
        self._next_day = 0.0  # pages from then on go to another segment
        self._full = True  # the next page starts a segment
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._parts: list[Part] = []  # queued for writing
        self._written = ArchiveCheckpoint()

    @classmethod
    def open(
        cls, segments: Segments, checkpoint: bytes | None, rules: WriteRules, *, accept_loss: bool = False
    ) -> "ArchiveWriter":
        """Continue at `checkpoint`; None: a new archive, after the segments that already exist.

        Raise `Misconfigured` if the archive is shorter than the checkpoint, unless `accept_loss` is set.
        """
        writer = cls(segments, rules)
        sizes = {name: segments.size(name) or 0 for name in segments.segments(rules.stem)}
        if checkpoint is not None:
            cut = plan_cut(sizes, msgspec.msgpack.decode(checkpoint, type=ArchiveCheckpoint))
            writer._apply(cut, accept_loss=accept_loss)
        elif sizes:
            last = max(sizes)
            writer._continue(last, sizes[last], full=True)
        writer._written = ArchiveCheckpoint(writer._name, writer._length)
        return writer

    def _apply(self, cut: Cut, *, accept_loss: bool) -> None:
        accepted = accept_loss or cut.accepted
        if cut.last and cut.missing and not accepted and not self._segments.was_expired(cut.last):
            raise Misconfigured(
                f"archive: {self._segments.path}/{cut.last} lacks {cut.missing} bytes that the store has"
                " committed (power loss, or an older copy): restore the file, or accept the"
                " loss with shoal verify --repair"
            )
        for segment in cut.remove:
            self._segments.remove(segment)
        if cut.last:
            if cut.shorten:
                self._segments.cut(cut.last, cut.length)
            # After a loss a new segment starts, so that the rest of the old one stays unchanged.
            self._continue(cut.last, cut.length, full=cut.missing > 0 or cut.accepted)

    def append(self, request: Request, sent_headers: Headers, response: Response) -> tuple[PageRef, str]:
        """Buffer a page and return its reference and payload digest; the next `flush` writes it.

        `sent_headers` are the headers as they were sent, including Host.
        """
        page, sent, digest, response_id = page_records(self._ids, request, sent_headers, response)
        if response.rendered is None:
            packed = pack(page) if response.wire is response.body else pack_stored(page)
        else:
            dom, *pictures = conversion_records(self._ids, response, response_id)
            packed = b"".join([pack(page), pack(dom), *map(pack_stored, pictures)])
        return self._append(packed, pack_short(sent), response.fetched_at), digest

    def append_revisit(
        self, request: Request, sent_headers: Headers, response: Response, original: PageRecord
    ) -> tuple[PageRef, str]:
        """Buffer a page that has the same body as `original`, an earlier page of this archive.

        The returned reference leads to that body. Use `original.ref` for the next revisit: a revisit of a
        revisit can be read, too, but takes one read per step.
        """
        page, sent, digest = revisit_records(self._ids, request, sent_headers, response, original)
        return self._append(pack_short(page), pack_short(sent), response.fetched_at), digest

    def append_metadata(self, url: str, block: bytes, *, at: float, kind: str) -> PageRef:
        """Buffer a record about a page, and return its reference; `kind` is its content type."""
        record = metadata_record(self._ids, url, at=at, kind=kind, block=block)
        return self._append(pack_short(record), b"", at)

    def flush(self) -> None:
        """Write everything that was appended. If it raises, nothing is lost: call it again."""
        self._queue_buffer()
        while self._parts:
            self._segments.write(*self._parts[0], sync=self._rules.fsync)
            self._advance()

    async def flush_async(self) -> None:
        """Write everything that was appended, like `flush`; where that may take long, in a thread.

        The next call writes pages that are appended during this one. One call at a time.
        """
        if self._segments.grows:
            self.flush()
            return
        for part in self.begin_flush():
            await asyncio.to_thread(self.write_parts, [part])
            self.end_flush([part])

    def begin_flush(self) -> list[Part]:
        """Return what has to be written, for `write_parts`; pages can be appended at any time after this."""
        self._queue_buffer()
        return list(self._parts)

    def write_parts(self, parts: Sequence[Part]) -> None:
        """Write parts, in any thread; if it raises or is given up, a later flush writes them again."""
        for part in parts:
            self._segments.write(*part, sync=self._rules.fsync)

    def end_flush(self, parts: Sequence[Part]) -> bytes:
        """Record that parts are written, and return the checkpoint behind them."""
        for part in parts:
            if self._parts and self._parts[0] is part:
                self._advance()
        return msgspec.msgpack.encode(self._written)

    def checkpoint(self) -> bytes:
        """Return the end of the archive, for the store to commit; call `flush` first."""
        if self._buffered and self._segments.grows:
            raise RuntimeError("a checkpoint must not contain what is not written yet")
        return msgspec.msgpack.encode(self._written)

    def _queue_buffer(self) -> None:
        """Queue the content of the buffer for writing; where segments cannot grow, it is a whole segment."""
        if self._segment and self._buffered:
            offset = self._length - self._buffered
            self._parts.append((self._segment, offset, b"".join(self._buffer)))
            self._buffer.clear()
            self._buffered = 0
            self._full |= not self._segments.grows

    def _advance(self) -> None:
        segment, offset, data = self._parts.pop(0)
        self._written = ArchiveCheckpoint(str(segment), offset + len(data))

    def close(self, *, flush: bool = True) -> None:
        """Flush, unless that has just failed, and close the files."""
        try:
            if flush:
                self.flush()
        finally:
            self._segments.close()

    def _append(self, page: bytes, sent: bytes, at: float) -> PageRef:
        if self._buffered > self._rules.buffer_bytes:
            self._empty_buffer()
        if self._full or at >= self._next_day:
            self._rotate(at)
        offset = self._length
        self._add(page)
        if sent:
            self._add(sent)
        self._full = self._length >= self._rules.segment_bytes
        return PageRef(self._name, offset, len(page))

    def _empty_buffer(self) -> None:
        """Write the buffer, or queue it if writing may take long, or another thread is writing."""
        if not self._segments.grows or self._parts:
            self._queue_buffer()
            return
        with suppress(Unavailable):  # the pages stay queued, and the next `flush` raises
            self.flush()

    def _rotate(self, at: float) -> None:
        self._empty_buffer()
        day = datetime.fromtimestamp(at, UTC).date()
        if self._segment is None:
            following = SegmentName(day, 1, self._rules.stem)
        else:
            following = self._segment.following(day)
        self._continue(following, 0, full=False)
        fields = [
            ("software", f"Shoal/{__version__}"),
            ("format", "WARC File Format 1.1"),
            ("conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"),
            ("isPartOf", self._rules.crawl),
            ("robots", "obey" if self._rules.robots else "ignore"),
        ]
        self._add(pack(warcinfo_record(self._ids, self._name, at=at, fields=fields)))

    def _continue(self, segment: SegmentName, length: int, *, full: bool) -> None:
        self._segment, self._name, self._length = segment, str(segment), length
        self._next_day = datetime.combine(segment.day, time.min, UTC).timestamp() + _DAY_S
        written = length > 0 and not self._segments.grows  # an object store cannot append to it
        self._full = full or written or length >= self._rules.segment_bytes

    def _add(self, member: bytes) -> None:
        self._buffer.append(member)
        self._buffered += len(member)
        self._length += len(member)
