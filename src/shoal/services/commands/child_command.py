"""Run a command of Shoal in a child process: what takes long or needs much memory does not slow its caller.

The address of the store is passed in the environment: a process list must not show a password. The child ends
with its parent.
"""

import asyncio
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from shoal.child_process import die_with_parent
from shoal.model.errors import Interrupted, Misconfigured, ShoalError, Unavailable
from shoal.model.printable import printable
from shoal.model.settings import Settings

MAX_OUTPUT_BYTES = 4 << 20
MAX_ERROR_BYTES = 64 * 1024
PIPE_BYTES = 64 * 1024  # read at once
STOP_GRACE_S = 30.0
_UNAVAILABLE, _INTERRUPTED = 4, 3


@dataclass(frozen=True, slots=True)
class CommandResult:
    code: int
    output: bytes
    message: str  # the last line that was printed as an error

    def check(self, *accepted: int) -> "CommandResult":
        """Return the result if its exit code is 0 or accepted, else raise what the command reported."""
        if self.code in (0, *accepted):
            return self
        raise self.error()

    def error(self) -> ShoalError:
        message = self.message.removeprefix("shoal: ") or f"the command failed with exit code {self.code}"
        if self.code == _UNAVAILABLE:
            return Unavailable(message)
        if self.code == _INTERRUPTED or self.code < 0:
            return Interrupted(message)
        return Misconfigured(message)


async def spawn_command(
    arguments: Sequence[str],
    *,
    dsn: str,
    folder: str = "",
    output: int = asyncio.subprocess.DEVNULL,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> asyncio.subprocess.Process:
    """Start `shoal ARGUMENTS` in a folder; its errors are read from a pipe.

    `settings` are variables of its environment. Raises `Misconfigured` for arguments that no command can
    have, and `Unavailable` if this machine can start no process now.
    """
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "shoal", *arguments),
            cwd=folder if folder and Path(folder).is_dir() else None,  # noqa: ASYNC240 - microseconds
            env={**os.environ, **settings, "SHOAL_STORE": absolute(dsn)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
    except ValueError:
        raise Misconfigured(f"shoal {arguments[0]}: an argument has a NUL character") from None
    except OSError as error:
        family = Misconfigured if error.errno == errno.E2BIG else Unavailable
        raise family(f"shoal {arguments[0]} cannot be started: {error.strerror}") from None


def operator_options(settings: Settings, config: str | None) -> list[str]:
    """Return the options of every crawl command that a process starts: it may do what its operator allows."""
    found = ["--allow-private"] if settings.crawl.allow_private else []
    return [*found, f"--config={Path(config).absolute()}"] if config else found


def absolute(dsn: str) -> str:
    """Return an address that means the same store in every folder."""
    return dsn if "://" in dsn else os.path.abspath(dsn)


async def run_command(
    arguments: Sequence[str], *, dsn: str, folder: str = "", timeout_s: float
) -> CommandResult:
    """Run a command to its end; end it after `timeout_s` seconds, and raise `Unavailable` then."""
    process = await spawn_command(arguments, dsn=dsn, folder=folder, output=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(timeout_s):
            return await wait_for_end(process)
    except TimeoutError:
        raise Unavailable(f"shoal {arguments[0]} took longer than {timeout_s:g} seconds") from None
    finally:
        await end_command(process)


async def wait_for_end(process: asyncio.subprocess.Process) -> CommandResult:
    """Read what a command prints until it has ended. A crawl may log for weeks: only the end is kept."""
    async with asyncio.TaskGroup() as group:
        output = group.create_task(_read_first(process.stdout), name="command.output")
        errors = group.create_task(_read_last(process.stderr), name="command.errors")
        code = await process.wait()
    return CommandResult(code, output.result(), last_line(errors.result()))


async def _read_first(stream: asyncio.StreamReader | None) -> bytes:
    """Read a stream to its end; return the first `MAX_OUTPUT_BYTES` of it."""
    kept = b""
    while stream is not None and (part := await stream.read(PIPE_BYTES)):
        kept += part[: MAX_OUTPUT_BYTES - len(kept)]
    return kept


async def _read_last(stream: asyncio.StreamReader | None) -> bytes:
    """Read a stream to its end; return the last `MAX_ERROR_BYTES` of it."""
    kept = b""
    while stream is not None and (part := await stream.read(PIPE_BYTES)):
        kept = (kept + part)[-MAX_ERROR_BYTES:]
    return kept


async def end_command(process: asyncio.subprocess.Process, *, grace_s: float = STOP_GRACE_S) -> None:
    """End a command if it still runs: first so that it finishes what it does, then at once."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(grace_s):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def last_line(errors: bytes) -> str:
    lines = errors.decode(errors="replace").strip().splitlines()
    return printable(lines[-1], limit=500) if lines else ""
