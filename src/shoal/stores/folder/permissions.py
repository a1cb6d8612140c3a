"""Who may read and write the files of a store: the user who runs the crawl, and no other.

A store holds session cookies, posted forms and pages behind a login. Its folder has mode 0700 and its files
0600, whatever the umask; outputs keep the user's umask. A folder of an earlier version is tightened when it
is opened.
"""

import logging
import os
import stat
from pathlib import Path

from shoal.model.errors import Misconfigured

log = logging.getLogger(__name__)

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
# A folder that has anything else in it is not a store's alone: its mode is left as it is.
_OWN_FILES = frozenset(
    {
        *("store.db", "store.db-wal", "store.db-shm", "lock", "control", "archive", "items", "logs"),
        *("exits.db", "levels.db", "api.db", "schedules.db", "monitoring.db"),
        *("valkey", "socket", "server.log", "appendonlydir", "dump.rdb"),
    }
)


def secure_folder(path: Path) -> None:
    """Create a store's folder, or close an existing one to other users; raise if another user owns it."""
    try:
        path.mkdir(mode=PRIVATE_FOLDER, parents=True)
    except FileExistsError:
        _tighten_folder(path)


def _tighten_folder(path: Path) -> None:
    found = path.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(20, os.strerror(20), str(path))
    # Root can read everything anyway, and owns the volumes that containers get.
    if found.st_uid not in (os.geteuid(), 0):
        raise Misconfigured(
            f"{path} belongs to another user (uid {found.st_uid}), who could replace the files in it:"
            " run as that user, change its owner with chown, or name another folder with --store"
        )
    if not found.st_mode & 0o077 or found.st_uid != os.geteuid():
        return
    if found.st_mode & stat.S_ISVTX or not {entry.name for entry in os.scandir(path)} <= _OWN_FILES:
        log.warning(
            "store.readable_by_others", extra={"folder": str(path), "fix": "give the store its own folder"}
        )
        return
    path.chmod(PRIVATE_FOLDER)
    log.info("store.tightened", extra={"folder": str(path), "mode": "0700"})


def secure_file(path: Path) -> None:
    """Create an empty file for this user alone, or close an existing one to others.

    An existing file is never opened: closing it would drop the locks that SQLite holds on it in this process.
    Another process would then truncate the shared memory of a database in use, or delete its log.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))
    except FileExistsError:
        found = path.stat()
        if found.st_uid == os.geteuid() and found.st_mode & 0o077 and stat.S_ISREG(found.st_mode):
            path.chmod(PRIVATE_FILE)


def write_private(path: Path, text: str) -> None:
    """Write a new file that only this user can read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    with os.fdopen(handle, "w") as file:
        file.write(text)
