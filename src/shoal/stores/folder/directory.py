"""The folder of an embedded store: its files, and which process owns it.

    store.db     the frontier, and everything else that shares its transactions
    lock         held by the owner for as long as it runs; its text names the owner
    control      socket on which a running crawl accepts commands
    exits.db     what is known about exits, where there are any
    levels.db    what is known about the levels of hosts that need more than the first
    api.db       records of the HTTP API, where there are any
    schedules.db schedules, where there are any
    monitoring.db figures of the running process and alerts
    archive/     raw responses
    items/       outputs that were given no path
    valkey/      data of a private server, where `shoal fleet` has used the folder

Ownership is a kernel lock on an open file, so it ends with the process, however that dies. The text in the
file is for people: it may be out of date, the lock never is.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from shoal.archive.names import file_name
from shoal.model.errors import Misconfigured, Unavailable
from shoal.stores.contract.store import StoreBusy
from shoal.stores.folder.permissions import PRIVATE_FILE, secure_file, secure_folder

PRIVATE_SERVER = "valkey"  # subfolder with the data of a private server
SERVER_LOG = "server.log"  # in it, from the first start of the server


class StoreFolder(msgspec.Struct, frozen=True):
    path: Path

    @property
    def database(self) -> Path:
        return self.path / "store.db"

    @property
    def exits(self) -> Path:
        return self.path / "exits.db"

    @property
    def levels(self) -> Path:
        return self.path / "levels.db"

    @property
    def api_records(self) -> Path:
        return self.path / "api.db"

    @property
    def schedules(self) -> Path:
        return self.path / "schedules.db"

    @property
    def monitoring(self) -> Path:
        return self.path / "monitoring.db"

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

    def rejects_file(self, crawl: str) -> Path:
        """Return the file for items that do not fit their model."""
        return self.items / f"{file_name(crawl)}.rejected.jsonl"

    @contextmanager
    def owned(self) -> Iterator["StoreFolder"]:
        """Own the store, creating it if need be; raise `StoreBusy` if another process owns it."""
        with _explain_errors(self.path):
            secure_folder(self.path)
            # Not through a link: it could lead to any file of this user.
            handle = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE)
        try:
            if not _lock(handle):
                raise StoreBusy(
                    f"{self.path} is in use by {_owner(handle)}: wait until that ends, or name another"
                    " folder with --store FOLDER"
                )
            with _explain_errors(self.path):
                since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"{os.getpid()} {since}\n".encode(), 0)
                for name in ("store.db-wal", "store.db-shm"):  # the database itself: when it is opened
                    if (file := self.path / name).exists():
                        secure_file(file)
                for folder in (self.archive, self.items):
                    folder.mkdir(exist_ok=True)
            yield self
        finally:
            # The lock file stays: deleting it would let two processes lock two files of the same name.
            os.close(handle)

    def owner(self) -> str | None:
        """Describe the process that owns the store; None: no process does."""
        try:
            handle = os.open(self.lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _owner(handle)
        finally:
            os.close(handle)
        return None


def private_server_in(path: Path) -> Path | None:
    """Return the data folder of a private server: `path`, or its subfolder if only fleets have used it."""
    if (path / SERVER_LOG).is_file():
        return path
    server = path / PRIVATE_SERVER
    return server if (server / SERVER_LOG).is_file() and not StoreFolder(path).exists else None


def _lock(handle: int) -> bool:
    """Take the lock; return False if another process holds it."""
    for pause in (0.01, 0.05, 0.0):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause)  # `owner` of another process may hold it for an instant
        else:
            return True
    return False


def _owner(handle: int) -> str:
    pid, _, since = os.pread(handle, 200, 0).decode(errors="replace").strip().partition(" ")
    return f"process {pid} since {since}" if pid.isdigit() else "another process"


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise explain(error, path) from error


def explain(error: OSError, path: Path) -> Misconfigured | Unavailable:
    """Translate an error of the file system into one line."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return Unavailable(f"disk full: {path}")
        case errno.EACCES | errno.EPERM:
            return Misconfigured(f"{path} cannot be written: {os.strerror(error.errno)}")
        case errno.ELOOP:
            return Misconfigured(f"{path}: its lock is a symbolic link: remove it, or name another folder")
        case errno.ENOTDIR | errno.EEXIST | errno.EISDIR:
            return Misconfigured(f"{path} is not a folder")
        case _:
            return Unavailable(f"{path}: {error.strerror or error}")
