"""What a fleet promises of its outputs when the store forgets: servers that are killed, disks that lag."""

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.contract.frontiers import UNLIMITED, link, page
from tests.contract.writing import WriterProcess, eventually, numbers_in
from tests.servers.redis import RedisServer, redis7, valkey

from shoal.frontier.redis import RedisFrontier
from shoal.model.outcome import Done, Lease, Settlement
from shoal.model.page import Item
from shoal.sinks.writer import item_streams
from shoal.stores.redis import RedisStore

TERM = 15.0  # seconds, as in a real fleet: nobody else takes over, and nothing is read again for that reason
EVERYSEC = ("--appendonly", "yes", "--appendfsync", "everysec")
# One that cannot see how the log is kept.
BLIND = ("--user", "blind", "on", ">x", "~*", "+@all", "-config")


@dataclass
class Bench:
    """A store whose disk can be made to lag, a crawl of 30 pages, and a file for its items."""

    server: RedisServer
    folder: Path  # of the server
    dsn: str
    store: RedisStore
    frontier: RedisFrontier
    number: int  # of the crawl
    out: Path
    on_disk: int = 0  # bytes of the log
    writers: list[WriterProcess] = field(default_factory=list)

    @property
    def _log(self) -> Path:
        [log] = self.folder.glob("appendonlydir/*.incr.aof")
        return log

    async def writer(self) -> WriterProcess:
        writer = await WriterProcess.start(self.dsn, self.number, str(self.out), "w", term=TERM)
        self.writers.append(writer)
        return writer

    async def crawl(self, pages: int) -> None:
        """Fetch up to so many pages; each is settled in one step with the item that it brought."""
        while pages and (grant := await self.frontier.lease(holder="w", limit=pages, ttl=60.0)).leases:
            await self.frontier.settle([_settled(lease) for lease in grant.leases])
            pages -= len(grant.leases)

    async def let_the_disk_lag(self) -> None:
        """From now on the server writes its log, and nothing of that reaches the disk."""
        await self.server.ask("CONFIG", "SET", "appendfsync", "no")
        self.on_disk = self._log.stat().st_size

    async def cut_the_power(self) -> None:
        """End the server; what was not on disk is gone when it starts again."""
        self.server.kill()
        with self._log.open("r+b") as log:
            log.truncate(self.on_disk)
        await self.server.begin()

    async def has(self, count: int) -> None:
        async def is_so() -> bool:
            return self.out.exists() and len(numbers_in(self.out)) == count

        await eventually(is_so)

    async def is_all_written(self) -> None:
        async def is_so() -> bool:
            return await item_streams(self.store, self.number).length() == 0

        await eventually(is_so)

    async def waits_for_the_disk(self) -> None:
        """Return when the server was asked once more what is on disk."""
        before = await self._asked()

        async def is_so() -> bool:
            return await self._asked() != before

        await eventually(is_so)

    async def _asked(self) -> str:
        return (await self.server.info()).get("cmdstat_waitaof", "")


def _settled(lease: Lease) -> Settlement:
    number = int(lease.request.url.rpartition("/")[2])
    return Settlement(lease, Done(page(1)), items=[Item(f"key-{number}", json.dumps({"n": number}).encode())])


@asynccontextmanager
async def bench_on(server: RedisServer, folder: Path, *, login: str = "") -> AsyncIterator[Bench]:
    dsn = f"redis://{login}127.0.0.1:{server.port}"
    async with RedisStore.open(dsn) as store:
        frontier = RedisFrontier(store)
        await frontier.open_crawl("c", pace=UNLIMITED)
        await frontier.add("c", [link(str(n), host=f"{n}.test") for n in range(30)])
        number = await frontier.number("c")
        bench = Bench(server, folder, dsn, store, frontier, number, folder.with_name("out.jsonl"))
        try:
            yield bench
        finally:
            for writer in bench.writers:
                await writer.kill()


async def test_an_output_neither_lacks_nor_repeats_what_a_server_forgot(tmp_path: Path) -> None:
    folder = tmp_path / "valkey"
    async with valkey(folder, *EVERYSEC) as server, bench_on(server, folder) as bench:
        writer = await bench.writer()
        await bench.crawl(10)
        await bench.has(10)
        await bench.let_the_disk_lag()
        await bench.crawl(10)
        await bench.waits_for_the_disk()
        assert len(numbers_in(bench.out)) == 10
        # Stopped, so that the pages are settled again before it asks again: what it read is not there any more.
        writer.process.send_signal(signal.SIGSTOP)
        await bench.cut_the_power()
        await bench.crawl(30)  # ten that were forgotten, and ten more
        writer.process.send_signal(signal.SIGCONT)
        await bench.is_all_written()
        await writer.end()

    assert sorted(numbers_in(bench.out)) == list(range(30))


async def test_where_a_server_cannot_say_what_is_on_disk_a_file_repeats_what_it_forgot(
    tmp_path: Path,
) -> None:
    """Not wanted, but known: Redis 7.0 has no WAITAOF. It shows that the test above can fail."""
    folder = tmp_path / "redis"
    async with redis7(folder, *EVERYSEC) as server, bench_on(server, folder) as bench:
        writer = await bench.writer()
        await bench.crawl(10)
        await bench.has(10)
        await bench.let_the_disk_lag()
        await bench.crawl(10)
        await bench.has(20)
        await bench.cut_the_power()
        await bench.crawl(30)
        await bench.is_all_written()
        await writer.end()

    assert len(numbers_in(bench.out)) == 40
    assert set(numbers_in(bench.out)) == set(range(30))


async def test_a_file_is_begun_when_the_store_cannot_forget_that_it_is_the_crawls_own(tmp_path: Path) -> None:
    folder = tmp_path / "valkey"
    async with valkey(folder, *EVERYSEC, *BLIND) as server:
        async with bench_on(server, folder, login="blind:x@") as bench:
            await bench.let_the_disk_lag()
            writer = await bench.writer()
            await bench.waits_for_the_disk()
            assert not bench.out.exists()
            await bench.cut_the_power()
            await bench.crawl(30)
            await bench.is_all_written()
            await writer.end()

    assert sorted(numbers_in(bench.out)) == list(range(30))
