"""The embedded store: a folder with one owner at a time.

    store.db     the frontier, and everything else that shares its transactions
    lock         held by the owner for as long as it lives; its text names the owner
    control      socket on which a running crawl takes commands
    archive/     raw responses
    items/       outputs that were given no path of their own

Ownership is a lock of the kernel's on an open file, so that it ends with the process, however that dies.
The text in the file is for people: it may be out of date, the lock never is.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shoal.model.errors import Misconfigured, Unavailable


class StoreBusy(Unavailable):
    """Another process owns the store."""


@dataclass(frozen=True, slots=True)
class StoreFolder:
    path: Path

    @property
    def database(self) -> Path:
        return self.path / "store.db"

    @property
    def archive(self) -> Path:
        return self.path / "archive"

    @property
    def items(self) -> Path:
        return self.path / "items"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def exists(self) -> bool:
        return self.database.is_file()

    @contextmanager
    def owned(self) -> Iterator["StoreFolder"]:
        """Own the store, making it if need be; raise `StoreBusy` if somebody else does."""
        with _explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if not _locked(handle):
                raise StoreBusy(f"{self.path} is in use by {_owner(handle)}")
            with _explained(self.path):
                since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"{os.getpid()} {since}\n".encode(), 0)
                for folder in (self.archive, self.items):
                    folder.mkdir(exist_ok=True)
            yield self
        finally:
            # The file stays: deleting it would let two processes lock two files of the same name.
            os.close(handle)

    def owner(self) -> str | None:
        """Say who owns the store right now, for people; None: nobody."""
        try:
            handle = os.open(self.lock, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _owner(handle)
        finally:
            os.close(handle)
        return None


def _locked(handle: int) -> bool:
    """Take the lock for good; False: somebody has it."""
    for pause in (0.01, 0.05, 0.0):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause)  # it may be somebody who only asks who the owner is
        else:
            return True
    return False


def _owner(handle: int) -> str:
    pid, _, since = os.pread(handle, 200, 0).decode(errors="replace").strip().partition(" ")
    return f"process {pid} since {since}" if pid.isdigit() else "another process"


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise explain(error, path) from error


def explain(error: OSError, path: Path) -> Misconfigured | Unavailable:
    """Turn what the file system says into one line that says what to do about it."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return Unavailable(f"disk full: {path}")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return Misconfigured(f"{path} cannot be written: {os.strerror(error.errno)}")
        case errno.ENOTDIR | errno.EEXIST | errno.EISDIR:
            return Misconfigured(f"{path} is not a folder")
        case _:
            return Unavailable(f"{path}: {error.strerror or error}")
