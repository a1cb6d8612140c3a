"""The sandbox of processes that run user code: files are read in few places, and nothing else is reached.

Every measure works without privileges where the kernel allows it, and is skipped where it does not. The
caller learns which guarantees hold (`guarantees.py`) and decides whether they are enough. Nothing needs
cleaning up: the measures end with the process.

    namespaces    no network interface; children are in a separate PID namespace, cannot address a process
                  outside of it, and end with it
    user          root becomes an unprivileged user, or at least root without capabilities
    landlock      only some files are read, none is written; no TCP; no signal or ptrace to processes outside
    seccomp       no sockets, no new processes or programs, no change of any file, no signals
    limits        memory, files, processes: see `limits.py`
    audit         Python's own functions for processes, signals and sockets raise an error that says why
"""

import ctypes
import os
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from shoal.child_process import die_with_parent
from shoal.parse.sandbox import landlock, seccomp
from shoal.parse.sandbox.guarantees import Guarantee
from shoal.parse.sandbox.readable import ReadablePath
from shoal.parse.sandbox.syscalls import number, this_architecture

_UNPRIVILEGED_ID = 65534  # user and group `nobody`  # vocabulary: ok

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x08000000, 0x10000000, 0x20000000, 0x40000000
_CAPABILITIES = struct.pack("=Ii", 0x20080522, 0)  # version 3, the calling process
_CAP_KILL = 5

_libc = ctypes.CDLL(None, use_errno=True)


def start_init_process() -> int:
    """Start the init process (PID 1) of a new PID namespace and return the descriptor that ends it.

    It reaps orphans and does nothing else. No process inside can signal it. It ends with the caller, or when
    that closes the descriptor, and the kernel then ends the whole namespace.
    """
    mine, theirs = os.pipe()
    zygote = os.getpid()
    if os.fork() != 0:
        os.close(mine)
        return theirs
    try:
        die_with_parent(zygote)
        os.closerange(3, mine)
        os.closerange(mine + 1, os.sysconf("SC_OPEN_MAX"))
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        os.read(mine, 1)
    finally:
        os._exit(0)


def isolate(needed: Sequence[str]) -> set[Guarantee]:
    """Move the calling, single-threaded process out of its namespaces, and take root's rights away.

    `needed` are the paths that the spider needs: root becomes an unprivileged user only if that user can read
    them. `restrict` completes the sandbox.
    """
    held = set()
    root = os.geteuid() == 0
    spaces = _CLONE_NEWNET | _CLONE_NEWPID | _CLONE_NEWIPC
    if (root and _unshare(spaces)) or _unshare(spaces | _CLONE_NEWUSER):
        held.add(Guarantee.NAMESPACES)
    if root and _drop_root(needed):
        held |= {Guarantee.USER, Guarantee.READING}  # what every user of the machine may read
    elif root:
        with suppress(OSError):  # the kernel never applies RLIMIT_NPROC to the real user 0
            os.setresuid(_UNPRIVILEGED_ID, -1, -1)
    return held


def restrict(readable: Sequence[ReadablePath]) -> set[Guarantee]:
    """Take all rights away from the calling process that a spider does not need, permanently."""
    held = set()
    architecture = this_architecture()
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    unprivileged = _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    enforced = landlock.restrict(readable) if unprivileged else frozenset()
    if "files" in enforced:
        held |= {Guarantee.READING}
    if architecture is None:
        return held
    if _libc.syscall(number("capset", architecture), _CAPABILITIES, bytes(24)) == 0:
        held.add(Guarantee.CAPABILITIES)
    rules = seccomp.fork_server_rules(
        landlock_files="files" in enforced, landlock_signals="signals" in enforced
    )
    if unprivileged and seccomp.install(seccomp.compile_filter(rules, architecture), architecture):
        held |= {Guarantee.WRITING, Guarantee.NETWORK, Guarantee.PROCESSES}
    return held


def restrict_child(held: frozenset[str]) -> None:
    """Take away from a child what only its fork server needs."""
    if Guarantee.PROCESSES not in held:
        os.setsid()  # a new process group: kill(0, ...) reaches no other process
    landlock.restrict(None)  # no signals or ptrace to siblings
    architecture = this_architecture()
    if Guarantee.PROCESSES in held and architecture is not None:
        rules = seccomp.child_rules(os.getpid())
        program = seccomp.compile_filter(rules, architecture, otherwise_allow=True)
        if not seccomp.install(program, architecture):
            raise PermissionError("the kernel refused the seccomp filter of a parse child")


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


def _drop_root(needed: Sequence[str]) -> bool:
    if not _may_signal_others():
        return False  # the parent has the same rights, and could not kill children of another user
    try:
        os.setresuid(-1, _UNPRIVILEGED_ID, 0)
        try:
            harmless = all(_readable(path) for path in needed)
        finally:
            os.setresuid(-1, 0, 0)
        if harmless:
            os.setgroups([])
            os.setresgid(_UNPRIVILEGED_ID, _UNPRIVILEGED_ID, _UNPRIVILEGED_ID)
            os.setresuid(_UNPRIVILEGED_ID, _UNPRIVILEGED_ID, _UNPRIVILEGED_ID)
    except OSError:
        return False
    return harmless


def _may_signal_others() -> bool:
    with suppress(OSError, IndexError, ValueError):
        status = Path("/proc/self/status").read_text()
        return bool(int(status.partition("CapEff:")[2].split()[0], 16) >> _CAP_KILL & 1)
    return False


def _readable(path: str) -> bool:
    needed = os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK
    return os.access(path, needed, effective_ids=True)


_FORBIDDEN = {
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


def install_audit_hook() -> Callable[[Callable[[], None]], None]:
    """Install an audit hook that raises for forbidden operations and says what a spider should do instead.

    It cannot be removed. ctypes circumvents it, but not the kernel's measures. The fork server may fork; a
    child calls the returned function, and from then on forking is forbidden and a signal calls `on_signal`.
    """
    forbidden = dict(_FORBIDDEN)
    on_signals: list[Callable[[], None]] = []

    def hook(event: str, _args: tuple[object, ...]) -> None:
        if event in forbidden:
            raise PermissionError(f"a spider may not {forbidden[event]}")
        if event in _SIGNALS:
            for on_signal in on_signals:
                on_signal()

    def forbid_in_child(on_signal: Callable[[], None]) -> None:
        forbidden["os.fork"] = "start processes"
        on_signals.append(on_signal)

    sys.addaudithook(hook)
    return forbid_in_child
