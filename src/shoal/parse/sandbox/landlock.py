"""Landlock: the Linux feature by which an unprivileged process gives up rights permanently. See landlock(7).

Restrictions that the running kernel does not support are left out. A restriction applies to the process and
to everything it forks; restrictions add up.
"""

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from contextlib import suppress

from shoal.parse.sandbox.readable import ReadablePath

# The same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_OR_REMOVE = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_BIND_OR_CONNECT = 0b11
_SCOPES = 0b11  # no abstract sockets or signals to processes outside the sandbox; ptrace is always restricted

_syscall = ctypes.CDLL(None, use_errno=True).syscall


def is_available() -> bool:
    """Return whether this process could restrict itself."""
    return _version() >= 1


def _version() -> int:
    return int(_syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION))


def restrict(readable: Iterable[ReadablePath] | None) -> frozenset[str]:
    """Restrict signals and ptrace of the calling process to what it forks from now on and its own threads.

    With `readable`, it may also read no other files, write none but /dev/null, and not use TCP. Returns what
    the kernel was able to enforce: "files", "tcp", "signals". The caller must have set no_new_privs.
    """
    version = _version()
    rights = ports = scopes = 0
    if readable is not None and version >= 1:
        rights = _EXECUTE | _WRITE_FILE | _READ_FILE | _READ_DIR | _MAKE_OR_REMOVE
        rights |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
        rights |= _IOCTL_DEV if version >= 5 else 0
    if readable is not None and version >= 4:
        ports = _BIND_OR_CONNECT
    if version >= 6:
        scopes = _SCOPES
    held = frozenset(name for name, mask in (("files", rights), ("tcp", ports), ("signals", scopes)) if mask)
    return held if held and _enforce(readable or (), rights, ports, scopes) else frozenset()


def _enforce(readable: Iterable[ReadablePath], rights: int, ports: int, scopes: int) -> bool:
    attributes = struct.pack("=QQQ", rights, ports, scopes)
    ruleset = _syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return False
    try:
        if rights:
            _allow(ruleset, os.devnull, (_READ_FILE | _WRITE_FILE | _TRUNCATE) & rights)
            for path in readable:
                _allow(ruleset, path.path, (_READ_FILE if path.content else 0) | _READ_DIR)
        return bool(_syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    """Allow an access to a file, or to everything in a folder. A path that does not exist is left out."""
    with suppress(OSError):
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                access &= ~_READ_DIR
            _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, fd), 0)
        finally:
            os.close(fd)
