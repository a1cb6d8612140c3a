"""seccomp-BPF: the kernel checks every system call of a process that runs user code. See seccomp(2).

Two filters. The fork server installs `FORK_SERVER` before it imports a spider: a list of the calls that user
code and the fork server need, some of them with certain arguments only. Every other call fails with EPERM and
nothing happens. Each child adds `CHILD`, which takes away what only the fork server needs. Filters add up and
cannot be removed.

What the list leaves out, by effect: no socket but a pair of connected stream sockets, so neither a network
nor a Unix socket by path or name; no file created, removed, renamed, truncated, linked or given other rights,
times or attributes; no program started; no process traced or inspected; no signal to another process; no
namespace, mount, key, module, BPF program, io_uring, memfd or userfaultfd.
"""

import ctypes
import errno
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shoal.parse.sandbox.syscalls import LAST, X32_BIT, Architecture, number

# <linux/bpf_common.h>: load a word, compare, mask, return.
_LOAD, _EQUAL, _ABOVE, _MASK, _RETURN = 0x20, 0x15, 0x25, 0x54, 0x06
_INSTRUCTION = struct.Struct("=HBBI")

# <linux/seccomp.h>
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_DENY = _ERRNO | errno.EPERM
_UNKNOWN = _ERRNO | errno.ENOSYS  # libc then tries an older call
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data

_SET_MODE_FILTER = 1
_SPEC_ALLOW = 1 << 2  # without it, kernels before 5.16 slow the process down (speculative store bypass)

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Argument:
    """A condition: the masked lower half of an argument has this value. Both architectures: little-endian."""

    position: int
    value: int
    mask: int = 0xFFFFFFFF
    pointer: bool = False  # the upper half must be 0, too


Conditions = Sequence[Argument]
Rule = Sequence[Conditions]  # the call is allowed if all conditions of one of them hold
ALWAYS: Rule = ((),)
NEVER: Rule = ()


def one_of(position: int, *values: int) -> Rule:
    return tuple((Argument(position, value),) for value in values)


_READ_ONLY = Argument(1, 0, mask=0o3 | 0o100 | 0o1000 | 0o20000000)  # O_ACCMODE, O_CREAT, O_TRUNC, O_TMPFILE
# Namespaces, CLONE_PARENT, CLONE_PTRACE.
_PLAIN_CLONE = Argument(0, 0, mask=0x7E02A000)
_NEW_THREAD = Argument(0, 0x00010100, mask=0x00010100)  # CLONE_THREAD, CLONE_VM
_UNIX_STREAM = (Argument(0, 1), Argument(1, 1, mask=0xF))
_OWN_PROCESS = Argument(0, 0)
_RLIMIT_CPU = 0
_SIGKILL = 9
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
# Names, memory hints, reading of flags; PR_SET_SECCOMP and PR_SET_NO_NEW_PRIVS only take rights away.
_PRCTL = (2, 3, 15, 16, 21, 22, 23, 38, 39, 41, 42, 0x53564D41)
_IOCTL = (
    0x5401,
    0x5413,
    0x541B,
    0x5421,
    0x5450,
    0x5451,
)  # isatty, window size, FIONREAD, FIONBIO, FIO(N)CLEX
# Not F_SETOWN and F_SETSIG, by which the kernel would signal another process.
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032, 1034)

_ALLOWED = {
    # Kernels before 5.11 go through the list at every call.
    "frequent": "read write futex mmap munmap mremap mprotect madvise brk sendto recvmsg recvfrom sendmsg"
    " close fstat newfstatat statx stat lstat lseek pread64 clock_gettime getrusage poll ppoll",
    "files, for reading": "readv preadv preadv2 access faccessat faccessat2 readlink readlinkat getdents"
    " getdents64 getcwd chdir fchdir statfs fstatfs fadvise64 readahead flock umask close_range",
    "what is open already": "writev pwrite64 dup dup2 dup3 pipe pipe2 sendfile select pselect6 epoll_create"
    " epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd2 shutdown getsockname getpeername"
    " getsockopt",
    "memory and threads": "mincore msync membarrier set_robust_list set_tid_address rseq sched_yield"
    " sched_getaffinity sched_getparam sched_getscheduler getcpu arch_prctl exit exit_group",
    "time": "nanosleep clock_nanosleep clock_getres gettimeofday time times setitimer getitimer alarm pause"
    " restart_syscall",
    "its own signals": "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend"
    " sigaltstack",
    "facts about itself": "getpid gettid getppid getuid geteuid getgid getegid getresuid getresgid getgroups"
    " getpgid getpgrp getsid getpriority uname sysinfo getrandom capget getrlimit wait4 waitid",
    "to take rights away": "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self capset",
    "to start children": "fork pidfd_open",
}


def fork_server_rules(*, landlock_files: bool, landlock_signals: bool) -> dict[str, Rule]:
    """Return the calls that are allowed while a spider is imported, and later in the fork server.

    Landlock can say which file may be written (/dev/null) and that a process may signal only itself, seccomp
    cannot: where Landlock does not, no file is opened for writing, and not even `abort` can send its signal.
    """
    opening: Rule = ALWAYS if landlock_files else ((_READ_ONLY,),)
    opening_at: Rule = ALWAYS if landlock_files else ((Argument(2, 0, mask=_READ_ONLY.mask),),)
    always = " ".join(_ALLOWED.values()).split()
    return dict.fromkeys(always, ALWAYS) | {
        "open": opening,
        "openat": opening_at,
        "clone": ((_PLAIN_CLONE,),),
        "socketpair": (_UNIX_STREAM,),
        "tgkill": ALWAYS if landlock_signals else NEVER,
        "prlimit64": ((_OWN_PROCESS,),),
        "prctl": (
            *one_of(0, *_PRCTL),
            (Argument(0, _PR_SET_PDEATHSIG), Argument(1, _SIGKILL)),
            (Argument(0, _PR_SET_DUMPABLE), Argument(1, 0)),
        ),
        "ioctl": one_of(1, *_IOCTL),
        "fcntl": one_of(1, *_FCNTL),
    }


def child_rules(pid: int) -> dict[str, Rule]:
    """Return what of the fork server's calls is left to the child with this process id."""
    return dict.fromkeys(("fork", "pidfd_open", "seccomp", "capset"), NEVER) | {
        "clone": ((_NEW_THREAD,),),
        "tgkill": ((Argument(0, pid),),),
        "prlimit64": (
            (Argument(2, 0, pointer=True),),  # it only asks
            (Argument(1, _RLIMIT_CPU),),  # the child itself sets it for each page
        ),
    }


def compile_filter(
    rules: Mapping[str, Rule], architecture: Architecture, *, otherwise_allow: bool = False
) -> bytes:
    """Return the BPF program for the rules. A call without a rule is denied, or allowed."""
    program = [
        _instruction(_LOAD, _ARCH),
        _instruction(_EQUAL, architecture.audit_arch, 1, 0),
        _instruction(_RETURN, _KILL_PROCESS),  # a call of another architecture: its numbers mean other calls
        _instruction(_LOAD, _NUMBER),
        _instruction(_ABOVE, X32_BIT - 1, 0, 1),
        _instruction(_RETURN, _DENY),
    ]
    for name, rule in rules.items():
        if (wanted := number(name, architecture)) is not None:
            body = _body(rule)
            program += [_instruction(_EQUAL, wanted, 0, len(body)), *body]
    if otherwise_allow:
        program.append(_instruction(_RETURN, _ALLOW))
    else:
        # libc falls back to `clone` and `openat`, whose arguments a filter can read, and to older calls.
        for name in ("clone3", "openat2"):
            program += [
                _instruction(_EQUAL, number(name, architecture) or 0, 0, 1),
                _instruction(_RETURN, _UNKNOWN),
            ]
        program += [
            _instruction(_ABOVE, LAST, 0, 1),
            _instruction(_RETURN, _UNKNOWN),
            _instruction(_RETURN, _DENY),
        ]
    return b"".join(program)


def _body(rule: Rule) -> list[bytes]:
    body: list[bytes] = []
    for conditions in rule:
        block = [_instruction(_RETURN, _ALLOW)]
        for condition in reversed(conditions):
            block = _condition(condition, len(block)) + block
        body += block
    return body if rule and not rule[-1] else [*body, _instruction(_RETURN, _DENY)]


def _condition(condition: Argument, rest: int) -> list[bytes]:
    """Return the instructions of a condition; where it does not hold, they jump over the `rest`."""
    offset = _ARGUMENTS + 8 * condition.position
    check = [_instruction(_LOAD, offset)]
    if condition.mask != 0xFFFFFFFF:
        check.append(_instruction(_MASK, condition.mask))
    check.append(_instruction(_EQUAL, condition.value, 0, rest))
    if condition.pointer:
        check = [_instruction(_LOAD, offset + 4), _instruction(_EQUAL, 0, 0, rest + len(check)), *check]
    return check


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, if_true, if_false, operand)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def install(program: bytes, architecture: Architecture) -> bool:
    """Install a filter for the calling thread and all that it starts. It needs no_new_privs."""
    buffer = ctypes.create_string_buffer(program, len(program))
    given = _Program(len(program) // _INSTRUCTION.size, ctypes.cast(buffer, ctypes.c_void_p))
    call = number("seccomp", architecture)
    return any(
        _libc.syscall(call, _SET_MODE_FILTER, flags, ctypes.byref(given)) == 0 for flags in (_SPEC_ALLOW, 0)
    )
