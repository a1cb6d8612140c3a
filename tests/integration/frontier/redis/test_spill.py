"""Spilling: the tail of a lane leaves the server and returns, once and in order, even if workers die."""

import asyncio
import random
import time
from bisect import insort
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.servers.redis import valkey

from shoal.frontier.redis import RedisFrontier, keys
from shoal.frontier.redis.chunks import ChunkStore, FolderChunks
from shoal.frontier.redis.records import score_of
from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.redis.spill import AVOID_FAILED_S, LaneName, Spilling
from shoal.model.outcome import Gone, Lease, Settlement
from shoal.redis_client import RedisClient, ScriptArgument
from shoal.testing.contracts.frontier import UNLIMITED, link

HOST = "a.test"
LANE = LaneName(1, "http", HOST)
HIGH, CHUNK, LOW = 60, 25, 20


def new_links(tag: str) -> str:
    """Return the key of the new links with the default priority."""
    return keys.fresh(tag, *LANE, 5)


class SmallScripts(Scripts):
    """The scripts, but a chunk is requested once fewer than 20 requests are better than it."""

    def fragment(self, name: str) -> str:
        text = super().fragment(name)
        if name == "spilled":
            assert "REFILL_BELOW = 1000" in text
            return text.replace("REFILL_BELOW = 1000", f"REFILL_BELOW = {LOW}")
        return text


SCRIPTS = SmallScripts()


class Worker:
    """A separate client that spills a lane as soon as it has more than 60 requests."""

    def __init__(
        self,
        store: RedisClient,
        chunks: ChunkStore | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.chunks = chunks
        self.tag = store.tag_of(HOST)
        self.spilling = Spilling(
            store, SCRIPTS, chunks, high_water=HIGH, chunk=CHUNK, check_every=1, clock=clock
        )
        self.frontier = RedisFrontier(store, scripts=SCRIPTS, spilling=self.spilling)

    async def add(self, paths: list[str], *, priority: int = 5) -> None:
        await self.frontier.add("c", [link(path, host=HOST, priority=priority) for path in paths])

    async def take(self, limit: int) -> list[str]:
        """Lease and settle; return the paths."""
        grant = await self.frontier.lease(holder="w", limit=limit, ttl=60.0)
        await self.frontier.settle([Settlement(lease, Gone(404)) for lease in grant.leases])
        return [path_of(lease) for lease in grant.leases]

    async def drain(self) -> list[str]:
        paths: list[str] = []
        while found := await self.take(10):
            paths += found
        return paths

    async def hot(self) -> int:
        lists = [("LLEN", keys.fresh(self.tag, *LANE, band)) for band in range(16)]
        return sum(await self.store.pipeline(self.tag, [("ZCARD", keys.returned(self.tag, *LANE)), *lists]))

    async def tail(self) -> list[bytes]:
        """Return the last requests of the default priority that are not spilled."""
        found: list[bytes] = await self.store.do(self.tag, "LRANGE", new_links(self.tag), -CHUNK, -1)
        return found

    async def registered(self) -> list[str]:
        """Return the chunks of the lane, best first."""
        found = await self.store.do(self.tag, "ZRANGE", keys.chunks(self.tag, *LANE), 0, -1)
        return [id.decode() for id in found]


def path_of(lease: Lease) -> str:
    return lease.request.url.rpartition("/")[2]


def numbered(first: int, last: int) -> list[str]:
    return [f"{number:04}" for number in range(first, last)]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[RedisClient]:
    async with valkey(tmp_path / "server") as server, RedisClient.open(server.dsn) as opened:
        yield opened


@pytest.fixture(params=["in a folder", "in the server"])
async def worker(request: pytest.FixtureRequest, store: RedisClient, tmp_path: Path) -> AsyncIterator[Worker]:
    chunks = FolderChunks(tmp_path / "chunks") if request.param == "in a folder" else None
    worker = Worker(store, chunks)
    await worker.frontier.crawls.open("c", pace=UNLIMITED)
    yield worker
    counts = await worker.frontier.reader.counts("c")
    assert counts.accepted == sum(counts.by_state().values())
    assert (await worker.frontier.reader.audit("c")).problems == []


def chunk_files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "chunks").rglob("*-*") if path.is_file())


@pytest.mark.parametrize("seed", range(4))
async def test_leases_come_in_the_order_of_a_sorted_list(worker: Worker, seed: int) -> None:
    rng, model, number = random.Random(seed), list[tuple[int, str]](), 0
    most_chunks = 0
    for _ in range(60):
        if rng.random() < 0.6:
            priority, more = rng.randint(1, 9), rng.randint(1, 40)
            paths = numbered(number, number + more)
            number += more
            await worker.add(paths, priority=priority)
            for path in paths:
                insort(model, (priority, path))
        else:
            limit = rng.randint(1, LOW)
            expected, model = model[:limit], model[limit:]
            assert await worker.take(limit) == [path for _, path in expected]
        assert (await worker.frontier.reader.counts("c")).waiting == len(model)
        assert await worker.hot() <= HIGH + 40 + CHUNK + 9 * CHUNK // 5  # a little may stay of each priority
        most_chunks = max(most_chunks, len(await worker.registered()))
    assert most_chunks > 1
    assert await worker.drain() == [path for _, path in model]
    assert await worker.registered() == []


async def test_a_better_request_goes_before_the_tail_that_was_spilled_earlier(worker: Worker) -> None:
    await worker.add(numbered(0, 100))
    assert await worker.registered()
    await worker.add(["first"], priority=1)
    assert await worker.take(3) == ["first", "0000", "0001"]
    assert await worker.drain() == numbered(2, 100)


async def test_a_lane_that_is_all_worse_than_its_chunks_gets_the_best_chunk_first(worker: Worker) -> None:
    await worker.add(numbered(0, 100), priority=3)
    await worker.add(numbered(100, 200), priority=9)
    assert await worker.drain() == numbered(0, 200)


async def test_a_worker_that_dies_between_writing_a_chunk_and_spilling_costs_nothing(
    store: RedisClient, tmp_path: Path
) -> None:
    class Died(Exception):
        pass

    class Dying(FolderChunks):
        async def put(self, name: str, body: bytes) -> None:
            await super().put(name, body)
            raise Died

    dying = Worker(store, Dying(tmp_path / "chunks"))
    await dying.frontier.crawls.open("c", pace=UNLIMITED)
    with pytest.raises(Died):
        await dying.add(numbered(0, 100))
    assert len(chunk_files(tmp_path)) == 1

    worker = Worker(store, FolderChunks(tmp_path / "chunks"))
    await worker.frontier.crawls.open("c")
    await worker.add(["last"])  # now the tail is spilled
    [*ids] = await worker.registered()
    assert len(chunk_files(tmp_path)) == len(ids) + 1
    assert await worker.spilling.collect() == 0  # it is too young: its writer may be about to register it
    assert await worker.spilling.collect(older=-60.0) == 1
    assert sorted(path.name for path in chunk_files(tmp_path)) == sorted(ids)
    assert await worker.drain() == [*numbered(0, 100), "last"]


async def test_a_chunk_that_two_workers_bring_back_at_once_comes_back_once(
    worker: Worker, store: RedisClient, tmp_path: Path
) -> None:
    other = Worker(store, FolderChunks(tmp_path / "chunks"))
    await worker.add(numbered(0, 100))
    before, chunks = await worker.hot(), len(await worker.registered())
    name = wanted_name()
    back = await asyncio.gather(*(one.spilling.refill(worker.tag, [name]) for one in (worker, other)))
    assert sum(back) == CHUNK * (chunks - len(await worker.registered()))
    assert await worker.hot() == before + sum(back)
    assert await worker.drain() == numbered(0, 100)


async def test_two_workers_that_spill_one_lane_at_once_lose_nothing(
    worker: Worker, store: RedisClient
) -> None:
    patient = Worker(store, worker.chunks)
    patient.frontier = RedisFrontier(store, scripts=SCRIPTS)  # which spills nothing while it adds
    await patient.frontier.crawls.open("c")
    await patient.add(numbered(0, 180))
    gone = await asyncio.gather(*(one.spilling.spill(worker.tag, LANE) for one in (worker, patient)))
    assert sum(gone) == 180 - await worker.hot()
    assert await worker.drain() == numbered(0, 180)


async def test_a_repeated_call_returns_the_same_and_changes_nothing(worker: Worker) -> None:
    await worker.add(numbered(0, 60))
    tail = await worker.tail()
    arguments: list[ScriptArgument] = [*LANE, "25-ab", b"=", score_of(tail[0]), 5, *tail]
    first, second = [await worker.store.run(SCRIPTS.spill, worker.tag, arguments) for _ in range(2)]
    assert first == second == CHUNK
    assert await worker.hot() == 60 - CHUNK
    assert await worker.store.run(SCRIPTS.refill, worker.tag, [*LANE, "25-ab", *tail]) == [CHUNK, 0]
    assert await worker.store.run(SCRIPTS.refill, worker.tag, [*LANE, "25-ab", *tail]) == [0, 0]
    assert await worker.hot() == 60


async def test_a_tail_that_has_been_leased_from_is_not_spilled(worker: Worker) -> None:
    await worker.add(numbered(0, 60))
    tail = await worker.tail()
    last = await worker.store.do(worker.tag, "RPOP", new_links(worker.tag))
    assert (
        await worker.store.run(SCRIPTS.spill, worker.tag, [*LANE, "25-ab", b"=", score_of(tail[0]), 5, *tail])
        == 0
    )
    assert await worker.hot() == 59
    await worker.store.do(worker.tag, "RPUSH", new_links(worker.tag), last)


async def test_a_lane_requests_its_chunk_until_it_is_back(store: RedisClient, tmp_path: Path) -> None:
    class Broken(FolderChunks):
        async def get(self, name: str) -> bytes:
            raise OSError("the disk is gone")

    broken, worker = (
        Worker(store, Broken(tmp_path / "chunks")),
        Worker(store, FolderChunks(tmp_path / "chunks")),
    )
    for one in (broken, worker):
        await one.frontier.crawls.open("c", pace=UNLIMITED)
    await worker.add(numbered(0, 100))
    taken = await broken.drain()
    assert taken == numbered(0, 50)
    assert (await worker.frontier.reader.counts("c")).waiting == 50  # so the crawl is not finished
    assert await store.do(worker.tag, "ZRANGE", f"{worker.tag}:rf", 0, -1) == [wanted_name()]
    assert await worker.spilling.refill(worker.tag, [wanted_name()]) == CHUNK
    assert await worker.drain() == numbered(50, 100)
    assert await store.do(worker.tag, "EXISTS", f"{worker.tag}:rf") == 0


def wanted_name() -> bytes:
    return b"\0\0\0\1\4http" + HOST.encode()


async def test_while_a_place_for_chunks_fails_they_stay_in_the_server(
    store: RedisClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Moody(FolderChunks):
        broken = True

        async def put(self, name: str, body: bytes) -> None:
            if self.broken:
                raise OSError("no space left")
            await super().put(name, body)

    chunks, now = Moody(tmp_path / "chunks"), 0.0
    worker = Worker(store, chunks, clock=lambda: now)
    await worker.frontier.crawls.open("c", pace=UNLIMITED)
    await worker.add(numbered(0, 100))
    in_server = len(await worker.registered())
    assert in_server > 1
    chunks.broken = False
    await worker.add(numbered(100, 200))  # it is not tried again at once
    assert chunk_files(tmp_path) == []
    now = AVOID_FAILED_S
    await worker.add(numbered(200, 300))
    assert chunk_files(tmp_path) != []
    assert await worker.drain() == numbered(0, 300)

    [said] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert (said.message, vars(said)["why"]) == ("frontier.spilled_in_store", "no space left")


async def test_the_chunks_of_a_deleted_crawl_are_collected(store: RedisClient, tmp_path: Path) -> None:
    worker = Worker(store, FolderChunks(tmp_path / "chunks"))
    await worker.frontier.crawls.open("c", pace=UNLIMITED)
    await worker.add(numbered(0, 200))
    written = len(chunk_files(tmp_path))
    assert written > 3
    other = Worker(store, FolderChunks(tmp_path / "chunks"))
    await other.frontier.crawls.delete("c")
    assert await other.spilling.collect(older=-60.0) == written
    assert chunk_files(tmp_path) == []
