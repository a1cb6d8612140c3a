"""Processes that this one starts and that never outlive it, however it ends."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from shoal.parse.sandbox.confine import die_with

STOP_GRACE_S = 10.0  # between SIGTERM and SIGKILL


class ChildProcess:
    """A child in a separate session: Ctrl-C at the terminal does not reach it, we forward it."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
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
    with Path.open(log, "ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            start_new_session=True,
            preexec_fn=partial(die_with, os.getpid()),  # it dies with this process, however that ends
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
