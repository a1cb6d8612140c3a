"""A spider whose handler does what the page's address says, most of it unforgivable."""

import ctypes
import mmap
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import shoal

spider = shoal.Spider("nasty", start="http://a.test/")
HELD: list[Any] = []
LIBC = ctypes.CDLL(None)


@spider.page()
def page(page: shoal.Page) -> Iterator[dict[str, Any]]:
    deed = page.url.rsplit("/", 1)[1]
    yield {"before": deed}
    yield from globals()[f"do_{deed.partition('-')[0]}"]() or ()
    yield {"deed": deed}


def do_good() -> None: ...


# --- ends of the process ---------------------------------------------------------------------------


def do_segfault() -> None:
    ctypes.string_at(0)


def do_abort() -> None:
    os.abort()


def do_quit() -> None:
    os._exit(0)


def do_exit() -> None:
    sys.exit(0)


def do_interrupt() -> None:
    raise KeyboardInterrupt


def do_pretend() -> None:
    os._exit(81)  # what a child says that would like to be replaced without blame


# --- too much of something -------------------------------------------------------------------------


def do_spin() -> None:
    while True:
        pass


def do_regex() -> None:
    re.match(r"(a+)+$", "a" * 50_000 + "!")


def do_sleep() -> None:
    time.sleep(3600)


def do_deaf() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue


def do_block() -> None:
    while LIBC.usleep(500_000) == 0:  # with the interpreter's lock released, and no Python code that runs
        pass


def do_hold() -> None:
    ctypes.PyDLL(None).sleep(3600)  # with the interpreter's lock held


def do_shout() -> None:
    while True:
        print("x" * 1000)


def do_allocate() -> None:
    HELD.append(bytearray(10 << 30))


def do_map() -> None:
    HELD.append(mmap.mmap(-1, 10 << 30))


def do_endless() -> Iterator[dict[str, Any]]:
    while True:
        yield {"again": 1}


def do_huge() -> Iterator[dict[str, Any]]:
    yield {"text": "x" * (8 << 20)}


def do_bloat() -> Iterator[shoal.Request]:
    for number in range(9500):  # 28 bytes each, and as much again for what describes them
        yield shoal.Request(url=f"http://a.test/{number}")


def do_recurse() -> None:
    do_recurse()


# --- hands on what is not its own ------------------------------------------------------------------


def our_socket() -> int:
    """Find the connection to the parent, as only bad intent does."""
    for fd in range(3, 5000):
        try:
            os.fstat(fd)
        except OSError:
            continue
        return fd
    raise LookupError


def do_junk() -> None:
    os.write(our_socket(), os.urandom(64))


def do_steal() -> None:
    os.set_blocking(our_socket(), False)
    try:
        os.read(our_socket(), 10)
    finally:
        os.set_blocking(our_socket(), True)


def do_close() -> None:
    os.closerange(0, 10_000)


def do_mute() -> None:
    os.close(1)


def do_parricide() -> None:
    os.kill(os.getppid(), signal.SIGKILL)


def do_massacre() -> None:
    LIBC.kill(-1, signal.SIGKILL)


def do_stab() -> None:
    LIBC.kill(os.getppid(), signal.SIGKILL)


def do_raise() -> None:
    raise ValueError("no such price")


# --- out of the cage -------------------------------------------------------------------------------


def do_forks() -> None:
    while True:
        os.fork()


def do_cforks() -> Iterator[dict[str, Any]]:
    yield {"forked": LIBC.fork()}


def do_run() -> None:
    subprocess.run(["true"], check=True)


def do_files() -> None:
    while True:
        HELD.append(open(__file__))  # noqa: SIM115


def do_connect() -> None:
    socket.create_connection(("127.0.0.1", 9), timeout=1)


def do_cconnect() -> Iterator[dict[str, Any]]:
    """Go around Python: a connected socket, or the error number."""
    fd = LIBC.socket(socket.AF_INET, socket.SOCK_DGRAM, 0)
    address = b"\x02\x00\x00\x09\x7f\x00\x00\x01" + bytes(8)
    yield {"connected": LIBC.connect(fd, address, len(address)) == 0}


def do_write() -> None:
    (Path(__file__).parent / "written-by-a-spider").write_text("gotcha")


def do_shm() -> None:
    with open("/dev/shm/written-by-a-spider", "wb") as file:
        while True:
            file.write(bytes(1 << 20))


def do_memfd() -> None:
    with open(os.memfd_create("hidden"), "wb") as file:
        while True:
            file.write(bytes(1 << 20))


def do_environment() -> Iterator[dict[str, Any]]:
    yield {"environment": dict(os.environ)}


def do_read() -> Iterator[dict[str, Any]]:
    yield {"size": len(Path(__file__).read_bytes())}
