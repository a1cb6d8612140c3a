"""Errors of a disk that may pass without a change by the operator: full, failing, or mounted read-only."""

import errno
import sqlite3

from shoal.model.errors import Unavailable

FAILING = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EIO,
        errno.EROFS,
        errno.ENXIO,
        errno.ENODEV,
        errno.ESTALE,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
    }
)


_FAILING_DATABASE = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
)


def disk_error(error: BaseException) -> Unavailable | None:
    """Return the error for a disk or a limit that has failed; None: it is something else."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the family
        return Unavailable(f"the store: {error}") if code in _FAILING_DATABASE else None
    if not isinstance(error, OSError) or error.errno not in FAILING:
        return None
    where = f"{error.filename}: " if error.filename is not None else ""
    return Unavailable(f"{where}{error.strerror}")
