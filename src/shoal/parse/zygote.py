"""The zygote, a fork server: it loads the spider once, then forks children within milliseconds.

`ForkServerClient` runs it as `python -m shoal.parse.zygote FD TOKEN`, where FD is one end of a socket pair.
It has one thread, so that forking is safe. It is sandboxed before it runs user code, and every child inherits
the sandbox; a spider is imported here and nowhere else. It exits, and all children with it, when the pool
closes the connection or dies.
"""

import gc

if __name__ == "__main__":  # what is imported stays, and looking at it takes a fifth of the start
    gc.disable()

import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from typing import cast

# Imported for the children: they share the memory, and need not load it after the fork.
import selectolax.lexbor  # noqa: F401

from shoal.child_process import die_with_parent
from shoal.model.errors import ShoalError
from shoal.model.limits import MIB
from shoal.model.page import ParseResult, ParseTask
from shoal.model.sandbox import SandboxMode
from shoal.model.scope import Scope
from shoal.parse import child, spider_log
from shoal.parse.frames import FrameType, checksummed_frame, receive
from shoal.parse.messages import (
    ChildExited,
    Fork,
    Forked,
    FromPool,
    FromZygote,
    Ready,
    Sandboxed,
    SpiderLoadFailed,
    Start,
    decode_from_pool,
    encode,
)
from shoal.parse.sandbox import confine, guarantees, limits
from shoal.parse.sandbox.guarantees import Guarantee
from shoal.parse.sandbox.readable import readable_paths
from shoal.spider.run import run
from shoal.spider.source import PlainSpider, SpiderFile, describe, load

IMPORT_MEMORY_BYTES = 2048 * MIB  # tables and models are loaded at import, once


def main() -> None:
    """Serve the pool at the other end of the socket until it closes the connection."""
    parent = os.getppid()
    # Printed lines must not stay in a buffer: children would inherit it, and lose it when they die. Nor may
    # they be written in parts, as on standard error by default: lines of two children would mix.
    for stream in (sys.stdout, sys.stderr):
        cast(TextIOWrapper, stream).reconfigure(line_buffering=True, write_through=False)
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    zygote = Zygote(control, int(sys.argv[2]))
    status = 1
    try:
        message, _ = zygote.receive()
        if isinstance(message, Start) and zygote.load(message, parent):
            zygote.serve()
        status = 0
    except ConnectionError:
        status = 0  # the pool closed the connection while a message was being sent
    except BaseException:
        traceback.print_exc()
    finally:
        zygote.end_children()
        os._exit(status)  # without the spider's exit hooks and threads


class Zygote:
    def __init__(self, control: socket.socket, token: int) -> None:
        self._control = control
        self._token = token
        self._pids: dict[int, int] = {}  # child number -> pid
        self._children: dict[int, int] = {}  # pidfd -> child number
        self._namespace: int | None = None  # descriptor that ends the PID namespace of the children
        self._held: frozenset[str] = frozenset()
        self._forbid_in_child: Callable[[Callable[[], None]], None] | None = None

    def receive(self) -> tuple[FromPool | None, int | None]:
        """Wait for a message from the pool; return it with its socket, or None if the pool has closed."""
        received = receive(self._control, self._token)
        if received is None:
            return None, None
        _, payload, fd = received
        return decode_from_pool(payload), fd

    def send(self, message: FromZygote, fd: int | None = None) -> None:
        frame = checksummed_frame(self._token, FrameType.CONTROL, encode(message))
        if fd is None:
            self._control.sendall(frame)
        else:
            socket.send_fds(self._control, [frame], [fd])

    def load(self, start: Start, parent: int) -> bool:
        """Sandbox this process, import the spider and report the result; return whether it was loaded."""
        if not isinstance(start.source, PlainSpider):
            # For the children, too. Without code there is no XPath: a child that meets XML loads it then.
            import lxml.html  # noqa: F401
        gc.enable()
        sys.path[:] = start.path
        spider_log.install(start.log_level)
        self._memory = limits.MemoryMeter()
        self._held = self._enter_sandbox(start, parent)
        if start.sandbox.mode is SandboxMode.REQUIRE and (reason := guarantees.refusal(self._held)):
            self.send(SpiderLoadFailed(reason))
            return False
        self.send(Sandboxed(tuple(sorted(self._held))))
        try:
            self._spider = load(start.source)
            ready = Ready(describe(self._spider))
        except BaseException as error:  # SystemExit too: user code may raise anything
            known = isinstance(error, ShoalError)
            self.send(
                SpiderLoadFailed(str(error) if known else f"{start.where}: {type(error).__name__}: {error}")
            )
            return False
        self._limits = start.limits
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a spider may ignore it, but children must be reaped
        gc.collect()
        gc.freeze()  # otherwise the first collection in each child copies every memory page with an object
        self.send(ready)
        return True

    def _enter_sandbox(self, start: Start, parent: int) -> frozenset[str]:
        """Limit this process and take its rights away; return the guarantees that hold."""
        spider = start.source.path if isinstance(start.source, SpiderFile) else None
        rules, sandboxed = start.sandbox, start.sandbox.mode is not SandboxMode.OFF
        readable = readable_paths(spider, import_path=start.path, given=rules.readable, private=rules.private)
        needed = [os.getcwd(), *start.path, *([spider] if spider else [])]
        held: set[Guarantee] = set()
        if sandboxed:
            held |= confine.isolate([path for path in needed if os.path.exists(path)])
            if Guarantee.NAMESPACES in held:
                self._namespace = confine.start_init_process()
        die_with_parent(parent)
        # Enough for the import, and for a page in a child after that. Children set lower limits.
        page = start.limits.memory_bytes
        limits.limit_memory(self._memory.bytes_in_use() + max(IMPORT_MEMORY_BYTES, 4 * page) + page)
        if sandboxed:
            limits.limit_writing()
            held |= confine.restrict(readable)
            self._forbid_in_child = confine.install_audit_hook()
        return frozenset(held)

    def serve(self) -> None:
        """Fork, kill and reap children until the pool closes the connection."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd in self._children:
                    poll.unregister(fd)
                    self.send(self._reap(fd))
                    continue
                message, passed = self.receive()
                match message:
                    case Fork() if passed is not None:
                        poll.register(self._fork(message, socket.socket(fileno=passed)), select.POLLIN)
                    case None:
                        return

    def end_children(self) -> None:
        """End the namespace of the children; without one, they end with this process (`die_with_parent`)."""
        if self._namespace is not None:
            os.close(self._namespace)
            with suppress(ChildProcessError):
                while True:
                    os.wait()

    def _fork(self, fork: Fork, sock: socket.socket) -> int:
        zygote = os.getpid()
        in_use = self._memory.bytes_in_use()
        pid = os.fork()
        if pid == 0:
            die_with_parent(zygote)
            rights = child.Rights(self._limits, self._held, in_use, self._forbid_in_child)
            child.main(sock, fork.token, self._parse, rights)
        sock.close()
        pidfd = os.pidfd_open(pid)
        self._pids[fork.child] = pid
        self._children[pidfd] = fork.child
        self.send(Forked(fork.child), pidfd)
        return pidfd

    def _reap(self, pidfd: int) -> ChildExited:
        number = self._children.pop(pidfd)
        os.close(pidfd)
        _, status, used = os.wait4(self._pids.pop(number), 0)
        return ChildExited(number, os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime)

    def _parse(self, task: ParseTask, scope: Scope) -> ParseResult:
        return run(self._spider, task, scope=scope, limits=self._limits)


if __name__ == "__main__":
    main()
