"""Read the log files of other processes while they write them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

LOOK_EVERY_S = 0.25
MAX_BYTES = 1 << 20  # of one file that are read at a time


class LogFollower:
    """Reads the complete lines that were added to a file since it was opened here."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = path.stat().st_size if path.exists() else 0
        self._rest = b""

    def lines(self) -> list[str]:
        """Return the lines that were added since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            added = file.read(MAX_BYTES)
        self._position += len(added)
        *lines, self._rest = (self._rest + added).split(b"\n")
        if len(self._rest) > MAX_BYTES:
            lines, self._rest = [*lines, self._rest], b""
        return [line.decode("utf-8", "replace") for line in lines]


@asynccontextmanager
async def follow_logs(paths: Sequence[Path], follow: Callable[[str], None] | None) -> AsyncIterator[None]:
    """Call `follow` with each line that is added to the files while the block runs; None: read nothing."""
    if follow is None:
        yield
        return
    followers = [LogFollower(path) for path in paths]

    def pass_on() -> None:
        for follower in followers:
            for line in follower.lines():
                follow(line)

    async def run() -> None:
        while True:
            pass_on()
            await asyncio.sleep(LOOK_EVERY_S)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run(), name="fleet.logs")
        yield
        task.cancel()
    pass_on()
