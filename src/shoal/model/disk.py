"""Errors of a disk that may pass without a change by the operator: full, failing, or mounted read-only."""

import errno

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


def disk_error(error: BaseException) -> Unavailable | None:
    """Return the error for a disk or a limit that has failed; None: it is something else."""
    if not isinstance(error, OSError) or error.errno not in FAILING:
        return None
    where = f"{error.filename}: " if error.filename is not None else ""
    return Unavailable(f"{where}{error.strerror}")
