"""Output files: opened with care for what is there, appended to, and never left half written for good."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.model.errors import Misconfigured, Unavailable

# What waiting can mend; anything else takes a human.
_PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE}


@contextmanager
def translated(path: Path | str) -> Iterator[None]:
    """Turn an `OSError` into one line that names the output."""
    try:
        yield
    except OSError as error:
        family = Unavailable if error.errno in _PASSING else Misconfigured
        raise family(f"output {path}: {error.strerror or error}") from error


def refuse(path: Path | str) -> Misconfigured:
    """Say why an output that this crawl has not written is left alone."""
    return Misconfigured(
        f"output {path}: there is something already that this crawl has not written;"
        " move it away, name another output, or overwrite it with --fresh"
    )


def refuse_changed(path: Path | str) -> Misconfigured:
    """Say that an output cannot be taken back to what this crawl had written."""
    return Misconfigured(
        f"output {path}: not as this crawl has left it (gone, shorter, or another one);"
        " put it back as it was, or start again with --fresh"
    )


class AppendFile:
    """A file that one process appends to, from a length that is known."""

    def __init__(self, path: Path, *, length: int | None, fsync: bool, overwrite: bool = False) -> None:
        """Open a file and cut it to `length`; None: empty or new, unless it may be overwritten."""
        self.path = path
        self._fsync = fsync
        with translated(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            # Non-blocking: opening a pipe that nobody reads would wait for ever.
            flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if length else os.O_CREAT)
            try:
                self._descriptor = os.open(path, flags, 0o666)
            except FileNotFoundError:
                raise refuse_changed(path) from None
        try:
            with translated(path):
                self._claim(length, overwrite=overwrite)
        except BaseException:
            self.close()
            raise
        self.length = length or 0

    def append(self, data: bytes) -> None:
        """Write `data` at the end; if it raises, repeat the call."""
        self.check()
        with translated(self.path):
            view, offset = memoryview(data), self.length
            while view:
                written = os.pwrite(self._descriptor, view, offset)
                view, offset = view[written:], offset + written
            if self._fsync:
                os.fsync(self._descriptor)
        self.length = offset

    def check(self) -> None:
        """See that the file is still where it was, with all that was written; what else it has is cut off.

        A file that was deleted or moved can be written to as long as it is open, and nobody would see it.
        """
        with translated(self.path):
            found = os.fstat(self._descriptor)
            if found.st_size < self.length or identity(self.path) != (found.st_dev, found.st_ino):
                raise refuse_changed(self.path)
            if found.st_size > self.length:
                os.ftruncate(self._descriptor, self.length)

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _claim(self, length: int | None, *, overwrite: bool) -> None:
        found = os.fstat(self._descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Misconfigured(f"output {self.path}: not a regular file (use - for standard output)")
        lock(self._descriptor, self.path)
        if length is None and found.st_size and not overwrite:
            raise refuse(self.path)
        if length is not None and found.st_size < length:
            raise refuse_changed(self.path)
        os.ftruncate(self._descriptor, length or 0)
        if self._fsync:
            os.fsync(self._descriptor)
            sync_folder(self.path.parent)


def identity(path: Path) -> tuple[int, int] | None:
    """Tell which file a path leads to; None: to none."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def lock(descriptor: int, path: Path) -> None:
    """Keep other crawls out of an output while this one writes it."""
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
