"""How much memory processes use, from /proc."""

import os
import re
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


def process_memory(pid: int) -> int:
    """Return the bytes that a process uses, its share of shared memory included; 0: it has ended.

    Where the kernel shows that share to root alone, shared memory is left out.
    """
    folder = Path("/proc", str(pid))
    try:
        if found := _PSS.search((folder / "smaps_rollup").read_text()):
            return int(found[1]) * 1024
    except OSError:
        pass
    return private_memory(pid)


def private_memory(pid: int) -> int:
    """Return the bytes that a process shares with no other; 0: it has ended. Much cheaper than the above."""
    try:
        _, resident, shared, *_ = map(int, Path("/proc", str(pid), "statm").read_text().split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * _PAGE_BYTES


def parent_of(pid: int) -> int:
    """Return the process that started another one; 0: that has ended."""
    try:
        return int(Path("/proc", str(pid), "stat").read_text().rpartition(") ")[2].split()[1])
    except (OSError, ValueError):
        return 0


def children_of(pid: int) -> list[int]:
    """Return the processes that the main thread of a process has started."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (OSError, ValueError):
        return []
