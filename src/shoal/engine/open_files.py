"""The limit of open files: read when a crawl starts, so that no request fails for want of a descriptor."""

import logging
import resource

from shoal.model.errors import Misconfigured

log = logging.getLogger(__name__)

RESERVED = 36  # store, archive, outputs, log, event loop, modules that are loaded late
PER_PROCESS = 4  # pipes and sockets of a parse process
PER_REQUEST = 2  # a connection in use, and one that is kept for the next request to its host


def fitting_concurrency(wanted: int, processes: int, limit: int) -> int:
    """Return how many requests at once a limit of open files allows; 0: not even one."""
    return max(0, min(wanted, (limit - RESERVED - PER_PROCESS * processes) // PER_REQUEST))


def fit_open_files(wanted: int, processes: int) -> int:
    """Return the concurrency that this process can use, after raising its limit of open files where it may.

    Raise `Misconfigured` if the limit is too low for a single request.
    """
    limit, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = RESERVED + PER_PROCESS * processes + PER_REQUEST * wanted
    if limit < needed <= highest or highest == resource.RLIM_INFINITY:
        limit = max(limit, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, highest))
    elif limit < highest:
        limit = highest
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, highest))
    fitting = fitting_concurrency(wanted, processes, limit)
    if not fitting:
        raise Misconfigured(
            f"this process may open only {limit} files: run  ulimit -n {max(needed, 256)}  first"
        )
    if fitting < wanted:
        facts = {"limit": limit, "concurrency": fitting, "instead_of": wanted}
        log.warning("files.limited", extra={**facts, "change_with": f"ulimit -n {needed}"})
    return fitting
