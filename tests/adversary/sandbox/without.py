"""Start a program on a machine that lacks something: `python -m ... CALLS UID COMMAND...`.

CALLS are names of `CALLS` below, comma-separated, which then fail as on a kernel or in a container without them.
UID is the user who runs the program; empty: the same one. An interpreter that only root can reach, such as one
in /root, is mounted so that other users can reach it as well (option "public").
"""

import ctypes
import errno
import os
import platform
import struct
import sys
import sysconfig
from pathlib import Path

X86 = platform.machine() == "x86_64"
CALLS = {
    "unshare": [272 if X86 else 97],
    "landlock": [444, 445, 446],
    "seccomp": [317 if X86 else 277],
}
ROOT = Path(__file__).parents[3]
LIBC = ctypes.CDLL(None, use_errno=True)
LOAD, EQUAL, RETURN, ALLOW = 0x20, 0x15, 0x06, 0x7FFF0000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
CLONE_NEWNS = 0x00020000


def deny(numbers: list[int]) -> None:
    """Have the kernel refuse system calls, for this process and all that it starts."""
    program = [(LOAD, 0, 0, 0)]
    for number in numbers:
        program += [(EQUAL, 0, 1, number), (RETURN, 0, 0, 0x00050000 | errno.EPERM)]
    program.append((RETURN, 0, 0, ALLOW))
    packed = b"".join(struct.pack("HBBI", *one) for one in program)
    buffer = ctypes.create_string_buffer(packed, len(packed))
    given = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(buffer))
    check(LIBC.prctl(38, 1, 0, 0, 0))  # no_new_privs
    check(LIBC.prctl(22, 2, ctypes.c_char_p(given), 0, 0))


def make_public(paths: list[Path]) -> None:
    """In a mount namespace of this process, let every user reach paths below folders that are closed to them."""
    closed: dict[Path, list[Path]] = {}
    for path in paths:
        for parent in reversed(path.parents):
            if not parent.stat().st_mode & 0o001:
                closed.setdefault(parent, []).append(path)
                break
    if not closed:
        return
    check(LIBC.unshare(CLONE_NEWNS))
    check(LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
    for folder, wanted in closed.items():
        opened = [os.open(path, os.O_PATH) for path in wanted]
        check(LIBC.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, b"mode=755"))
        for path, fd in zip(wanted, opened, strict=True):
            path.mkdir(parents=True, exist_ok=True)
            check(LIBC.mount(f"/proc/self/fd/{fd}".encode(), bytes(path), None, MS_BIND | MS_REC, None))


def check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main() -> None:
    lacking, uid, *command = sys.argv[1:]
    names = {name for name in lacking.split(",") if name}
    if uid or "public" in names:
        make_public([Path(sys.base_prefix), Path(sysconfig.get_path("purelib")), ROOT])
    if uid and int(uid) != os.geteuid():
        os.setgroups([])
        os.setresgid(int(uid), int(uid), int(uid))
        os.setresuid(int(uid), int(uid), int(uid))
    if denied := [number for name in sorted(names & CALLS.keys()) for number in CALLS[name]]:
        deny(denied)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
