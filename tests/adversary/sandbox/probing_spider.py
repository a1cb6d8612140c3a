"""A spider that tries to get out of its sandbox, during its import and again on a page.

Each probe returns if it succeeded and raises an error of the kernel if it was refused. What it needs to know
(paths, ports, process ids) is in `probes.json` beside this file.
"""

import ctypes
import errno
import json
import mmap
import os
import platform
import resource
import signal
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import shoal

FACTS: dict[str, Any] = json.loads((Path(__file__).parent / "probes.json").read_text())
REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)
X86 = platform.machine() == "x86_64"
LIBC = ctypes.CDLL(None, use_errno=True)
PYTHON: dict[str, Callable[[], object]] = {}
RAW: dict[str, Callable[[], object]] = {}
NUMBERS = {  # x86_64, aarch64
    "accept": (43, 202),
    "add_key": (248, 217),
    "bind": (49, 200),
    "bpf": (321, 280),
    "capset": (126, 91),
    "chmod": (90, None),
    "chown": (92, None),
    "clone": (56, 220),
    "clone3": (435, 435),
    "connect": (42, 203),
    "creat": (85, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchownat": (260, 54),
    "fcntl": (72, 25),
    "finit_module": (313, 273),
    "fork": (57, None),
    "ftruncate": (77, 46),
    "init_module": (175, 105),
    "inotify_init1": (294, 26),
    "io_uring_setup": (425, 425),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "kill": (62, 129),
    "linkat": (265, 37),
    "listen": (50, 201),
    "memfd_create": (319, 279),
    "mkdirat": (258, 34),
    "mknodat": (259, 33),
    "mount": (165, 40),
    "move_mount": (429, 429),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "renameat2": (316, 276),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "sched_setaffinity": (203, 122),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "setsid": (112, 157),
    "setsockopt": (54, 208),
    "setuid": (105, 146),
    "setxattr": (188, 5),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapon": (167, 224),
    "symlinkat": (266, 36),
    "sync": (162, 81),
    "syslog": (103, 116),
    "tgkill": (234, 131),
    "tkill": (200, 130),
    "truncate": (76, 45),
    "unlinkat": (263, 35),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "utimensat": (280, 88),
    "vfork": (58, None),
    "x32 getpid": (0x40000000 | 39, None),
}
AT_FDCWD = -100
IN_FORK_SERVER = frozenset({"clone as fork", "fork", "pidfd_open"})  # it has to start children


def python(probe: Callable[[], object]) -> Callable[[], object]:
    PYTHON[probe.__name__] = probe
    return probe


def raw(name: str, *arguments: object, call: str = "") -> None:
    RAW[name] = lambda: syscall(call or name, *arguments)


def syscall(name: str, *arguments: Any) -> int:
    number = NUMBERS[name][0 if X86 else 1]
    if number is None:  # this architecture does not have it
        raise OSError(errno.ENOSYS, name)
    plain = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(LIBC.syscall(ctypes.c_long(number), *plain))
    if result == 0 and name in ("fork", "vfork", "clone"):
        os._exit(0)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


# --- sockets -----------------------------------------------------------------------------------------


@python
def connect_to_unix_socket() -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(FACTS["unix_socket"])


@python
def connect_to_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect("\0" + FACTS["abstract_socket"])


@python
def connect_with_tcp() -> None:
    socket.create_connection(("127.0.0.1", FACTS["port"]), timeout=2).close()


@python
def send_with_udp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", ("127.0.0.1", FACTS["port"]))


@python
def open_raw_socket() -> None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()


@python
def open_netlink_socket() -> None:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()


@python
def listen_with_tcp() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()


@python
def pair_of_datagram_sockets() -> None:
    for sock in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM):
        sock.close()


for family, kind in ((1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (10, 1), (16, 3), (17, 3), (38, 5), (40, 1)):
    raw(f"socket {family} {kind}", family, kind, 0, call="socket")
UNIX_ADDRESS = struct.pack("H", 1) + FACTS["unix_socket"].encode() + b"\0"
raw("connect", 0, UNIX_ADDRESS, len(UNIX_ADDRESS))
raw("bind", 0, UNIX_ADDRESS, len(UNIX_ADDRESS))
raw("listen", 0, 1)
raw("accept", 0, None, None)
raw("socketpair of datagrams", 1, 2, 0, ctypes.create_string_buffer(8), call="socketpair")
raw("setsockopt", 0, 1, 26, ctypes.create_string_buffer(16), 16)  # SO_ATTACH_FILTER
raw("io_uring_setup", 8, ctypes.create_string_buffer(256))


# --- files -------------------------------------------------------------------------------------------


@python
def change_mode() -> None:
    os.chmod(FACTS["own_file"], 0o777)


@python
def change_owner() -> None:
    os.chown(FACTS["own_file"], os.getuid(), os.getgid())


@python
def change_times() -> None:
    os.utime(FACTS["own_file"], (0, 0))


@python
def set_attribute() -> None:
    os.setxattr(FACTS["own_file"], "user.probe", b"x")


@python
def create_file() -> None:
    Path(FACTS["folder"], "created").write_text("x")


@python
def append_to_file() -> None:
    with open(FACTS["own_file"], "a") as file:
        file.write("x")


@python
def truncate_file() -> None:
    os.truncate(FACTS["own_file"], 0)


@python
def make_folder() -> None:
    Path(FACTS["folder"], "made").mkdir()


@python
def remove_file() -> None:
    os.unlink(FACTS["victim"])


@python
def rename_file() -> None:
    os.rename(FACTS["victim"], FACTS["victim"] + ".renamed")


@python
def link_file() -> None:
    os.link(FACTS["victim"], FACTS["victim"] + ".linked")


@python
def link_symbolically() -> None:
    os.symlink(FACTS["victim"], FACTS["victim"] + ".symlinked")


@python
def make_fifo() -> None:
    os.mkfifo(FACTS["victim"] + ".fifo")


@python
def write_to_shared_memory() -> None:
    Path(f"/dev/shm/probe-{os.getpid()}").write_text("x")


def read(path: str) -> None:
    with open(path, "rb", buffering=0) as file:
        os.read(file.fileno(), 1)


def read_raw(path: str) -> None:
    os.close(syscall("openat", AT_FDCWD, path.encode(), os.O_RDONLY, 0))


for path in FACTS["secrets"]:
    PYTHON[f"read {path}"] = partial(read, path)
    RAW[f"read {path}"] = partial(read_raw, path)
for path in FACTS["folders"]:
    PYTHON[f"list {path}"] = partial(os.listdir, path)

OWN, VICTIM = FACTS["own_file"].encode(), FACTS["victim"].encode()
raw("chmod", OWN, 0o777)
raw("chown", OWN, os.getuid(), os.getgid())
raw("fchmod", 1, 0o600)
raw("fchmodat", AT_FDCWD, OWN, 0o777)
raw("fchownat", AT_FDCWD, OWN, os.getuid(), os.getgid(), 0)
raw("utimensat", AT_FDCWD, OWN, None, 0)
raw("setxattr", OWN, b"user.probe", b"x", 1, 0)
raw("open for writing", AT_FDCWD, OWN, os.O_WRONLY, 0, call="openat")
raw("open for both", AT_FDCWD, OWN, os.O_RDWR, 0, call="openat")
raw("open to create", AT_FDCWD, OWN + b".new", os.O_CREAT, 0o600, call="openat")
raw("open to truncate", AT_FDCWD, OWN, os.O_TRUNC, 0, call="openat")
raw("open without a name", AT_FDCWD, FACTS["folder"].encode(), os.O_TMPFILE | os.O_RDWR, 0o600, call="openat")
raw("openat2", AT_FDCWD, OWN, struct.pack("QQQ", os.O_RDONLY, 0, 0), 24)
raw("creat", OWN + b".new", 0o600)
raw("truncate", OWN, 0)
raw("ftruncate", 1, 0)
raw("unlinkat", AT_FDCWD, VICTIM, 0)
raw("renameat2", AT_FDCWD, VICTIM, AT_FDCWD, VICTIM + b".renamed", 0)
raw("linkat", AT_FDCWD, VICTIM, AT_FDCWD, VICTIM + b".linked", 0)
raw("symlinkat", VICTIM, AT_FDCWD, VICTIM + b".symlinked")
raw("mkdirat", AT_FDCWD, VICTIM + b".made", 0o700)
raw("mknodat", AT_FDCWD, VICTIM + b".fifo", 0o010600, 0)
raw("open_by_handle_at", AT_FDCWD, ctypes.create_string_buffer(128), 0)
raw("inotify_init1", 0)
raw("memfd_create", b"probe", 0)
raw("mq_open", b"probe", os.O_CREAT | os.O_RDWR, 0o600, None)
raw("shmget", 0, 4096, 0o1600)
raw("msgget", 0, 0o1600)
raw("sync")
raw("quotactl", 0, None, 0, None)
raw("swapon", b"/probe", 0)


# --- processes and rights -----------------------------------------------------------------------------


@python
def fork() -> None:
    if os.fork() == 0:
        os._exit(0)


@python
def run_program() -> None:
    subprocess.run(["/bin/true"], check=True)


@python
def spawn_program() -> None:
    os.posix_spawn("/bin/true", ["true"], {})


@python
def run_memory_file() -> None:
    fd = os.memfd_create("program")
    os.execv(f"/proc/self/fd/{fd}", ["program"])


@python
def raise_memory_limit() -> None:
    raise_limit(resource.RLIMIT_AS)


@python
def raise_file_limit() -> None:
    raise_limit(resource.RLIMIT_NOFILE)


@python
def raise_file_size_limit() -> None:
    raise_limit(resource.RLIMIT_FSIZE)


def raise_limit(what: int) -> None:
    try:
        _, hard = resource.getrlimit(what)
        if hard == resource.RLIM_INFINITY:
            return
        resource.setrlimit(what, (hard + 4096, hard + 4096))
    except ValueError as error:
        raise PermissionError(errno.EPERM, str(error)) from None


@python
def limit_the_worker() -> None:
    resource.prlimit(FACTS["worker"], resource.RLIMIT_NOFILE, (4, 4))


WORKER: int = FACTS["worker"]
raw("fork")
raw("vfork")
raw("clone as fork", 17, 0, 0, 0, 0, call="clone")
raw("clone in a namespace", 0x10000000 | 17, 0, 0, 0, 0, call="clone")
raw("clone for the parent", 0x8000 | 17, 0, 0, 0, 0, call="clone")
raw("clone3", struct.pack("QQQQQQQQ", 0, 0, 0, 0, 17, 0, 0, 0), 64)
raw("execveat", AT_FDCWD, b"/bin/true", None, None, 0)
raw("execve", b"/bin/true", None, None)
raw("kill", WORKER, 0)
raw("kill everything", -1, 0, call="kill")
raw("kill init", 1, 0, call="kill")
raw("tkill", WORKER, 0)
raw("tgkill", WORKER, WORKER, 0)
raw("rt_sigqueueinfo", WORKER, 0, ctypes.create_string_buffer(128))
raw("rt_tgsigqueueinfo", WORKER, WORKER, 0, ctypes.create_string_buffer(128))
raw("pidfd_open", 1, 0)
raw("pidfd_send_signal", 0, 0, None, 0)
raw("pidfd_getfd", 0, 0, 0)
raw("ptrace itself", 0, 0, 0, 0, call="ptrace")
raw("ptrace the worker", 0x4206, WORKER, 0, 0, call="ptrace")
raw("process_vm_readv", WORKER, None, 0, None, 0, 0)
raw("process_vm_writev", WORKER, None, 0, None, 0, 0)
raw("signals of a descriptor", 0, 8, WORKER, call="fcntl")  # F_SETOWN
raw("be dumpable", 4, 1, 0, 0, 0, call="prctl")
raw("outlive the parent", 1, 0, 0, 0, 0, call="prctl")
raw("limit of the worker", WORKER, 7, None, ctypes.create_string_buffer(16), call="prlimit64")
raw("raise a limit", 0, 9, struct.pack("QQ", 1 << 62, 1 << 62), None, call="prlimit64")
raw("bpf", 0, None, 0)
raw("perf_event_open", ctypes.create_string_buffer(128), 0, -1, -1, 0)
raw("userfaultfd", 0)
raw("keyctl", 0, -3, 0)
raw("add_key", b"user", b"probe", b"x", 1, -2)
raw("mount", b"none", b"/mnt", b"tmpfs", 0, None)
raw("move_mount", 0, b"", 0, b"", 0)
raw("open_tree", AT_FDCWD, b"/", 0)
raw("pivot_root", b"/", b"/")
raw("unshare", 0x10000000)
raw("setns", 0, 0)
raw("setuid", 0)
raw("capset", struct.pack("=Ii", 0x20080522, 0), b"\xff" * 24)
raw("personality", 0x0040000)
raw("kexec_load", 0, 0, None, 0)
raw("init_module", None, 0, b"")
raw("finit_module", 0, b"", 0)
raw("reboot", 0, 0, 0, None)
raw("syslog", 10, None, 0)
raw("setpriority", 0, WORKER, 0)
raw("sched_setaffinity", WORKER, 8, b"\1" + bytes(7))
raw("setsid")
raw("x32 getpid")


def run_probes(without: frozenset[str] = frozenset()) -> dict[str, str]:
    """Run all probes, or those that `probes.json` names; return the outcome of each."""
    return {
        f"{way}: {name}": outcome(probe)
        for way, probes in (("python", PYTHON), ("raw", RAW))
        for name, probe in probes.items()
        if name not in without and (not FACTS["only"] or name in FACTS["only"])
    }


def outcome(probe: Callable[[], object]) -> str:
    try:
        return f"SUCCEEDED: {probe()!r}"
    except OSError as error:
        if error.errno in REFUSED or (isinstance(error, PermissionError) and error.errno is None):
            return "refused"
        return f"failed: {error!r}"
    except Exception as error:
        return f"failed: {error!r}"


AT_IMPORT = run_probes(IN_FORK_SERVER)
spider = shoal.Spider("probing", start="http://a.test/")


@spider.page(r"/probes")
def probes(page: shoal.Page) -> Iterator[dict[str, Any]]:
    yield {"import": AT_IMPORT, "page": run_probes()}


@spider.page(r"/i386")
def i386(page: shoal.Page) -> Iterator[dict[str, Any]]:
    """Make a system call of another architecture, whose numbers mean other calls: getpid of i386."""
    if not X86:
        os.kill(os.getpid(), signal.SIGSYS)
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    yield {"i386": function()}
