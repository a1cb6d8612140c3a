"""The interface of archive locations, and the description by which a package provides one."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Protocol

from shoal.archive.names import SegmentName


class ReadableSegments(Protocol):
    """The segments of one crawl, as readers need them. `SegmentFolder` documents each call."""

    @property
    def path(self) -> Path | str: ...
    @property
    def grows(self) -> bool: ...  # a segment can be appended to; False: `write` is called once per segment
    def segments(self, stem: str = "") -> list[SegmentName]: ...
    def read(self, segment: SegmentName, offset: int, length: int) -> bytes | None: ...
    def was_expired(self, segment: SegmentName) -> bool: ...


class Segments(ReadableSegments, Protocol):
    """The segments of one crawl: all that the archive needs of a file system or an object store."""

    def size(self, segment: SegmentName) -> int | None: ...
    def write(self, segment: SegmentName, offset: int, data: bytes, *, sync: bool) -> None: ...
    def cut(self, segment: SegmentName, length: int) -> None: ...
    def remove(self, segment: SegmentName) -> None: ...
    def mark_expired(self, until: date) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFactory:
    """A kind of archive location, found by the scheme of its address.

    A package provides one as an entry point of the group `shoal.archives`, under a scheme (`mystore`).
    `open` gets the address below which the segments of one crawl are stored. It must not wait for the
    server.
    """

    open: Callable[[str], Segments]
