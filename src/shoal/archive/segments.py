"""Where segments lie: all that the archive asks of a file system or an object store, and nothing else."""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Protocol

from shoal.archive.names import SegmentName
from shoal.model.errors import Misconfigured, Rejected, Unavailable

EXPIRED = ".expired"

# A human has to change these; the rest (disk full, I/O error) may pass.
_LASTING = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        family = Misconfigured if error.errno in _LASTING else Unavailable
        raise family(f"archive: {path}: {error.strerror or error}") from error


class Readable(Protocol):
    """A place for the segments of one crawl, as readers see it."""

    @property
    def path(self) -> Path | str: ...
    @property
    def grows(self) -> bool: ...  # whether a segment can be written piece by piece
    def segments(self, stem: str = "") -> list[SegmentName]: ...
    def read(self, segment: SegmentName, offset: int, length: int) -> bytes | None: ...
    def was_expired(self, segment: SegmentName) -> bool: ...


class Segments(Readable, Protocol):
    """A place for the segments of one crawl; what each call does is told at `SegmentFolder`."""

    def size(self, segment: SegmentName) -> int | None: ...
    def write(self, segment: SegmentName, offset: int, data: bytes, *, sync: bool) -> None: ...
    def cut(self, segment: SegmentName, length: int) -> None: ...
    def remove(self, segment: SegmentName) -> None: ...
    def mark_expired(self, until: date) -> None: ...
    def close(self) -> None: ...


class SegmentFolder:
    """The segments of one crawl in a local folder."""

    grows = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing: tuple[SegmentName, int] | None = None  # the file descriptor of the open segment
        self._read: tuple[SegmentName | None, Path] = None, path  # read last: the next is most often the same

    def segments(self, stem: str = "") -> list[SegmentName]:
        """List what is there, oldest first; `stem`: of one writer only."""
        with _translated(self.path):
            try:
                names = os.listdir(self.path)
            except FileNotFoundError:
                return []
        return sorted(name for name in segments_among(names) if stem in ("", name.crawl))

    def size(self, segment: SegmentName) -> int | None:
        """Return the length in bytes; None: there is no such segment."""
        with _translated(path := self.path / str(segment)):
            try:
                return path.stat().st_size
            except FileNotFoundError:
                return None

    def read(self, segment: SegmentName, offset: int, length: int) -> bytes | None:
        """Return up to `length` bytes, fewer at the end; None: there is no such segment."""
        if segment != self._read[0]:
            self._read = segment, self.path / str(segment)
        with _translated(path := self._read[1]):
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            try:
                return os.pread(descriptor, length, offset)
            finally:
                os.close(descriptor)

    def write(self, segment: SegmentName, offset: int, data: bytes, *, sync: bool) -> None:
        """Put `data` at `offset`, making the segment if need be; repeat the call if it raised."""
        with _translated(self.path / str(segment)):
            descriptor = self._open(segment, sync=sync)
            view = memoryview(data)
            while view:
                written = os.pwrite(descriptor, view, offset)
                view, offset = view[written:], offset + written
            if sync:
                os.fsync(descriptor)

    def cut(self, segment: SegmentName, length: int) -> None:
        """Drop everything after `length` bytes."""
        with _translated(path := self.path / str(segment)):
            os.truncate(path, length)

    def remove(self, segment: SegmentName) -> None:
        """Delete a segment; nothing happens if it is gone already."""
        with _translated(path := self.path / str(segment)):
            path.unlink(missing_ok=True)

    def expired_until(self) -> date | None:
        """Tell the last day whose segments were deleted on purpose."""
        with _translated(path := self.path / EXPIRED):
            try:
                return date.fromisoformat(path.read_text().strip())
            except FileNotFoundError:
                return None
            except ValueError:
                raise Misconfigured(f"archive: {path} does not hold a date; delete it") from None

    def was_expired(self, segment: SegmentName) -> bool:
        """Say whether a segment that is not there was deleted on purpose."""
        until = self.expired_until()
        return until is not None and segment.day <= until

    def mark_expired(self, until: date) -> None:
        """Remember that the segments up to and including this day are deleted on purpose."""
        with _translated(path := self.path / EXPIRED):
            draft = path.with_name(EXPIRED + ".tmp")
            draft.write_text(f"{until.isoformat()}\n")
            draft.replace(path)

    def close(self) -> None:
        """Let go of the segment being written."""
        if self._writing:
            os.close(self._writing[1])
            self._writing = None

    def _open(self, segment: SegmentName, *, sync: bool) -> int:
        if self._writing and self._writing[0] == segment:
            return self._writing[1]
        self.close()
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path / str(segment), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._writing = segment, descriptor
        if sync:  # the name has to survive a power loss too
            folder = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return descriptor


def segments_among(names: Iterable[str]) -> Iterator[SegmentName]:
    """Pick the names of segments."""
    for name in names:
        try:
            yield SegmentName.parse(name)
        except Rejected:
            continue  # somebody else's file
