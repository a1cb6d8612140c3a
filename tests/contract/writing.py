"""Outputs of a fleet, as tests write and read them."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from shoal.redis_client import RedisClient, durability
from shoal.sinks.fleet.writer import OutputWriter, WriterOutput

TERM_S = 0.6  # short, so that the tests are fast
PATIENCE_S = 60.0  # for a machine that is busy with other things


def numbers_in(path: Path) -> list[int]:
    text = path.read_text()
    assert text == "" or text.endswith("\n")
    return [json.loads(line)["n"] for line in text.splitlines()]


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110 (another process changes it)
            await asyncio.sleep(0.02)


@asynccontextmanager
async def running(writer: OutputWriter) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.run(stop))
        try:
            yield
        finally:
            stop.set()


def writer_of(
    store: RedisClient,
    crawl: int,
    output: str,
    *others: str,
    holder: str = "w",
    node: str = "here",
    overwrite: bool = False,
    term_s: float = TERM_S,
) -> OutputWriter:
    described = WriterOutput(crawl, output, [output, *others], overwrite=overwrite)
    return OutputWriter(store, described, holder=holder, node=node, term_s=term_s)


class WriterProcess:
    """A process that writes the output."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(
        cls,
        dsn: str,
        crawl: int,
        output: str,
        holder: str,
        *,
        term_s: float = TERM_S,
        disk_wait_s: float = durability.WAIT_MS / 1000,
    ) -> "WriterProcess":
        """`disk_wait_s`: after which a server is asked again whether a write is on its disk."""
        numbers = (str(term_s), str(disk_wait_s))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.contract.writing", dsn, str(crawl), output, holder, *numbers),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        return cls(process)

    async def kill(self) -> None:
        with suppress(ProcessLookupError):  # it has ended
            self.process.kill()
        await self.process.wait()

    async def end(self) -> None:
        self.process.terminate()
        assert await self.process.wait() == 0


async def work(dsn: str, crawl: str, output: str, holder: str, term_s: str, disk_wait_s: str) -> None:
    durability.WAIT_MS = round(1000 * float(disk_wait_s))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with RedisClient.open(dsn) as store:
        print("ready", flush=True)
        await writer_of(store, int(crawl), output, holder=holder, term_s=float(term_s)).run(stop)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:7]))
