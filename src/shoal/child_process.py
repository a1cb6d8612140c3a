"""Processes that this one starts and that never outlive it, however it ends."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from shoal.parse.sandbox.confine import die_with

GRACE = 10.0  # seconds from asking a process to end to ending it


class ChildProcess:
    """A process at our side. It has a session of its own: Ctrl-C at the terminal is ours to pass on."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
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
    with Path.open(log, "ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            start_new_session=True,
            preexec_fn=partial(die_with, os.getpid()),  # whatever becomes of us, it goes along
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
