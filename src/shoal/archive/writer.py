"""Pages into segments, and a checkpoint that a crash can be undone to."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time

import msgspec

from shoal import __version__
from shoal.archive.gzip_members import pack, pack_dense, pack_short
from shoal.archive.names import SegmentName, file_name
from shoal.archive.segments import Segments
from shoal.archive.warc import Headers, RecordIds, page_records, revisit_records, warcinfo_record
from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.limits import MIB
from shoal.model.page import PageRecord, PageRef, Response
from shoal.model.request import Request

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class WriteRules:
    crawl: str
    writer: str = ""  # who writes, where several do: each has segments of its own; empty: nobody else
    robots: bool = True  # as told in every segment: whether robots.txt was obeyed
    segment_bytes: int = 1 << 30
    buffer_bytes: int = 8 * MIB  # appended and not yet written; beyond it `append` writes
    fsync: bool = False

    @property
    def stem(self) -> str:
        """What the names of the segments begin with."""
        return file_name(f"{self.crawl}.{self.writer}" if self.writer else self.crawl)


class ArchiveCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    """How far the archive reaches: the last segment and its length; an empty name: nothing was written."""

    segment: str = ""
    length: int = 0


@dataclass(frozen=True, slots=True)
class Cut:
    """What has to go so that the archive ends at its checkpoint."""

    remove: tuple[SegmentName, ...] = ()
    last: SegmentName | None = None  # None: nothing stays
    length: int = 0  # of the last segment afterwards
    shorten: bool = False  # it is longer now
    missing: int = 0  # bytes that the checkpoint counts and it lacks


def plan_cut(sizes: Mapping[SegmentName, int], checkpoint: ArchiveCheckpoint) -> Cut:
    """Decide how to take the archive back to `checkpoint`."""
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
    )


class ArchiveWriter:
    """The writer of a crawl's archive, or of its own segments of it; made by `open`."""

    def __init__(self, folder: Segments, rules: WriteRules) -> None:
        self._folder = folder
        self._rules = rules
        self._ids = RecordIds()
        self._segment: SegmentName | None = None
        self._name = ""
        self._length = 0  # of the segment, the buffer included
        self._next_day = 0.0  # when a page belongs into another segment
        self._full = True  # the next page begins a segment
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._parts: list[tuple[SegmentName, int, bytes]] = []  # taken from the buffer, to be written
        self._written = ArchiveCheckpoint()

    @classmethod
    def open(
        cls, folder: Segments, checkpoint: bytes | None, rules: WriteRules, *, accept_loss: bool = False
    ) -> "ArchiveWriter":
        """Continue where `checkpoint` says; None: a new archive, behind whatever the folder holds already.

        Raise `Misconfigured` if the archive is shorter than the checkpoint, unless told to `accept_loss`.
        """
        writer = cls(folder, rules)
        sizes = {name: folder.size(name) or 0 for name in folder.segments(rules.stem)}
        if checkpoint is not None:
            cut = plan_cut(sizes, msgspec.msgpack.decode(checkpoint, type=ArchiveCheckpoint))
            writer._apply(cut, accept_loss=accept_loss)
        elif sizes:
            last = max(sizes)
            writer._continue(last, sizes[last], full=True)
        writer._written = ArchiveCheckpoint(writer._name, writer._length)
        return writer

    def _apply(self, cut: Cut, *, accept_loss: bool) -> None:
        if cut.last and cut.missing and not accept_loss and not self._folder.was_expired(cut.last):
            raise Misconfigured(
                f"archive: {self._folder.path}/{cut.last} lacks {cut.missing} bytes that the store knows"
                " of (power loss, or an older copy): put the whole file back, or accept the loss and go on"
            )
        for segment in cut.remove:
            self._folder.remove(segment)
        if cut.last:
            if cut.shorten:
                self._folder.cut(cut.last, cut.length)
            # Behind a loss a new segment begins, so that what is left of the old one stays as it was found.
            self._continue(cut.last, cut.length, full=cut.missing > 0)

    def append(self, request: Request, sent_headers: Headers, response: Response) -> tuple[PageRef, str]:
        """Take a page in and return its place and payload digest; it is on disk after the next `flush`.

        `sent_headers` are the header lines as they went out, Host included.
        """
        answer, asked, digest = page_records(self._ids, request, sent_headers, response)
        packed = pack(answer) if response.wire is response.body else pack_dense(answer)
        return self._place(packed, pack_short(asked), response.fetched_at), digest

    def append_revisit(
        self, request: Request, sent_headers: Headers, response: Response, original: PageRecord
    ) -> tuple[PageRef, str]:
        """Take a page in whose body is the same as that of `original`, an earlier page of this archive.

        The place returned leads to that body. Better remember `original.ref` for the next comparison: a
        revisit of a revisit can be read too, but takes a read for every step.
        """
        answer, asked, digest = revisit_records(self._ids, request, sent_headers, response, original)
        return self._place(pack_short(answer), pack_short(asked), response.fetched_at), digest

    def flush(self) -> None:
        """Write everything that was appended. If it raises, nothing is lost: call it again."""
        self._take()
        while self._parts:
            self._folder.write(*self._parts[0], sync=self._rules.fsync)
            self._count()

    async def flush_aside(self) -> None:
        """Do what `flush` does; where that takes long, without keeping the event loop from other work.

        Pages that are appended meanwhile wait for the next one. One call at a time.
        """
        if self._folder.grows:
            self.flush()
            return
        self._take()
        for part in list(self._parts):
            await asyncio.to_thread(self._folder.write, *part, sync=self._rules.fsync)
            self._count()

    def checkpoint(self) -> bytes:
        """Say how far the archive reaches, for the store to commit; flush first."""
        if self._buffered and self._folder.grows:
            raise RuntimeError("a checkpoint must not count what is not written yet")
        return msgspec.msgpack.encode(self._written)

    def _take(self) -> None:
        """Make a part of what is in the buffer; where segments cannot grow, it is a whole one."""
        if self._segment and self._buffered:
            offset = self._length - self._buffered
            self._parts.append((self._segment, offset, b"".join(self._buffer)))
            self._buffer.clear()
            self._buffered = 0
            self._full |= not self._folder.grows

    def _count(self) -> None:
        segment, offset, data = self._parts.pop(0)
        self._written = ArchiveCheckpoint(str(segment), offset + len(data))

    def close(self) -> None:
        """Flush and let go of the files."""
        try:
            self.flush()
        finally:
            self._folder.close()

    def _place(self, answer: bytes, asked: bytes, at: float) -> PageRef:
        if self._buffered > self._rules.buffer_bytes:
            self._relieve()
        if self._full or at >= self._next_day:
            self._rotate(at)
        offset = self._length
        self._add(answer)
        self._add(asked)
        self._full = self._length >= self._rules.segment_bytes
        return PageRef(self._name, offset, len(answer))

    def _relieve(self) -> None:
        """Empty the buffer; what takes long to write is left to whoever flushes."""
        if not self._folder.grows:
            self._take()
            return
        with suppress(Unavailable):  # it is kept, and whoever flushes is told
            self.flush()

    def _rotate(self, at: float) -> None:
        self._relieve()
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
        self._next_day = datetime.combine(segment.day, time.min, UTC).timestamp() + _DAY
        self._full = full or length >= self._rules.segment_bytes

    def _add(self, member: bytes) -> None:
        self._buffer.append(member)
        self._buffered += len(member)
        self._length += len(member)
