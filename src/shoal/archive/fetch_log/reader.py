"""Reads the fetch log of a crawl, also while it is written."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from shoal.archive.contract import Segments
from shoal.archive.fetch_log.blocks import blocks_in, whole_bytes
from shoal.archive.fetch_log.columns import LoggedAttempt
from shoal.archive.fetch_log.writer import GROWING, PARQUET, complete_parts, open_parts
from shoal.archive.names import SegmentName
from shoal.model.errors import Misconfigured

NEEDS_PARQUET = "the fetch log has parts in Parquet: run  pip install 'shoal[parquet]'  first"


class TailPosition(msgspec.Struct, frozen=True):
    """How far a part was read."""

    rows: int
    offset: int = 0  # in a part that grows
    whole: bool = False  # a part that is complete


class FetchLogReader:
    """The fetch log beside one archive."""

    def __init__(self, archive: Segments) -> None:
        self._segments = open_parts(archive)

    @property
    def location(self) -> str:
        return str(self._segments.path)

    def parts(self) -> list[SegmentName]:
        """Return the names of all parts, oldest first."""
        return complete_parts(self._segments.segments())

    def attempts(self, fingerprints: Sequence[int]) -> list[LoggedAttempt]:
        """Return what is logged about some requests, in the order in which it happened."""
        wanted = list(dict.fromkeys(fingerprints))
        found: list[LoggedAttempt] = []
        for name in self.parts():
            found += self._select(name, wanted)
        return sorted(found, key=lambda row: (row.started_at, row.stage))

    def new_rows(self, read: dict[SegmentName, TailPosition], *, limit: int) -> list[LoggedAttempt]:
        """Return the rows that were logged since the last call with this `read`, at most the newest `limit`.

        `read` has the position in each part by its name without suffix, and is updated. The first call, with
        none, returns the newest rows of the log.
        """
        found: list[LoggedAttempt] = []
        parts = self.parts()
        stems = {replace(name, suffix="") for name in parts}
        for stem in [stem for stem in read if stem not in stems]:
            del read[stem]  # expired
        for name in reversed(parts):
            stem = replace(name, suffix="")
            before = read.get(stem, TailPosition(0))
            if before.whole:
                continue
            if len(found) >= limit:
                read[stem] = TailPosition(0, whole=True)
                continue
            rows, read[stem] = self._rows_after(name, before, limit - len(found))
            found = rows + found
        return found

    def _rows_after(
        self, name: SegmentName, before: TailPosition, limit: int
    ) -> tuple[list[LoggedAttempt], TailPosition]:
        if name.suffix == GROWING:
            size = self._segments.size(name) or 0
            data = self._segments.read(name, before.offset, max(size - before.offset, 0)) or b""
            rows = [row for block in blocks_in(data) for row in block.all()]
            after = TailPosition(before.rows + len(rows), before.offset + whole_bytes(data))
            return [LoggedAttempt(*row) for row in rows[-limit:]], after
        data = self._read(name)
        if name.suffix != PARQUET:
            rows = [row for block in blocks_in(data) for row in block.all()]
            kept = rows[max(before.rows, len(rows) - limit) :]
            return [LoggedAttempt(*row) for row in kept], TailPosition(len(rows), whole=True)
        if not data:
            return [], before
        try:
            from shoal.archive.fetch_log.parquet import last_rows
        except ImportError:
            raise Misconfigured(NEEDS_PARQUET) from None
        found, total = last_rows(data, before.rows, limit)
        return found, TailPosition(total, whole=True)

    def snapshot(self, folder: Path) -> list[Path]:
        """Return Parquet files with every row that is logged now; what is not one becomes one in `folder`.

        Raise `Misconfigured` if the extra `parquet` is not installed.
        """
        try:
            from shoal.archive.fetch_log.parquet import write_parquet
        except ImportError:
            raise Misconfigured(NEEDS_PARQUET) from None
        paths: list[Path] = []
        growing: list[bytes] = []
        own = self._segments.path
        for name in self.parts():
            if name.suffix == PARQUET and isinstance(own, Path):
                paths.append(own / str(name))
                continue
            data = self._read(name)
            if not data:  # the part was completed since the list was made
                if name.suffix == GROWING and isinstance(own, Path):
                    paths += self._completed(own, name)
            elif name.suffix == PARQUET:
                paths.append(_stored(folder, str(name), data))
            else:
                growing.append(data)
        if growing:
            blocks = (block for data in growing for block in blocks_in(data))
            paths.append(_stored(folder, "others.parquet", write_parquet(blocks)))
        return paths

    def _completed(self, folder: Path, name: SegmentName) -> list[Path]:
        complete = folder / str(replace(name, suffix=PARQUET))
        return [complete] if complete.exists() else []

    def _select(self, name: SegmentName, wanted: Sequence[int]) -> list[LoggedAttempt]:
        data = self._read(name)
        if name.suffix != PARQUET:
            return [row for block in blocks_in(data) for row in block.select(wanted)]
        if not data:
            return []
        try:
            from shoal.archive.fetch_log.parquet import select
        except ImportError:
            raise Misconfigured(NEEDS_PARQUET) from None
        return select(data, wanted)

    def _read(self, name: SegmentName) -> bytes:
        """Return a part; empty: it was removed since the list was made."""
        return self._segments.read(name, 0, self._segments.size(name) or 0) or b""


def _stored(folder: Path, name: str, data: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return folder / name
