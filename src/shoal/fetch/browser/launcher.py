"""Start a browser without rights, in a private network, and collect its processes. Runs as a small program.

    python -I -S launcher.py UID GID COMMANDS ANSWERS HANDOVER NETWORK PROGRAM ARGUMENT...

COMMANDS and ANSWERS are the file descriptors of the browser's pipe, which expects them as 3 and 4. With
NETWORK "own", the browser gets a network namespace with nothing but a loopback interface, in which this
program listens on 127.0.0.1:3128; the listening socket goes to the worker over HANDOVER. The worker accepts
there, so the egress is the only peer that the browser has. With NETWORK "shared", nothing is handed over.

What cannot be done is written to HANDOVER as text, and the program exits with 71: the worker decides what
follows from that.

This program stays until every process of the browser has ended: those whose parent ends become its children
(a subreaper), so none of them is left as a zombie, even where the worker is the first process of a
container. It ends them all when it gets SIGTERM, when the browser itself ends, and when the worker ends.
Last, it removes the profile of the browser, which is its home directory.
"""

import ctypes
import fcntl
import os
import shutil
import signal
import socket
import struct
import sys
import time
from contextlib import suppress

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
PROXY_PORT = 3128
REFUSED = 71
KILL_EVERY_S = 0.01

libc = ctypes.CDLL(None, use_errno=True)


def drop_rights(uid: int, gid: int) -> None:
    """Become another user, if this is root: Chromium's sandbox refuses to run as root."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # else /proc/self/uid_map cannot be written


def own_network() -> socket.socket:
    """Enter a new network namespace; return a socket that listens in it."""
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare: " + os.strerror(ctypes.get_errno()))
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", PROXY_PORT))
    listener.listen(64)
    return listener


def run(program: list[str], commands: int, answers: int) -> None:
    """Become the browser, which ends with this program's parent."""
    libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # Through high numbers: the pipe may have been given as 3 and 4 the other way round.
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 100) for descriptor in (commands, answers)]
    for number, descriptor in enumerate(high, start=3):
        os.dup2(descriptor, number, inheritable=True)
        os.close(descriptor)
    os.closerange(5, 1024)
    os.execv(program[0], program)  # noqa: S606 - no shell is wanted


def children() -> list[int]:
    """Return the processes whose parent is this one."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def end_all() -> None:
    """Kill and collect all processes of the browser: the children of one that has ended become ours."""
    while True:
        for pid in children():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            collected, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not collected:
            time.sleep(KILL_EVERY_S)


def main(arguments: list[str]) -> None:
    uid, gid, commands, answers, handover = map(int, arguments[:5])
    network, program = arguments[5], arguments[6:]
    worker = socket.socket(fileno=handover)
    try:
        drop_rights(uid, gid)
        if network == "own":
            listener = own_network()
            socket.send_fds(worker, [b"own"], [listener.fileno()])
            listener.close()
        else:
            worker.sendall(b"shared")
    except OSError as error:
        worker.sendall(str(error).encode())
        os._exit(REFUSED)
    signals = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)  # after the change of user, which cancels it
    if (browser := os.fork()) == 0:
        run(program, commands, answers)
    worker.close()
    os.closerange(3, 1024)
    while signal.sigwait(signals) != signal.SIGTERM:
        with suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) not in (0, browser):
                pass
            if pid == browser:
                break
    end_all()
    shutil.rmtree(os.environ["HOME"], ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
