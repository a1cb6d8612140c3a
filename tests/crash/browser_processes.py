"""The processes of a crawl that renders, found from outside by the folder for temporary files that they were given."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ENDED_S = 60.0  # within which everything has ended, on a busy machine


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    session: int
    command: str


def processes(profiles: Path) -> list[Process]:
    """Return the processes that have not ended, with their descendants: of browsers, their launchers and workers.

    `profiles` is the TMPDIR of a worker. Its browsers have a home there. Renderers overwrite their environment;
    they have the session of their launcher.
    """
    marks = (f"HOME={profiles}/".encode(), f"TMPDIR={profiles}\0".encode())
    found = list(_all_processes())
    ours = {one.session for one in found if any(mark in _environment(one.pid) for mark in marks)}
    ours.discard(os.getsid(0))  # commands that the test itself runs
    return [one for one in found if one.session in ours]


def _all_processes() -> Iterator[Process]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            _, parent, _, session = (folder / "stat").read_text().rpartition(") ")[2].split()[:4]
            command = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            continue
        yield Process(int(folder.name), int(parent), int(session), command)


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes() + b"\0"
    except OSError:
        return b""


def renderers(profiles: Path) -> list[int]:
    return [one.pid for one in processes(profiles) if " --type=renderer" in one.command]


def browsers(profiles: Path) -> list[int]:
    """Return the main processes of browsers: the children of launchers."""
    return [
        one.pid
        for one in processes(profiles)
        if one.parent == one.session and "--remote-debugging-pipe" in one.command and "--type=" not in one.command
    ]  # fmt: skip


def left_behind(profiles: Path) -> list[object]:
    """Return the processes and the profiles of browsers that are still there."""
    return [*processes(profiles), *profiles.glob("shoal-browser-*")]


async def until_ended(profiles: Path) -> None:
    """Wait until nothing is left behind; raise `AssertionError` with what is."""
    try:
        async with asyncio.timeout(ENDED_S):
            while left_behind(profiles):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"left behind: {left_behind(profiles)}") from None
