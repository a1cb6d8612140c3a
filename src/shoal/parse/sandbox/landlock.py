"""Landlock, the kernel's way for a process to give up rights for good, without having any to begin with.

See landlock(7). What the running kernel does not know yet is left out. A restriction holds for the process
and for everything it forks; restrictions add up.
"""

import ctypes
import os
import struct

# The same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1

_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_MAKE_OR_REMOVE = sum(1 << bit for bit in range(4, 13))
_BIND_OR_CONNECT = 0b11
_SCOPES = 0b11  # abstract sockets and signals stay among the restricted; so does ptrace, always

_syscall = ctypes.CDLL(None, use_errno=True).syscall


def restrict(*, files: bool, tcp: bool) -> frozenset[str]:
    """Allow the calling process to signal and trace only what it forks from now on, and its own threads.

    With `files` it may also not write, make or remove any file (but /dev/null), with `tcp` not connect or
    listen. Returns what the kernel was able to enforce. The caller has set no_new_privs.
    """
    version = _syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)
    rights = ports = scopes = 0
    if files and version >= 1:
        rights = _WRITE_FILE | _MAKE_OR_REMOVE
        rights |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    if tcp and version >= 4:
        ports = _BIND_OR_CONNECT
    if version >= 6:
        scopes = _SCOPES
    held = frozenset(name for name, mask in (("files", rights), ("tcp", ports), ("signals", scopes)) if mask)
    return held if held and _enforce(rights, ports, scopes) else frozenset()


def _enforce(rights: int, ports: int, scopes: int) -> bool:
    attributes = struct.pack("=QQQ", rights, ports, scopes)
    ruleset = _syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return False
    try:
        if rights:
            null = os.open(os.devnull, os.O_PATH | os.O_CLOEXEC)
            _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", _WRITE_FILE, null), 0)
            os.close(null)
        return bool(_syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)
