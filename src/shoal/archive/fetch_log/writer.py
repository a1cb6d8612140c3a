"""Writes the fetch log of one crawl by one process."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

from shoal.archive.contract import Segments
from shoal.archive.fetch_log.blocks import Block, blocks_in, encode_block
from shoal.archive.fetch_log.columns import Row
from shoal.archive.names import SegmentName, file_name
from shoal.archive.registry import open_location
from shoal.archive.retention import expire
from shoal.model.limits import KIB

FOLDER = "attempts"
GROWING, PACKED, PARQUET = ".log", ".attempts", ".parquet"
PACKED_ROWS = 16_384  # of a block in a packed part
PARQUET_FROM_BYTES = 512 * KIB  # about 7,000 rows: loading pyarrow takes 0.1 s, 2 % of fetching them
_MICRO = 1_000_000


def open_parts(archive: Segments) -> Segments:
    """Open the place of the fetch log beside an archive."""
    return open_location(f"{archive.path}/{FOLDER}")


def complete_parts(names: Sequence[SegmentName]) -> list[SegmentName]:
    """Return the parts to read, oldest first: one that is being rewritten counts as it was before."""
    growing = {replace(name, suffix="") for name in names if name.suffix == GROWING}
    return [name for name in names if name.suffix == GROWING or replace(name, suffix="") not in growing]


def parquet_writer(size: int) -> "Callable[[Iterator[Block]], bytes] | None":
    """Return what makes a Parquet file of `size` bytes of blocks.

    None: the extra is not installed, or loading it would take longer than the crawl did.
    """
    if size < PARQUET_FROM_BYTES and "pyarrow" not in sys.modules:
        return None
    try:
        from shoal.archive.fetch_log.parquet import write_parquet
    except ImportError:
        return None
    return write_parquet


class FetchLogWriter:
    """Writes parts. Every method may take long: call them in a thread, one at a time.

    `writer` keeps the parts of several processes apart.
    """

    def __init__(
        self,
        segments: Segments,
        crawl: str,
        *,
        writer: str = "",
        part_bytes: int,
        keep_days: int = 0,
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
    ) -> None:
        self._segments = segments
        self._stem = file_name(f"{crawl}.{writer}" if writer else crawl)
        self._part_bytes = part_bytes
        self._keep_days = keep_days
        self._today = today
        self._opened = False
        self._last: SegmentName | None = None  # the part that was written last
        self._growing: SegmentName | None = None
        self._length = 0

    @property
    def grows(self) -> bool:
        """Whether rows can be appended to a part; if not, every call of `write` makes one."""
        return self._segments.grows

    def write(self, rows: Sequence[Row]) -> None:
        """Write rows; a call that raises can be repeated."""
        if not rows:
            return
        self._open()
        day = datetime.fromtimestamp(rows[-1][0] / _MICRO, UTC).date()
        block = encode_block(rows)
        if not self._segments.grows:
            part = self._following(day, GROWING)
            self._complete(part, [block])
            self._last = part
            return
        if self._growing is not None and (self._length >= self._part_bytes or day > self._growing.day):
            self._finish_part()
        if self._growing is None:
            self._growing, self._length = self._following(day, GROWING), 0
            self._last = self._growing
        self._segments.write(self._growing, self._length, block, sync=False)
        self._length += len(block)

    def finish(self) -> None:
        """Complete the current part and close the files."""
        try:
            if self._growing is not None:
                self._finish_part()
        finally:
            self._segments.close()

    def _open(self) -> None:
        """Delete expired parts, and complete those that a kill has left."""
        if self._opened:
            return
        if self._keep_days:
            expire(self._segments, keep_days=self._keep_days, today=self._today())
        known = self._segments.segments(self._stem)
        self._last = max(known, default=None, key=lambda name: (name.day, name.number))
        self._opened = True
        for name in known:
            if name.suffix == GROWING:
                self._rewrite(name)

    def _following(self, day: date, suffix: str) -> SegmentName:
        if self._last is None:
            return SegmentName(day, 1, self._stem, suffix)
        return replace(self._last.following(day), suffix=suffix)

    def _finish_part(self) -> None:
        assert self._growing is not None
        part, self._growing = self._growing, None
        self._segments.close()
        self._rewrite(part)

    def _rewrite(self, part: SegmentName) -> None:
        """Replace a part that has grown in small blocks by a complete one."""
        data = self._segments.read(part, 0, self._segments.size(part) or 0)
        if data:
            self._complete(part, [data])
        self._segments.close()
        self._segments.remove(part)

    def _complete(self, part: SegmentName, data: Sequence[bytes]) -> None:
        def blocks() -> Iterator[Block]:
            for one in data:
                yield from blocks_in(one)

        size = sum(map(len, data)) if self._segments.grows else PARQUET_FROM_BYTES
        to_parquet = parquet_writer(size)
        complete = replace(part, suffix=PACKED if to_parquet is None else PARQUET)
        packed = packed_again(blocks()) if to_parquet is None else to_parquet(blocks())
        if self._segments.grows:
            self._segments.remove(complete)  # what an earlier call, cut off by a kill, has left
        self._segments.write(complete, 0, packed, sync=False)


def packed_again(blocks: Iterator[Block]) -> bytes:
    """Return the rows of many small blocks in few large ones, which take less than half of the bytes."""
    parts: list[bytes] = []
    waiting: list[Row] = []
    for block in blocks:
        waiting += block.all()
        if len(waiting) >= PACKED_ROWS:
            parts.append(encode_block(waiting))
            waiting = []
    if waiting:
        parts.append(encode_block(waiting))
    return b"".join(parts)
