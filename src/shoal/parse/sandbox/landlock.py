"""Landlock: the Linux feature by which an unprivileged process gives up rights permanently. See landlock(7).

Restrictions that the running kernel does not support are left out. A restriction applies to the process and
to everything it forks; restrictions add up.
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
_SCOPES = 0b11  # no abstract sockets or signals to processes outside the sandbox; ptrace is always restricted

_syscall = ctypes.CDLL(None, use_errno=True).syscall


def restrict(*, files: bool, tcp: bool) -> frozenset[str]:
    """Restrict signals and ptrace of the calling process to what it forks from now on and its own threads.

    With `files` it may also not write, create or remove any file (except /dev/null), with `tcp` not connect
    or listen. Returns what the kernel was able to enforce. The caller must have set no_new_privs.
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
