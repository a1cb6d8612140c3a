"""Child processes that never outlive this one, however it ends.

asyncio is imported late: the fork server of the parse pool needs `die_with_parent` alone, and every parse
child would inherit the rest.
"""

import ctypes
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_libc = ctypes.CDLL(None, use_errno=True)

STOP_GRACE_S = 10.0  # between SIGTERM and SIGKILL


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent` dies.

    A later change of credentials cancels that: call this after it.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # 0: the parent is outside our PID namespace. Then the end of the namespace ends this process.
    if os.getppid() not in (parent, 0):
        os._exit(1)


def hide_from_same_user() -> None:
    """Keep other processes of this user from reading the memory and the environment of this one."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


class ChildProcess:
    """A child in a separate session: Ctrl-C at the terminal does not reach it, we forward it."""

    def __init__(self, process: "asyncio.subprocess.Process", log: Path) -> None:
        self.log = log  # what it prints
        self._process = process

    @property
    def code(self) -> int | None:
        """Return the exit code, negative for a signal; None: it still runs."""
        return self._process.returncode

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait until it ends; return its exit code."""
        return await self._process.wait()


@asynccontextmanager
async def run_child(
    command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
) -> AsyncIterator[ChildProcess]:
    """Run a program for as long as the block; afterwards stop it with SIGTERM, then SIGKILL."""
    import asyncio

    with Path.open(log, "ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            start_new_session=True,
            preexec_fn=partial(die_with_parent, os.getpid()),  # it dies with this process, however that ends
        )
    child = ChildProcess(process, log)
    try:
        yield child
    finally:
        if child.code is None:
            child.signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_GRACE_S):
                    await child.ended()
            except (TimeoutError, asyncio.CancelledError):
                child.signal(signal.SIGKILL)
                await child.ended()
