"""Output files: opened without destroying what is there, appended to, and cut back after a crash."""

import errno
import fcntl
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.model.disk import FAILING
from shoal.model.errors import Misconfigured, Rejected, Unavailable
from shoal.model.limits import MIB
from shoal.sinks.compression import DAMAGE, NONE, Compression


@contextmanager
def translate_errors(path: Path | str) -> Iterator[None]:
    """Turn an `OSError` into `Unavailable` or `Misconfigured`, with one line that names the output."""
    try:
        yield
    except OSError as error:
        family = Unavailable if error.errno in FAILING else Misconfigured
        raise family(f"output {path}: {error.strerror or error}") from error


@contextmanager
def readable(path: Path | str, *damage: type[Exception]) -> Iterator[None]:
    """Raise `Misconfigured` if an output is missing, or if reading it raises one of `damage`."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, (OSError, *damage)):
            raise
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Misconfigured(f"output {path} cannot be read: {why}") from error


def foreign_output(path: Path | str) -> Misconfigured:
    """Return the error for an output that holds something that this crawl has not written."""
    return Misconfigured(
        f"output {path}: it already exists and was not written by this crawl;"
        " move it away, name another output, or replace it with --fresh --yes"
    )


def changed_output(path: Path | str) -> Misconfigured:
    """Return the error for an output that cannot be taken back to what this crawl had written."""
    return Misconfigured(
        f"output {path}: not as this crawl has left it (missing, shorter, or replaced);"
        " restore it, or start again with --fresh"
    )


def not_a_file(path: Path | str) -> Misconfigured:
    """Return the error for an output that is a pipe, a device or a socket."""
    return Misconfigured(f"output {path}: not a regular file (use - for standard output)")


class AppendFile:
    """A file that one process appends to, starting at a known length, with a checksum of what it holds."""

    def __init__(
        self,
        path: Path,
        *,
        length: int | None,
        fsync: bool,
        overwrite: bool = False,
        checksum: int | None = 0,
    ) -> None:
        """Open a file and cut it to `length`; None: it must be empty or new, unless `overwrite` is set.

        `checksum`: of these bytes, after whatever the caller counts in as well; None: it is computed here.
        """
        self.path = path
        self._fsync = fsync
        with translate_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            # Non-blocking: opening a pipe without a reader would block without limit.
            flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if length else os.O_CREAT)
            try:
                self._descriptor = os.open(path, flags, 0o666)
            except FileNotFoundError:
                raise changed_output(path) from None
            except OSError as error:
                if error.errno == errno.ENXIO and not path.is_file():  # a pipe without a reader, a socket
                    raise not_a_file(path) from None
                raise
        try:
            with translate_errors(path):
                self._claim(length, overwrite=overwrite)
        except BaseException:
            self.close()
            raise
        self.length = length or 0
        self.checksum = checksum_of(path, self.length) if checksum is None else checksum

    def append(self, data: bytes) -> None:
        """Write `data` at the end; if it raises, repeat the call."""
        self.check()
        with translate_errors(self.path):
            view, offset = memoryview(data), self.length
            while view:
                written = os.pwrite(self._descriptor, view, offset)
                view, offset = view[written:], offset + written
            if self._fsync:
                os.fsync(self._descriptor)
        self.length, self.checksum = offset, zlib.crc32(data, self.checksum)

    def check(self) -> None:
        """Raise if the path no longer leads to this file or bytes are missing; cut off what others appended.

        A file that was deleted or moved can still be written to while it is open, but its items would be
        lost.
        """
        with translate_errors(self.path):
            found = os.fstat(self._descriptor)
            if found.st_size < self.length or identity(self.path) != (found.st_dev, found.st_ino):
                raise changed_output(self.path)
            if found.st_size > self.length:
                os.ftruncate(self._descriptor, self.length)

    def move(self, path: Path, *, fsync: bool) -> None:
        """Rename the file, replacing what is at `path`; it stays open and locked. `fsync`: from now on."""
        with translate_errors(path):
            if fsync:
                os.fsync(self._descriptor)
            self.path.replace(path)
            self.path, self._fsync = path, fsync
            if fsync:
                sync_folder(path.parent)

    def close(self) -> None:
        """Close the file, which also releases its lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _claim(self, length: int | None, *, overwrite: bool) -> None:
        found = os.fstat(self._descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise not_a_file(self.path)
        lock(self._descriptor, self.path)
        if length is None and found.st_size and not overwrite:
            raise foreign_output(self.path)
        if length is not None and found.st_size < length:
            raise changed_output(self.path)
        os.ftruncate(self._descriptor, length or 0)
        if self._fsync:
            os.fsync(self._descriptor)
            sync_folder(self.path.parent)


def identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the file at a path; None: there is no file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def lock(descriptor: int, path: Path) -> None:
    """Lock an output against other crawls, or raise `Misconfigured` if another crawl has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Misconfigured(f"output {path}: another crawl is writing it") from None


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_chunks(path: Path, length: int | None) -> Iterator[bytes]:
    """Yield the first `length` bytes of a file (None: all); raise `Rejected` if there are fewer."""
    try:
        with path.open("rb") as file:
            left = path.stat().st_size if length is None else length
            while left:
                chunk = file.read(min(left, MIB))
                if not chunk:
                    raise Rejected(f"output {path} is shorter than this crawl has left it")
                left -= len(chunk)
                yield chunk
    except OSError as error:
        raise Rejected(f"output {path} cannot be read: {error.strerror or error}") from None


def checksum_of(path: Path, length: int | None, before: int = 0) -> int:
    """Return the checksum of the first `length` bytes of a file, after what `before` is the checksum of."""
    for chunk in read_chunks(path, length):
        before = zlib.crc32(chunk, before)
    return before


def altered_output(path: Path | str, held: str, written: str) -> Rejected:
    """Return the error for an output whose items are not the ones that this crawl has written."""
    return Rejected(
        f"output {path} was changed: its items are not those that this crawl has written"
        f" (it holds {held}, {written}): some are missing, repeated or altered"
    )


def count_lines(
    path: Path,
    length: int,
    checksum: int | None = None,
    written: int | None = None,
    *,
    compression: Compression = NONE,
) -> int:
    """Count the lines in the first `length` bytes; raise `Rejected` if they are not those that were written.

    `written`: how many lines there were; None: not known.
    """
    count, last, found = 0, b"\n", 0

    def summed() -> Iterator[bytes]:
        nonlocal found
        for chunk in read_chunks(path, length):
            found = zlib.crc32(chunk, found)
            yield chunk

    try:
        for piece in compression.unpack(summed()):
            count += piece.count(b"\n")
            last = piece[-1:]
    except DAMAGE as error:
        raise Rejected(f"output {path} cannot be read: {error}") from None
    if last != b"\n":
        raise Rejected(f"output {path} ends within an item")
    if checksum is not None and found != checksum:
        wrote = "as many as were written" if written in (None, count) else f"but {written} were written"
        raise altered_output(path, f"{count} lines", wrote)
    return count
