"""The zygote: loads the spider once, then forks children that have it loaded, each within milliseconds.

Run by `nursery` as `python -m shoal.parse.zygote FD TOKEN`, FD being one end of a socket pair. One thread, so
that forking is sound. It is shut in before it touches user code, and everything it forks inherits that; what
a spider does at import happens here and nowhere else. It ends, and all children with it, when the pool hangs
up or dies.
"""

import gc
import os
import select
import signal
import socket
import sys
import traceback
from io import TextIOWrapper
from typing import cast

# Imported for the children: shared pages, and nothing to load after the fork.
import lxml.html  # noqa: F401
import selectolax.lexbor  # noqa: F401

from shoal.child_process import die_with_parent
from shoal.model.errors import ShoalError
from shoal.model.page import ParseResult, ParseTask
from shoal.model.scope import Scope
from shoal.parse import child
from shoal.parse.frames import FrameKind, checked, receive
from shoal.parse.messages import (
    Exited,
    Fork,
    FromPool,
    FromZygote,
    Kill,
    Ready,
    SpiderRefused,
    Start,
    decode_from_pool,
    encode,
)
from shoal.parse.sandbox import confine
from shoal.spider.run import run
from shoal.spider.source import SpiderFile, describe, load

IMPORT_MEMORY = 4  # times what a page may take: tables and models are loaded at import, once for all children


def main() -> None:
    """Serve the pool at the other end of the socket until it hangs up."""
    parent = os.getppid()
    # Printed lines must not wait in a buffer: children would inherit it, and take it with them when they die.
    # Nor may they come in pieces, as on standard error: those of two children would mix.
    for stream in (sys.stdout, sys.stderr):
        cast(TextIOWrapper, stream).reconfigure(line_buffering=True, write_through=False)
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    zygote = Zygote(control, int(sys.argv[2]))
    status = 1
    try:
        message, _ = zygote.hear()
        if isinstance(message, Start) and zygote.load(message, parent):
            zygote.serve()
        status = 0
    except ConnectionError:
        status = 0  # the pool has hung up while something was on its way
    except BaseException:
        traceback.print_exc()
    finally:
        zygote.end_children()
        os._exit(status)  # the spider's exit hooks and threads have no say in this


class Zygote:
    def __init__(self, control: socket.socket, token: int) -> None:
        self._control = control
        self._token = token
        self._pids: dict[int, int] = {}  # by child; 0 is the one that holds their namespace
        self._children: dict[int, int] = {}  # by pidfd

    def hear(self) -> tuple[FromPool | None, int | None]:
        """Wait for a message of the pool and the socket that came with it; None: it has hung up."""
        received = receive(self._control, self._token)
        if received is None:
            return None, None
        _, payload, fd = received
        return decode_from_pool(payload), fd

    def say(self, message: FromZygote) -> None:
        self._control.sendall(checked(self._token, FrameKind.CONTROL, encode(message)))

    def load(self, start: Start, parent: int) -> bool:
        """Shut this process in, then import the spider; say what came of it."""
        sys.path[:] = start.path
        needed = [os.getcwd(), *start.path]
        if isinstance(start.source, SpiderFile):
            needed.append(start.source.path)
        measures = confine.isolate([path for path in needed if os.path.exists(path)])
        if "processes" in measures:
            self._pids[0] = confine.found()
        die_with_parent(parent)
        confine.limit_memory(IMPORT_MEMORY * start.limits.memory_bytes)
        try:
            self._spider = load(start.source)
            ready = Ready(describe(self._spider), tuple(sorted(measures)))
        except BaseException as error:  # SystemExit too: this is user code, it may raise anything
            known = isinstance(error, ShoalError)
            self.say(
                SpiderRefused(str(error) if known else f"{start.where}: {type(error).__name__}: {error}")
            )
            return False
        self._limits = start.limits
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # children must stay to be waited for
        gc.collect()
        gc.freeze()  # or the first collection in each child copies every page that holds an object
        self.say(ready)
        return True

    def serve(self) -> None:
        """Fork, kill and bury children until the pool hangs up."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd in self._children:
                    poll.unregister(fd)
                    self.say(self._bury(fd))
                    continue
                message, passed = self.hear()
                match message:
                    case Fork() if passed is not None:
                        poll.register(self._fork(message, socket.socket(fileno=passed)), select.POLLIN)
                    case Kill(number) if number in self._pids:
                        os.kill(self._pids[number], signal.SIGKILL)
                    case None:
                        return

    def end_children(self) -> None:
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
        # The namespace last: it is not gone before all who lived in it have been waited for.
        for pid in reversed(self._pids.values()):
            os.waitpid(pid, 0)

    def _fork(self, fork: Fork, sock: socket.socket) -> int:
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            die_with_parent(zygote)
            child.main(sock, fork.token, self._parse, self._limits)
        sock.close()
        pidfd = os.pidfd_open(pid)
        self._pids[fork.child] = pid
        self._children[pidfd] = fork.child
        return pidfd

    def _bury(self, pidfd: int) -> Exited:
        number = self._children.pop(pidfd)
        os.close(pidfd)
        _, status, used = os.wait4(self._pids.pop(number), 0)
        return Exited(number, os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime)

    def _parse(self, task: ParseTask, scope: Scope) -> ParseResult:
        return run(self._spider, task, scope=scope, limits=self._limits)


if __name__ == "__main__":
    main()
