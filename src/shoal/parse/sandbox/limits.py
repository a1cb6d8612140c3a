"""Resource limits of the processes that run user code. Soft and hard limits are equal: none can be raised."""

import mmap
import os
import resource

OPEN_FILES = 64
TASKS = 4096  # threads and processes of the user at which a child starts no more threads


class MemoryMeter:
    """Measures the address space of this process, also when it may no longer open /proc."""

    def __init__(self) -> None:
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def bytes_in_use(self) -> int:
        return int(os.pread(self._statm, 64, 0).split()[0]) * resource.getpagesize()


def limit_memory(total_bytes: int) -> None:
    """Limit the address space of the process to `total_bytes`, or less if it is limited already."""
    # The whole address space: RLIMIT_DATA does not count shared anonymous memory.
    _limit(resource.RLIMIT_AS, total_bytes)


def limit_writing() -> None:
    """Allow no bytes in regular files (pipes and sockets do not count) and no dump of the memory."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)


def limit_child(*, threads: bool) -> None:
    """Limit a child to few open files and few threads.

    The limit on processes counts threads as well: without `threads` a child starts neither.
    """
    _limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    _limit(resource.RLIMIT_NPROC, TASKS if threads else 0)


def has_room(more_bytes: int) -> bool:
    """Return whether the memory limit of this process leaves `more_bytes`."""
    try:
        mmap.mmap(-1, more_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()
    except (OSError, ValueError):
        return False
    return True


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (value, value))
