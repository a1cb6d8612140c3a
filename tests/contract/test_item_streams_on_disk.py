"""The guarantee of a fleet's outputs when the store loses data: servers that are killed, disks that lag.

On one server, with sentinels and in a cluster. The servers are Valkey where WAITAOF is needed.
"""

import json
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.contract.writing import WriterProcess, eventually, numbers_in
from tests.servers.power import LaggingDisk
from tests.servers.redis import RedisServer, cluster, redis7, sentinels, valkey, valkey_program

from shoal.frontier.redis import RedisFrontier
from shoal.model.outcome import Done, Lease, Settlement
from shoal.model.page import Item
from shoal.redis_client import RedisClient
from shoal.sinks.fleet.writer import item_streams
from shoal.testing.contracts.frontier import UNLIMITED, link, page

TERM_S = 15.0  # as in a real fleet: no other writer is elected, and nothing is read again for that reason
DISK_WAIT_S = (
    1.2  # a healthy disk has a write within a second; one that lags is asked again three times sooner
)
EVERYSEC = ("--appendonly", "yes", "--appendfsync", "everysec")
# A user that cannot read the settings of the append-only file.
BLIND = ("--user", "blind", "on", ">x", "~*", "+@all", "-config")


@dataclass
class Bench:
    """A store whose disks can be made to lag, a crawl of 30 pages, and a file for its items."""

    dsn: str
    store: RedisClient
    frontier: RedisFrontier
    number: int  # of the crawl
    out: Path
    disks: list[LaggingDisk] = field(default_factory=list)
    writers: list[WriterProcess] = field(default_factory=list)

    async def writer(self) -> WriterProcess:
        writer = await WriterProcess.start(
            self.dsn, self.number, str(self.out), "w", term_s=TERM_S, disk_wait_s=DISK_WAIT_S
        )
        self.writers.append(writer)
        return writer

    async def crawl(self, pages: int) -> None:
        """Fetch up to `pages` pages; each is settled in one step with its item."""
        while pages and (grant := await self.frontier.lease(holder="w", limit=pages, ttl=60.0)).leases:
            await self.frontier.settle([_settled(lease) for lease in grant.leases])
            pages -= len(grant.leases)

    async def delay_disks(self, *servers: RedisServer) -> None:
        """From now on, nothing that the servers write to their logs reaches their disks."""
        self.disks = [await LaggingDisk.of(server) for server in servers]

    def cut_the_power(self) -> None:
        """Kill the servers whose disks lag, all at once; what was not on disk is lost."""
        for disk in self.disks:
            disk.server.kill()
        for disk in self.disks:
            disk.cut_the_power()

    async def has(self, count: int) -> None:
        async def condition() -> bool:
            return self.out.exists() and len(numbers_in(self.out)) == count

        await eventually(condition)

    async def is_all_written(self) -> None:
        async def condition() -> bool:
            return await item_streams(self.store, self.number).length() == 0

        await eventually(condition)


async def waits_for_disks(servers: Sequence[RedisServer]) -> None:
    """Return when WAITAOF was called more often than a positive answer would have taken."""

    async def asked() -> int:
        stats = [(await server.info()).get("cmdstat_waitaof", "calls=0") for server in servers]
        return sum(int(one.split(",")[0].removeprefix("calls=")) for one in stats)

    enough = await asked() + 2 * len(servers) + 1

    async def condition() -> bool:
        return await asked() >= enough

    await eventually(condition)


def _settled(lease: Lease) -> Settlement:
    number = int(lease.request.url.rpartition("/")[2])
    return Settlement(lease, Done(page(1)), items=[Item(f"key-{number}", json.dumps({"n": number}).encode())])


@asynccontextmanager
async def bench_on(dsn: str, folder: Path) -> AsyncIterator[Bench]:
    async with RedisClient.open(dsn) as store:
        frontier = RedisFrontier(store)
        await frontier.crawls.open("c", pace=UNLIMITED)
        await frontier.add("c", [link(str(n), host=f"{n}.test") for n in range(30)])
        number = await frontier.reader.number("c")
        bench = Bench(dsn, store, frontier, number, folder / "out.jsonl")
        try:
            yield bench
        finally:
            for writer in bench.writers:
                await writer.kill()


async def test_an_output_has_items_once_although_a_server_lost_them(tmp_path: Path) -> None:
    async with valkey(tmp_path / "valkey", *EVERYSEC) as server, bench_on(server.dsn, tmp_path) as bench:
        writer = await bench.writer()
        await bench.crawl(10)
        await bench.has(10)
        await bench.delay_disks(server)
        await bench.crawl(10)
        await waits_for_disks([server])
        assert len(numbers_in(bench.out)) == 10
        # Suspended, so that the pages are settled again before its next call: the entries that it read are lost.
        writer.process.send_signal(signal.SIGSTOP)
        bench.cut_the_power()
        await server.begin()
        await bench.crawl(30)  # ten that were lost, and ten more
        writer.process.send_signal(signal.SIGCONT)
        await bench.is_all_written()
        await writer.end()

    assert sorted(numbers_in(bench.out)) == list(range(30))


@pytest.mark.slow
async def test_an_output_has_items_once_although_a_cluster_lost_them(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path / "servers", valkey_program()) as servers,
        bench_on(servers.dsn, tmp_path) as bench,
    ):
        writer = await bench.writer()
        await bench.crawl(10)
        await bench.has(10)
        await bench.delay_disks(*servers.servers)
        await bench.crawl(10)
        await waits_for_disks(await servers.masters())
        assert len(numbers_in(bench.out)) == 10
        writer.process.send_signal(signal.SIGSTOP)
        bench.cut_the_power()
        for server in servers.servers:
            await server.begin()
        await servers.is_up()
        await bench.crawl(30)
        writer.process.send_signal(signal.SIGCONT)
        await bench.is_all_written()
        await writer.end()

    assert sorted(numbers_in(bench.out)) == list(range(30))


@pytest.mark.slow
async def test_an_output_has_items_once_although_a_new_master_lost_them(tmp_path: Path) -> None:
    """All servers lose power, and the master does not return: the disk of a replica decides."""
    async with (
        sentinels(tmp_path / "servers", valkey_program()) as servers,
        bench_on(f"{servers.dsn}?replicas=2", tmp_path) as bench,
    ):
        writer = await bench.writer()
        await bench.crawl(10)
        await bench.has(10)
        master = await servers.master()
        replicas = [server for server in servers.servers if server is not master]
        await bench.delay_disks(*replicas)
        await bench.crawl(10)
        await waits_for_disks([master])
        assert len(numbers_in(bench.out)) == 10
        writer.process.send_signal(signal.SIGSTOP)
        master.kill()
        bench.cut_the_power()
        for server in replicas:
            await server.begin()
        await bench.crawl(30)  # when the sentinels have made one of them the master
        writer.process.send_signal(signal.SIGCONT)
        await bench.is_all_written()
        await writer.end()

    assert sorted(numbers_in(bench.out)) == list(range(30))


@pytest.mark.slow
async def test_the_writer_does_not_wait_for_a_lost_replica(tmp_path: Path) -> None:
    async with (
        sentinels(tmp_path / "servers", valkey_program()) as servers,
        bench_on(f"{servers.dsn}?replicas=2", tmp_path) as bench,
    ):
        writer = await bench.writer()
        await bench.crawl(10)
        await bench.has(10)
        master = await servers.master()
        for server in servers.servers:
            if server is not master:
                server.kill()
        await bench.crawl(30)
        await bench.is_all_written()
        await writer.end()

    assert sorted(numbers_in(bench.out)) == list(range(30))


async def test_without_waitaof_a_file_repeats_items_that_a_server_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A documented limit: Redis 7.0 has no WAITAOF. It also shows that the tests above can fail."""
    async with redis7(tmp_path / "redis", *EVERYSEC) as server, bench_on(server.dsn, tmp_path) as bench:
        [told] = [record for record in caplog.records if record.message == "store.health"]
        writer = await bench.writer()
        await bench.crawl(10)
        await bench.has(10)
        await bench.delay_disks(server)
        await bench.crawl(10)
        await bench.has(20)
        bench.cut_the_power()
        await server.begin()
        await bench.crawl(30)
        await bench.is_all_written()
        await writer.end()

    assert "cannot tell what is on its disk" in vars(told)["advice"]
    assert len(numbers_in(bench.out)) == 40
    assert set(numbers_in(bench.out)) == set(range(30))


async def test_entries_that_return_after_a_loss_are_dropped_again(tmp_path: Path) -> None:
    """The output already has them. Without new entries, the crawl would otherwise never finish."""
    async with redis7(tmp_path / "redis", *EVERYSEC) as server, bench_on(server.dsn, tmp_path) as bench:
        writer = await bench.writer()
        await bench.has(0)
        writer.process.send_signal(signal.SIGSTOP)
        await bench.crawl(10)
        await bench.delay_disks(server)
        writer.process.send_signal(signal.SIGCONT)
        await bench.is_all_written()
        writer.process.send_signal(signal.SIGSTOP)  # it would drop them before they are counted
        bench.cut_the_power()
        await server.begin()
        assert await item_streams(bench.store, bench.number).length() == 10
        writer.process.send_signal(signal.SIGCONT)
        await bench.is_all_written()
        await writer.end()

    assert len(numbers_in(bench.out)) == 10


async def test_a_file_is_started_only_when_the_store_cannot_lose_its_owner(tmp_path: Path) -> None:
    async with valkey(tmp_path / "valkey", *EVERYSEC, *BLIND) as server:
        async with bench_on(f"redis://blind:x@{server.address}", tmp_path) as bench:
            await bench.delay_disks(server)
            writer = await bench.writer()
            await waits_for_disks([server])
            assert not bench.out.exists()
            bench.cut_the_power()
            await server.begin()
            await bench.crawl(30)
            await bench.is_all_written()
            await writer.end()

    assert sorted(numbers_in(bench.out)) == list(range(30))
