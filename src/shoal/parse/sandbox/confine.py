"""The sandbox of a process that runs user code: no writing, no network, no starting of processes, no signals.

Every measure works without privileges where the kernel allows it, and is skipped where it does not. The
measures in force are reported, so that `doctor` can say what is missing. None needs cleaning up: they end
with the process.

    namespaces    no network interface; children are in a separate PID namespace, cannot address a process
                  outside of it, and end with it
    user          root becomes an unprivileged user, or at least root without capabilities
    landlock      no file is written, created or removed; no TCP; no signal or ptrace to processes outside
    rlimits       memory, files, processes: see `set_limits`
    audit         Python's own functions for processes, signals and sockets raise an error that says why

Reading files stays allowed: a spider may have data files.
"""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from shoal.child_process import die_with_parent
from shoal.parse.sandbox import landlock

_UNPRIVILEGED_ID = 65534  # user and group `nobody`  # vocabulary: ok
OPEN_FILES = 64

_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x08000000, 0x10000000, 0x20000000, 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


def start_init_process() -> int:
    """Start the init process (PID 1) of a new PID namespace and return its id.

    It reaps orphans and does nothing else. No process inside can signal it. It ends with the caller, and the
    kernel then ends the whole namespace.
    """
    mine, _theirs = os.pipe()
    zygote = os.getpid()
    if (pid := os.fork()) != 0:
        os.close(mine)
        return pid  # `_theirs` stays open as long as this process lives
    try:
        die_with_parent(zygote)
        os.closerange(3, mine)
        os.closerange(mine + 1, os.sysconf("SC_OPEN_MAX"))
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        os.read(mine, 1)
    finally:
        os._exit(0)


def isolate(readable: Sequence[str]) -> frozenset[str]:
    """Sandbox the calling, single-threaded process and its later children; return the measures in force.

    `readable` are the paths that the spider needs: root becomes an unprivileged user only if that user can
    read them.
    """
    measures = set()
    root = os.geteuid() == 0
    spaces = _CLONE_NEWNET | _CLONE_NEWPID | _CLONE_NEWIPC
    if _unshare(spaces if root else spaces | _CLONE_NEWUSER):
        measures |= {"network", "processes"}
    if root and _drop_root(readable):
        measures.add("user")
    elif root and _shed_capabilities():
        measures.add("capabilities")
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        measures |= landlock.restrict(files=True, tcp=True)
    return frozenset(measures)


def isolate_from_siblings() -> None:
    """Keep one child from signalling or tracing its siblings, where the kernel can."""
    landlock.restrict(files=False, tcp=False)


def _unshare(flags: int) -> bool:
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(flags) != 0:
        return False
    if flags & _CLONE_NEWUSER:
        # Maps the process's own ids, so that it sees them unchanged. Its rights do not depend on that.
        with suppress(OSError):
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    return True


def _drop_root(readable: Sequence[str]) -> bool:
    try:
        os.setresuid(-1, _UNPRIVILEGED_ID, 0)
        try:
            harmless = all(_readable(path) for path in readable)
        finally:
            os.setresuid(-1, 0, 0)
        if harmless:
            os.setgroups([])
            os.setresgid(_UNPRIVILEGED_ID, _UNPRIVILEGED_ID, _UNPRIVILEGED_ID)
            os.setresuid(_UNPRIVILEGED_ID, _UNPRIVILEGED_ID, _UNPRIVILEGED_ID)
    except OSError:
        return False
    return harmless


def _readable(path: str) -> bool:
    needed = os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK
    return os.access(path, needed, effective_ids=True)


def _shed_capabilities() -> bool:
    """Stay root for file permissions, but drop all capabilities and the real user id.

    The kernel never applies RLIMIT_NPROC to the real user 0.
    """
    try:
        os.setresuid(_UNPRIVILEGED_ID, -1, -1)
    except OSError:
        return False
    return _unshare(_CLONE_NEWUSER)


def set_limits(*, memory_bytes: int) -> None:
    """Set the limits of a child: `memory_bytes` more than it uses now, few files, no processes."""
    limit_memory(memory_bytes)
    for what, most in (
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),  # of regular files: pipes and sockets do not count
    ):
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (_within(most, hard), _within(most, hard)))


def limit_memory(more_bytes: int) -> None:
    """Limit the memory of the process to `more_bytes` more than it uses now."""
    # The whole address space: RLIMIT_DATA does not count shared anonymous memory.
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = memory_in_use() + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (_within(most, hard), hard))


def _within(most: int, hard: int) -> int:
    return most if hard == resource.RLIM_INFINITY else min(most, hard)


def memory_in_use() -> int:
    """Return the bytes of address space that the process has mapped."""
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


_FORBIDDEN = {
    "os.fork": "start processes",
    "os.forkpty": "start processes",
    "os.posix_spawn": "start processes",
    "os.exec": "start processes",
    "os.system": "start processes",
    "subprocess.Popen": "start processes",
    "socket.connect": "use the network; yield a request instead",
    "socket.bind": "use the network",
    "socket.sendto": "use the network",
    "socket.getaddrinfo": "use the network; yield a request instead",
}
_SIGNALS = frozenset({"os.kill", "os.killpg", "signal.pidfd_send_signal"})


def install_audit_hook(on_signal: Callable[[], None]) -> None:
    """Install an audit hook that raises for forbidden operations, and calls `on_signal` for a signal.

    It cannot be removed. ctypes circumvents it, but it works on every kernel and names the mistake.
    """

    def hook(event: str, _args: tuple[object, ...]) -> None:
        if event in _FORBIDDEN:
            raise PermissionError(f"a spider may not {_FORBIDDEN[event]}")
        if event in _SIGNALS:
            on_signal()

    sys.addaudithook(hook)
