"""Which workers of this machine have ended: their leases need no time-out.

The kernel closes the connections of a process that ends, so a worker whose process is gone has nothing on the
wire. Only workers that share its process ids can tell: those of the same boot, host name and PID namespace.
The rest wait until the longest request of a missing worker must be over.
"""

import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from shoal.stores.contract.heartbeat import Heartbeat

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


def machine_id() -> str:
    """Return what the processes that share this one's process ids have in common; "" if it cannot be read."""
    try:
        return f"{os.uname().nodename}/{_BOOT_ID.read_text().strip()}/{_PID_NAMESPACE.readlink()}"
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """What a worker says of its process, and how it looks for those of others."""

    worker: str
    machine: str
    pid: int
    exists: Callable[[int], bool]

    @classmethod
    def current(cls) -> "WorkerProcess":
        """Return the process that calls, with a new name of a worker."""
        pid = os.getpid()
        worker = f"{os.uname().nodename}-{pid}-{secrets.token_hex(2)}"
        return cls(worker, machine_id(), pid, process_exists)


def ended_workers(
    beats: Iterable[Heartbeat], machine: str, exists: Callable[[int], bool] | None = None
) -> set[str]:
    """Return the workers of this machine whose process no longer exists."""
    exists = exists or process_exists
    return {
        beat.worker for beat in beats if machine and beat.machine == machine and not exists(beat.pid)
    }  # fmt: skip


def process_exists(pid: int) -> bool:
    """Return whether there is a process with this id, of any user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user
        return True
    return True
