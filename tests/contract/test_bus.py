"""The contract of a bus: each announced page reaches a consumer and counts once, even if processes are killed."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import nats
import pytest
from tests.servers.nats import NatsServer, nats_server
from tests.servers.redis import RedisServer, redis7, valkey
from tests.servers.shared import shared_cluster

from shoal.bus import Bus, BusBacklog, Delivery, open_bus
from shoal.bus.redis import _RECOVER, GROUP, RedisBus
from shoal.frontier.redis import RedisFrontier
from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.outcome import Acknowledgement, Done, Fetched, Settlement
from shoal.redis_client import RedisClient, key_names
from shoal.redis_client.streams import ShardStreams
from shoal.testing.contracts.frontier import UNLIMITED, link, page

DEADLINE = 0.5  # seconds; short, so that the tests are fast
PATIENCE = 60.0  # for a machine that is busy with other things


@dataclass
class Bench:
    """A store with its bus, and the servers behind them."""

    store: RedisClient
    frontier: RedisFrontier
    address: str
    server: RedisServer | NatsServer  # of the bus
    exact: bool  # the bus knows which consumer has a page

    @asynccontextmanager
    async def consumer(self, name: str, deadline: float = DEADLINE) -> AsyncIterator[Bus]:
        """Join the bus; the worker relays, too, if that is needed."""
        async with AsyncExitStack() as stack:
            bus = await stack.enter_async_context(
                open_bus(
                    self.address,
                    self.store,
                    consumer=name,
                    reannounce=self.frontier.reannounce,
                    deadline=deadline,
                )
            )
            group = await stack.enter_async_context(asyncio.TaskGroup())
            relay = group.create_task(bus.relay())
            stack.callback(relay.cancel)
            yield bus

    async def announce(self, *paths: str) -> None:
        """Fetch pages: settled and announced in one step of the store."""
        await self.frontier.add("c", [link(path, host=f"{path}.test") for path in paths])
        left = len(paths)
        while left:
            grant = await self.frontier.lease(holder="fetcher", limit=left, ttl=60.0)
            await self.frontier.settle([Settlement(lease, Fetched(page(left))) for lease in grant.leases])
            left -= len(grant.leases)

    async def acknowledge(self, *deliveries: Delivery) -> list[str]:
        """Acknowledge pages as parsed; return those that were accepted."""
        said = [
            Acknowledgement(one.crawl, one.fingerprint, Done(one.page), host=one.host, consumer=one.consumer)
            for one in deliveries
        ]
        committed = await self.frontier.acknowledge(said)
        refused = {one.fingerprint for one in committed.refused}
        return [path_of(one) for one in deliveries if one.fingerprint not in refused]


def path_of(delivery: Delivery) -> str:
    return delivery.request.url.rpartition("/")[2]


async def collect(bus: Bus, count: int, *, limit: int = 10) -> list[Delivery]:
    found: list[Delivery] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            found += await bus.deliver(limit=limit, wait=1.0)
    return found


@asynccontextmanager
async def on_streams(folder: Path) -> AsyncIterator[Bench]:
    # Always: a kill during an fsync would lose what was confirmed during it.
    always = ("--appendonly", "yes", "--appendfsync", "always")
    async with valkey(folder, *always) as server, RedisClient.open(server.dsn) as store:
        yield Bench(store, RedisFrontier(store), "", server, exact=True)


@asynccontextmanager
async def on_nats(folder: Path) -> AsyncIterator[Bench]:
    async with (
        valkey(folder / "valkey") as redis,
        nats_server(folder / "nats") as server,
        RedisClient.open(redis.dsn) as store,
    ):
        yield Bench(store, RedisFrontier(store), server.address, server, exact=False)


BACKENDS: dict[str, Callable[[Path], AbstractAsyncContextManager[Bench]]] = {
    "streams": on_streams,
    "nats": on_nats,
}


@pytest.fixture(params=BACKENDS)
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    async with BACKENDS[request.param](tmp_path) as opened:
        await opened.frontier.crawls.open("c", pace=UNLIMITED)
        yield opened


async def test_a_page_is_delivered_as_it_was_announced(bench: Bench) -> None:
    await bench.announce("a")
    async with bench.consumer("w") as bus:
        [delivery] = await collect(bus, 1)

    assert delivery.crawl == "c"
    assert delivery.request.url == "https://a.test/a"
    assert delivery.fingerprint == link("a", host="a.test").fingerprint
    assert delivery.page == page(1)
    assert delivery.number == 1
    assert delivery.host == "a.test"


async def test_no_page_is_delivered_to_two_consumers_at_once(bench: Bench) -> None:
    await bench.announce(*(f"p{n}" for n in range(30)))
    async with bench.consumer("w1", 60.0) as one, bench.consumer("w2", 60.0) as two:
        found = await collect(one, 5, limit=5) + await collect(two, 5, limit=5)
        while len(found) < 30:
            found += await one.deliver(limit=3, wait=0.2) + await two.deliver(limit=3, wait=0.2)

    assert sorted(map(path_of, found)) == sorted(f"p{n}" for n in range(30))


async def test_a_waiting_consumer_is_woken(bench: Bench) -> None:
    async with bench.consumer("w") as bus:
        waiting = asyncio.create_task(bus.deliver(limit=1, wait=PATIENCE))
        await asyncio.sleep(0.2)
        await bench.announce("a")
        [delivery] = await waiting

    assert path_of(delivery) == "a"


async def test_waiting_without_pages_ends(bench: Bench) -> None:
    async with bench.consumer("w") as bus:
        assert await bus.deliver(limit=1, wait=0.1) == []


async def test_a_page_that_is_acknowledged_and_done_is_not_delivered_again(bench: Bench) -> None:
    await bench.announce("a", "b")
    async with bench.consumer("w") as bus:
        found = await collect(bus, 2)
        assert sorted(await bench.acknowledge(*found)) == ["a", "b"]
        await bus.done(found)
        await bus.done(found)  # repeating it changes nothing
        assert await bus.deliver(limit=10, wait=DEADLINE * 2) == []

    assert (await bench.frontier.reader.counts("c")).done == 2


async def test_the_backlog_counts_waiting_and_delivered_pages(bench: Bench) -> None:
    async def comes_to(expected: BusBacklog) -> None:
        async with asyncio.timeout(PATIENCE):
            while await bus.backlog() != expected:  # noqa: ASYNC110 (pages may be on their way into the queue)
                await asyncio.sleep(0.02)

    async with bench.consumer("w", 60.0) as bus:
        await comes_to(BusBacklog(0, 0))
        await bench.announce("a", "b", "c")
        await comes_to(BusBacklog(3, 0))
        found = await collect(bus, 1, limit=1)
        await comes_to(BusBacklog(2, 1))
        await bench.acknowledge(*found)
        await bus.done(found)
        await comes_to(BusBacklog(2, 0))


async def test_an_extended_page_stays_with_its_consumer(bench: Bench) -> None:
    await bench.announce("a")
    async with bench.consumer("w1") as one, bench.consumer("w2") as two:
        found = await collect(one, 1)
        for _ in range(6):
            assert await one.extend(found) == found
            assert await two.deliver(limit=1, wait=DEADLINE / 4) == []
        assert await bench.acknowledge(*found) == ["a"]


async def test_an_expired_page_is_delivered_again_alone_with_its_number(bench: Bench) -> None:
    await bench.announce("a", "b", "c")
    async with bench.consumer("w1") as one, bench.consumer("w2") as two:
        await collect(one, 3)
        again: list[Delivery] = []
        async with asyncio.timeout(PATIENCE):
            while len(again) < 3:
                batch = await two.deliver(limit=10, wait=1.0)
                assert len(batch) <= 1
                again += batch
                await two.extend(again)
                if bench.exact and batch:  # the next one may have killed the first consumer
                    assert await two.deliver(limit=10, wait=DEADLINE * 2) == []
                    await two.done(batch)

    assert sorted(map(path_of, again)) == ["a", "b", "c"]
    assert {delivery.number for delivery in again} == {2}


async def test_a_page_that_kills_every_consumer_is_counted_each_time(bench: Bench) -> None:
    await bench.announce("poison")
    for number in range(1, 4):
        async with bench.consumer(f"w{number}") as bus:
            [delivery] = await collect(bus, 1)
            assert delivery.number == number


async def test_of_two_consumers_with_one_page_only_one_is_accepted(bench: Bench) -> None:
    await bench.announce("a")
    async with bench.consumer("w1") as slow, bench.consumer("w2") as heir:
        [lost] = await collect(slow, 1)
        [again] = await collect(heir, 1)
        if bench.exact:
            assert await slow.extend([lost]) == []
            assert await bench.acknowledge(lost) == []
            await slow.done([lost])  # does not remove it from the other
        assert await bench.acknowledge(again) == ["a"]
        assert await bench.acknowledge(lost) == []
        await heir.done([again])
        await slow.done([lost])
        assert await heir.deliver(limit=1, wait=DEADLINE * 2) == []

    assert (await bench.frontier.reader.counts("c")).done == 1


async def test_a_released_page_is_delivered_again_without_a_strike(bench: Bench) -> None:
    await bench.announce("a")
    async with bench.consumer("w1") as one, bench.consumer("w2") as two:
        for _ in range(3):
            await one.release(await collect(one, 1))
            [again] = await collect(two, 1)
            assert (path_of(again), again.number) == ("a", 1)
            await two.release([again])
        assert await bench.acknowledge(*await collect(one, 1)) == ["a"]


async def test_a_released_page_keeps_its_earlier_strikes(bench: Bench) -> None:
    await bench.announce("a")
    async with bench.consumer("w1") as one, bench.consumer("w2") as two:
        await collect(one, 1)  # and never responds again
        for _ in range(2):
            [again] = await collect(two, 1)
            assert again.number == 2
            await two.release([again])


async def test_pages_that_a_consumer_has_fetched_and_not_delivered_get_no_strike_when_it_leaves(
    bench: Bench,
) -> None:
    await bench.announce("a", "b", "c")
    async with bench.consumer("w1") as silent:
        await collect(silent, 3)
    await asyncio.sleep(DEADLINE * 2)  # so that all of them have expired
    async with bench.consumer(
        "w2"
    ) as leaving:  # they are delivered one by one, and it receives only the first
        [first] = await collect(leaving, 1)
        await leaving.release([first])
    async with bench.consumer("w3") as last:
        found: list[Delivery] = []
        while len(found) < 3:
            found += (again := await collect(last, 1))
            await last.done(again)

    assert sorted(map(path_of, found)) == ["a", "b", "c"]
    assert [delivery.number for delivery in found] == [2, 2, 2]


async def test_pages_of_a_deleted_crawl_are_removed(bench: Bench) -> None:
    await bench.announce("a")
    async with bench.consumer("w") as bus:
        found = await collect(bus, 1)
        async with RedisClient.open(str(bench.store.dsn)) as store:
            await RedisFrontier(store).crawls.delete("c")
        await bench.frontier.crawls.open("d", pace=UNLIMITED)
        async with asyncio.timeout(PATIENCE):
            while found:  # again, if this took longer than the deadline
                await bus.done(found)
                found = await bus.deliver(limit=1, wait=DEADLINE * 2)


async def test_a_server_delivers_everything_after_a_kill_and_restart(bench: Bench) -> None:
    names = [f"p{n}" for n in range(20)]
    await bench.announce(*names[:10])
    async with bench.consumer("w") as bus:
        parsed = []
        for delivery in await collect(bus, 3, limit=3):
            parsed += await bench.acknowledge(delivery)
            await bus.done([delivery])
        bench.server.kill()
        await bench.server.begin()
        await bench.announce(*names[10:])
        async with asyncio.timeout(PATIENCE):
            while len(parsed) < 20:
                for delivery in await bus.deliver(limit=5, wait=1.0):
                    parsed += await bench.acknowledge(delivery)
                    await bus.done([delivery])

    assert sorted(parsed) == sorted(names)


async def test_a_consumer_can_leave_when_the_server_is_gone(tmp_path: Path) -> None:
    async with on_nats(tmp_path) as bench:
        await bench.frontier.crawls.open("c", pace=UNLIMITED)
        async with bench.consumer("w") as bus:
            await bench.announce("a", "b")
            [given_back, kept] = await collect(bus, 2)
            bench.server.kill()
            await bus.release([given_back])
            await bus.extend([kept])  # data that is unsent when the connection is closed
        await bench.server.begin()

        async with bench.consumer("v") as bus:
            found = await collect(bus, 2, limit=1)
    assert sorted(map(path_of, found)) == ["a", "b"]


@pytest.mark.parametrize("loss", ["its folder", "its messages"])
async def test_lost_pages_of_a_queue_are_announced_again(loss: str, tmp_path: Path) -> None:
    paths = {f"p{number}" for number in range(40)}
    async with on_nats(tmp_path) as bench:
        assert isinstance(bench.server, NatsServer)
        await bench.frontier.crawls.open("c", pace=UNLIMITED)
        async with bench.consumer("w") as bus:
            await bench.announce(*paths)
            lost = await collect(bus, 20)
            [done, *_] = lost
            assert await bench.acknowledge(done) == [path_of(done)]
            await bus.done([done])
            while await ShardStreams(bench.store, key_names.pages).length():  # noqa: ASYNC110 (until all are in the queue)
                await asyncio.sleep(0.02)
            if loss == "its folder":
                bench.server.kill()
                shutil.rmtree(bench.server.data)
                await bench.server.begin()
            else:
                client = await nats.connect(bench.server.address)
                [queue] = await client.jetstream().streams_info()
                await client.jetstream().purge_stream(str(queue.config.name))
                await client.close()
            left, again = paths - {path_of(done)}, []
            async with asyncio.timeout(PATIENCE):
                while left:
                    [*found] = await bus.deliver(limit=10, wait=1.0)
                    again += await bench.acknowledge(*found)
                    await bus.done(found)
                    left -= set(again)
        assert sorted(again) == sorted(paths - {path_of(done)})  # each of them once
        assert (await bench.frontier.reader.counts("c")).parsing == 0


async def test_pages_of_a_process_that_is_killed_are_parsed_by_another(bench: Bench) -> None:
    names = [f"p{n}" for n in range(12)]
    await bench.announce(*names)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.contract.test_bus", str(bench.store.dsn), bench.address),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert int(await process.stdout.readline()) >= 5
    process.kill()
    await process.wait()
    parsed: list[str] = []
    async with bench.consumer("heir") as bus, asyncio.timeout(PATIENCE):
        while len(parsed) < len(names):
            for delivery in await bus.deliver(limit=5, wait=1.0):
                parsed += await bench.acknowledge(delivery)
                await bus.done([delivery])

    assert sorted(parsed) == sorted(names)


@pytest.mark.parametrize("server", [valkey, redis7])
async def test_killed_consumers_without_pages_are_deleted(
    server: Callable[[Path], AbstractAsyncContextManager[RedisServer]], tmp_path: Path
) -> None:
    async with server(tmp_path) as started, RedisClient.open(started.dsn) as store:
        bench = Bench(store, RedisFrontier(store), "", started, exact=True)
        await bench.frontier.crawls.open("c", pace=UNLIMITED)

        async def names() -> set[str]:
            found: set[str] = set()
            for tag in store.tags():
                for fields in await store.do(tag, "XINFO", "CONSUMERS", key_names.pages(tag), GROUP):
                    found.add(dict(zip(fields[::2], fields[1::2], strict=True))[b"name"].decode())
            return found

        await bench.announce("a", "b")
        async with bench.consumer("w", 0.1) as bus:  # its deadline; names are kept for ten deadlines
            killed = RedisBus(store, consumer="killed", deadline=0.1)  # never leaves
            for delivery in await collect(killed, 2):
                await bench.acknowledge(delivery)
            await bench.announce("c")
            holder = RedisBus(store, consumer="holder", deadline=0.1)
            await collect(holder, 1)
            assert await names() == {"killed", "holder"}

            parsed: list[str] = []
            async with asyncio.timeout(PATIENCE):
                while await names() - {"w"}:  # before Redis 7.2, it also deletes itself
                    for delivery in await bus.deliver(limit=1, wait=0.1):
                        parsed += await bench.acknowledge(delivery)
                        await bus.done([delivery])
            assert parsed == ["c"]


async def test_a_consumer_with_pages_is_never_deleted(tmp_path: Path) -> None:
    async with on_streams(tmp_path) as bench:
        await bench.frontier.crawls.open("c", pace=UNLIMITED)
        await bench.announce("a")
        holder = RedisBus(bench.store, consumer="holder")
        [held] = await collect(holder, 1)
        shard, _, id = held.message_id.partition("/")
        tag = bench.store.tag(int(shard))
        await asyncio.sleep(0.05)
        for ttl_ms in (1, 60_000):  # ms
            arguments = (GROUP, "w", 60_000, ttl_ms)
            assert await bench.store.run(_RECOVER, tag, arguments) is None
            [pending] = await bench.store.do(tag, "XPENDING", key_names.pages(tag), GROUP, id, id, 1)
            assert pending[1] == b"holder"
            await bench.store.do(tag, "DEL", key_names.consumer_gc(tag))
        assert await bench.acknowledge(held) == ["a"]


async def test_idle_consumers_send_no_commands(tmp_path: Path) -> None:
    async with on_streams(tmp_path) as bench, AsyncExitStack() as stack:
        assert isinstance(bench.server, RedisServer)
        crowd = [await stack.enter_async_context(bench.consumer(f"w{n}", 60.0)) for n in range(50)]
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(bus.deliver(limit=1, wait=PATIENCE)) for bus in crowd]
            async with asyncio.timeout(PATIENCE):
                while int((await bench.server.info())["blocked_clients"]) < len(crowd):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            before = int((await bench.server.info())["total_commands_processed"])
            await asyncio.sleep(1.0)
            after = int((await bench.server.info())["total_commands_processed"])
            for task in waiting:
                task.cancel()

    assert after - before < len(crowd) * 2


async def test_a_cluster_delivers_every_page() -> None:
    names = [f"p{n}" for n in range(20)]
    async with shared_cluster() as servers, RedisClient.open(servers.dsn) as store:
        bench = Bench(store, RedisFrontier(store), "", servers.servers[0], exact=True)
        await bench.frontier.crawls.open("c", pace=UNLIMITED)
        await bench.announce(*names)
        parsed: list[str] = []
        async with bench.consumer("dead") as lost:
            await collect(lost, 3, limit=3)
        async with bench.consumer("w") as bus, asyncio.timeout(PATIENCE):
            while len(parsed) < len(names):
                for delivery in await bus.deliver(limit=5, wait=1.0):
                    parsed += await bench.acknowledge(delivery)
                    await bus.done([delivery])

    assert sorted(parsed) == sorted(names)


async def test_the_errors_for_an_unknown_and_an_unavailable_bus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.bus.nats._CONNECT_TIMEOUT_S", 0.3)
    async with on_streams(tmp_path) as bench:
        with pytest.raises(Misconfigured, match="no bus for the scheme 'kafka'"):
            open_bus(
                "kafka://user:secret@127.0.0.1",
                bench.store,
                consumer="w",
                reannounce=bench.frontier.reannounce,
            )
        with pytest.raises(Unavailable, match="NATS: no answer"):
            async with open_bus(
                "nats://127.0.0.1:9", bench.store, consumer="w", reannounce=bench.frontier.reannounce
            ):
                pass


async def hold(arguments: Sequence[str]) -> None:
    """Receive pages and never finish them."""
    dsn, address = arguments
    async with RedisClient.open(dsn) as store:
        frontier = RedisFrontier(store)
        async with Bench(store, frontier, address, None, exact=False).consumer("victim") as bus:  # type: ignore[arg-type]
            print(len(await collect(bus, 5, limit=5)), flush=True)
            await asyncio.sleep(PATIENCE)


if __name__ == "__main__":
    asyncio.run(hold(sys.argv[1:]))
