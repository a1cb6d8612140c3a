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

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

GRACE = 10.0  # seconds from asking a process to end to ending it


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent` dies.

    A later change of credentials cancels that: call this after it.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # 0: the parent is outside our PID namespace. Then the end of the namespace ends this process.
    if os.getppid() not in (parent, 0):
        os._exit(1)


class ChildProcess:
    """A process at our side. It has a session of its own: Ctrl-C at the terminal is ours to pass on."""

    def __init__(self, process: "asyncio.subprocess.Process", log: Path) -> None:
        self.log = log  # what it prints
        self._process = process

    @property
    def code(self) -> int | None:
        """Tell its exit code, negative for a signal; None: it runs."""
        return self._process.returncode

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait for its end."""
        return await self._process.wait()


@asynccontextmanager
async def run_child(
    command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
) -> AsyncIterator[ChildProcess]:
    """Run a program beside the block; after the block it is asked to end, and then made to."""
    import asyncio

    with Path.open(log, "ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            start_new_session=True,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
    beside = ChildProcess(process, log)
    try:
        yield beside
    finally:
        if beside.code is None:
            beside.signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(GRACE):
                    await beside.ended()
            except (TimeoutError, asyncio.CancelledError):
                beside.signal(signal.SIGKILL)
                await beside.ended()
