"""What heavy commands make, for programs that are elsewhere: items in a format, pages as WARC, reports.

They are made by the same commands as on the command line, in a child process and a temporary folder.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from shoal.model.errors import Misconfigured, Unavailable
from shoal.services.commands.child_command import MAX_OUTPUT_BYTES, CommandResult, run_command
from shoal.services.item_file import is_item_file, stored_length
from shoal.services.remote.items import find_output

PART_BYTES = 256 * 1024
EXPORT_TIMEOUT_S = 110.0
MAX_REPORT_BYTES = 32 << 20
NOT_VERIFIED, NO_CRAWL = 5, 7  # exit codes of shoal verify
AT_ONCE = 2  # exports: each is a process that reads everything
CONTENT_TYPES = {
    "jsonl": b"application/x-ndjson",
    "csv": b"text/csv; charset=utf-8",
    "sqlite": b"application/vnd.sqlite3",
    "parquet": b"application/vnd.apache.parquet",
    "warc.gz": b"application/warc",
}

Download = AbstractContextManager[AsyncIterator[bytes]]


async def open_download(
    dsn: str, crawl: str, form: str, room: asyncio.Semaphore, *, allowed: tuple[str, ...]
) -> Download:
    """Return the file in parts; raise before the first one if it cannot be made.

    `room`: for processes. `allowed`: what may be read of the outputs that a shared store names.
    """
    if form != "warc.gz":
        output = await find_output(dsn, crawl, allowed=allowed, every=True)
        if form == "jsonl" and is_item_file(output):
            return _reading(Path(output), stored_length(Path(output)), ExitStack())
    stack = ExitStack()
    try:
        folder = stack.enter_context(TemporaryDirectory(prefix="shoal-export-"))
        path = Path(folder, f"items.{form}")
        async with room:
            done = await run_command(
                ["export", f"--crawl={crawl}", f"--out={path}"], dsn=dsn, timeout_s=EXPORT_TIMEOUT_S
            )
        done.check()
        return _reading(path, stored_length(path), stack)
    except BaseException:
        stack.close()
        raise


@contextmanager
def _reading(path: Path, length: int, stack: ExitStack) -> Iterator[AsyncIterator[bytes]]:
    with stack:
        yield _parts(path, length)


async def _parts(path: Path, length: int) -> AsyncIterator[bytes]:
    at = 0
    while at < length:
        part = await asyncio.to_thread(_read, path, at, min(PART_BYTES, length - at))
        if not part:
            return
        at += len(part)
        yield part


def _read(path: Path, at: int, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(at)
            return file.read(size)
    except FileNotFoundError:
        return b""


async def open_report(dsn: str, crawl: str | None, room: asyncio.Semaphore) -> bytes:
    """Return the page of `shoal report`."""
    with TemporaryDirectory(prefix="shoal-report-") as folder:
        path = Path(folder, "report.html")
        chosen = [] if crawl is None else [f"--crawl={crawl}"]
        async with room:
            done = await run_command(
                ["report", f"--out={path}", *chosen], dsn=dsn, timeout_s=EXPORT_TIMEOUT_S
            )
        done.check()
        page = await asyncio.to_thread(path.read_bytes)
    if len(page) > MAX_REPORT_BYTES:
        raise Unavailable(f"the report has {len(page):,} bytes: write it with shoal report")
    return page


async def read_verification(
    dsn: str, crawl: str | None, room: asyncio.Semaphore, *, deep: bool
) -> tuple[bool, dict[str, Any]]:
    """Return whether a store is verified, and what `shoal verify --json` prints."""
    chosen = [*([] if crawl is None else [f"--crawl={crawl}"]), *(["--deep"] if deep else [])]
    done = await _print_json(["verify", *chosen], dsn, room, NOT_VERIFIED, NO_CRAWL)
    return done.code == 0, msgspec.json.decode(done.output, type=dict[str, Any])


async def read_plan(dsn: str, options: Mapping[str, object], room: asyncio.Semaphore) -> dict[str, Any]:
    """Return what `shoal plan --json` prints; `options` by the name of their flag."""
    chosen = [f"--{name}={value}" for name, value in options.items() if value is not None]
    done = await _print_json(["plan", *chosen], dsn, room)
    return msgspec.json.decode(done.output, type=dict[str, Any])


async def _print_json(command: list[str], dsn: str, room: asyncio.Semaphore, *accepted: int) -> CommandResult:
    """Run a command with --json; raise `Misconfigured` if it prints too much for an answer."""
    async with room:
        done = await run_command([command[0], "--json", *command[1:]], dsn=dsn, timeout_s=EXPORT_TIMEOUT_S)
    done.check(*accepted)
    if len(done.output) >= MAX_OUTPUT_BYTES:
        raise Misconfigured(
            f"the answer has more than {MAX_OUTPUT_BYTES:,} bytes: use shoal {command[0]} beside the store"
        )
    return done


async def read_diff(
    dsn: str, crawl: str, before: int | None, after: int | None, room: asyncio.Semaphore
) -> dict[str, Any]:
    """Return what `shoal diff --json` prints; raise `Misconfigured` if it is too long for an answer."""
    generations = {"from": before, "to": after}
    chosen = [f"--{flag}={number}" for flag, number in generations.items() if number is not None]
    done = await _print_json(["diff", *chosen, "--", crawl], dsn, room)
    return msgspec.json.decode(done.output, type=dict[str, Any])
