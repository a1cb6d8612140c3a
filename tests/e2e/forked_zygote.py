"""The zygote of a command's parse pool, forked from the command instead of started as an interpreter.

Starting one takes 0.14 seconds of CPU time, nearly all of it imports, and more with lxml: half of what a small crawl takes.
What a new process would have, this one has, too: descriptors, environment, session, signals and standard streams,
and the sandbox that it enters by itself. `tests/crash/test_parse.py`, `tests/adversary/test_sandbox.py` and the tests that run an
interpreter with `SHOAL` start zygotes as users do.
"""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress

from shoal.parse import zygote
from shoal.parse.fork_server_client import ForkServerClient


class ForkedZygote:
    """A forked zygote, with the methods of `subprocess.Popen` that its client calls."""

    def __init__(self, control: int, printing: int, token: int, environment: Mapping[str, str]) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _become_zygote(control, printing, environment)
                sys.argv = ["zygote", str(control), str(token)]
                sys.modules["__main__"] = zygote
                zygote.main()  # never returns
            finally:
                os._exit(1)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def fork_zygotes() -> None:
    """Have the parse pools of this process fork their zygotes."""

    def spawn(client: ForkServerClient, control: int, printing: int) -> ForkedZygote:
        return ForkedZygote(control, printing, client._token, client._environment)

    ForkServerClient._spawn = spawn  # type: ignore[method-assign,assignment]


def _become_zygote(control: int, printing: int, environment: Mapping[str, str]) -> None:
    gc.freeze()  # an object of the command that is collected would close a descriptor that is another one here
    signal.set_wakeup_fd(-1)
    for number in set(signal.valid_signals()) - {signal.SIGPIPE, signal.SIGINT}:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asyncio.events._set_running_loop(None)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for stream, descriptor in enumerate((nothing, printing, printing)):
        os.dup2(descriptor, stream)
    # Replaced and not closed: libuv closes two of these numbers in each child that is forked from here on.
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in (control, nothing):
            os.dup2(nothing, int(name), inheritable=False)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
