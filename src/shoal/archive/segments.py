"""Segments in a local folder."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from shoal.archive.errors import SegmentLost
from shoal.archive.names import SegmentName
from shoal.model.errors import Misconfigured, Rejected, Unavailable

EXPIRED_FILE = ".expired"

# Errors that the operator has to fix; all others (disk full, I/O error) may pass.
_PERMANENT = {
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}


_NEVER_WAIT = os.O_NONBLOCK  # opening a pipe in the place of a segment would block without limit


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        family = Misconfigured if error.errno in _PERMANENT else Unavailable
        raise family(f"archive: {path}: {error.strerror or error}") from error


def _gone(path: Path, how: str) -> str:
    return (
        f"archive: {path} {how} while this crawl wrote it, and its pages are lost: restore the file,"
        " or accept the loss with shoal verify --repair; shoal verify names the pages"
    )


class SegmentFolder:
    """The segments of one crawl in a local folder."""

    grows = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing: tuple[SegmentName, int] | None = None  # the open segment and its descriptor
        self._read: tuple[SegmentName | None, Path] = (
            None,
            path,
        )  # the last one read, often also the next

    def segments(self, stem: str = "") -> list[SegmentName]:
        """Return the names of all segments, oldest first; `stem`: of one writer only."""
        with _translate_errors(self.path):
            try:
                names = os.listdir(self.path)
            except FileNotFoundError:
                return []
        return sorted(name for name in segments_among(names) if stem in ("", name.crawl))

    def size(self, segment: SegmentName) -> int | None:
        """Return the length in bytes; None: there is no such segment."""
        with _translate_errors(path := self.path / str(segment)):
            try:
                found = path.stat()
            except FileNotFoundError:
                return None
            return found.st_size if stat.S_ISREG(found.st_mode) else None

    def read(self, segment: SegmentName, offset: int, length: int) -> bytes | None:
        """Return up to `length` bytes, fewer at the end; None: there is no such segment."""
        if segment != self._read[0]:
            self._read = segment, self.path / str(segment)
        with _translate_errors(path := self._read[1]):
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | _NEVER_WAIT)
            except FileNotFoundError:
                return None
            try:
                return os.pread(descriptor, length, offset)
            except OSError as error:
                if error.errno == errno.ESPIPE:  # not a file
                    return None
                raise
            finally:
                os.close(descriptor)

    def write(self, segment: SegmentName, offset: int, data: bytes, *, sync: bool) -> None:
        """Write `data` at `offset`, and create the segment if it is new; repeat the call if it raises."""
        with _translate_errors(self.path / str(segment)):
            descriptor = self._open(segment, sync=sync)
            self._check(segment, descriptor, offset)
            view = memoryview(data)
            while view:
                written = os.pwrite(descriptor, view, offset)
                view, offset = view[written:], offset + written
            if sync:
                os.fsync(descriptor)

    def _check(self, segment: SegmentName, descriptor: int, offset: int) -> None:
        """Raise if what was written before is gone: a deleted file can still be written while it is open."""
        found, path = os.fstat(descriptor), self.path / str(segment)
        try:
            there = path.stat()
        except FileNotFoundError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != (found.st_dev, found.st_ino):
            self.close()
            raise SegmentLost(_gone(path, "was deleted or replaced"))
        if found.st_size < offset:
            raise SegmentLost(_gone(path, f"was cut to {found.st_size} of {offset} bytes"))

    def cut(self, segment: SegmentName, length: int) -> None:
        """Cut a segment to `length` bytes."""
        with _translate_errors(path := self.path / str(segment)):
            os.truncate(path, length)

    def remove(self, segment: SegmentName) -> None:
        """Delete a segment, if it exists."""
        with _translate_errors(path := self.path / str(segment)):
            path.unlink(missing_ok=True)

    def expired_until(self) -> date | None:
        """Return the last day whose segments have expired."""
        with _translate_errors(path := self.path / EXPIRED_FILE):
            try:
                return date.fromisoformat(path.read_text().strip())
            except FileNotFoundError:
                return None
            except ValueError:
                raise Misconfigured(f"archive: {path} does not hold a date; delete it") from None

    def was_expired(self, segment: SegmentName) -> bool:
        """Return whether a segment that does not exist was deleted because it had expired."""
        until = self.expired_until()
        return until is not None and segment.day <= until

    def mark_expired(self, until: date) -> None:
        """Store that the segments up to and including this day have expired."""
        with _translate_errors(path := self.path / EXPIRED_FILE):
            draft = path.with_name(EXPIRED_FILE + ".tmp")
            draft.write_text(f"{until.isoformat()}\n")
            draft.replace(path)

    def close(self) -> None:
        """Close the segment that is being written."""
        if self._writing:
            os.close(self._writing[1])
            self._writing = None

    def _open(self, segment: SegmentName, *, sync: bool) -> int:
        if self._writing and self._writing[0] == segment:
            return self._writing[1]
        self.close()
        self.path.mkdir(parents=True, exist_ok=True)
        path = self.path / str(segment)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | _NEVER_WAIT, 0o600)
        except OSError as error:
            if error.errno == errno.ENXIO:
                raise Misconfigured(f"archive: {path} is not a file; move it away") from None
            raise
        self._writing = segment, descriptor
        if sync:  # the name has to survive a power loss, too
            folder = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return descriptor


def segments_among(names: Iterable[str]) -> Iterator[SegmentName]:
    """Yield the names of segments among file names."""
    for name in names:
        try:
            yield SegmentName.parse(name)
        except Rejected:
            continue  # not a segment
