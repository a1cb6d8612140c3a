"""The guarantee of a fleet's outputs: each item once, even if writers are killed or suspended."""

import asyncio
import json
import random
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pyarrow.parquet as pq
import pytest
from tests.contract.writing import TERM_S, WriterProcess, eventually, numbers_in, running, writer_of
from tests.servers.postgres import ask
from tests.servers.process import free_port
from tests.servers.redis import RedisServer, valkey
from tests.servers.shared import shared_cluster, shared_database

from shoal.model.errors import Misconfigured
from shoal.model.page import Item
from shoal.redis_client import RedisClient, key_names
from shoal.sinks.drafts import draft_of, publish
from shoal.sinks.fleet.progress import unfinished
from shoal.sinks.fleet.writer import OutputWriter, WriterOutput, WriterState, item_streams
from shoal.sinks.postgres.sink import RETRY_S

CRAWL = 7


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    # Always: a kill during an fsync would lose what was confirmed during it.
    async with valkey(tmp_path / "valkey", "--appendonly", "yes", "--appendfsync", "always") as running:
        yield running


@pytest.fixture
async def store(server: RedisServer) -> AsyncIterator[RedisClient]:
    async with RedisClient.open(server.dsn) as opened:
        await begin(opened)
        yield opened


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with shared_database() as dsn:
        yield dsn


async def begin(store: RedisClient) -> None:
    """Create the crawl, as far as outputs need it: every shard has its options."""
    for tag in store.tags():
        await store.do(tag, "HSET", f"{tag}:c", CRAWL, "terms")


async def settle_page(store: RedisClient, numbers: Sequence[int]) -> None:
    """Append the items of one page to the stream of a shard, as settling does."""
    tag = store.tag(numbers[0] % store.shards)
    items = [Item(f"key-{number}", json.dumps({"n": number}).encode()) for number in numbers]
    await store.do(
        tag,
        "XADD",
        key_names.items(tag, CRAWL),
        "*",
        "fp",
        "12345678",
        "items",
        msgspec.msgpack.encode(items),
    )


async def drained(store: RedisClient) -> None:
    async def is_empty() -> bool:
        return await item_streams(store, CRAWL).length() == 0

    await eventually(is_empty)


async def test_items_of_all_shards_reach_the_output_once(store: RedisClient, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    for number in range(0, 60, 2):
        await settle_page(store, [number, number + 1])
    async with running(writer_of(store, CRAWL, str(out))):
        await drained(store)
        await settle_page(store, [100])
        await drained(store)

    assert sorted(numbers_in(out)) == [*range(60), 100]


async def test_the_next_writer_continues_where_the_last_one_stopped(
    store: RedisClient, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    for round_number in range(3):
        await settle_page(store, [round_number])
        async with running(writer_of(store, CRAWL, str(out), holder=f"w{round_number}")):
            await drained(store)

    assert numbers_in(out) == [0, 1, 2]


async def test_the_next_writer_finishes_the_output_of_a_killed_one(
    store: RedisClient, tmp_path: Path
) -> None:
    out = str(tmp_path / "out.parquet")
    dead = await WriterProcess.start(str(store.dsn), CRAWL, out, "dead")
    for number in range(20):
        await settle_page(store, [number])
    await drained(store)
    await dead.kill()
    assert (tmp_path / "out.parquet").read_bytes() == b""  # its rows are in a file beside it
    assert await unfinished(store, CRAWL, [out], node="here")
    assert not await unfinished(store, CRAWL, [out], node="elsewhere")

    over = asyncio.Event()
    over.set()

    async def is_finished() -> bool:
        await writer_of(store, CRAWL, out, holder="next").run(over)
        return not await unfinished(store, CRAWL, [out], node="here")

    await eventually(is_finished)
    assert sorted(pq.read_table(out)["n"].to_pylist()) == list(range(20))


async def test_a_writer_is_elected_although_the_clock_was_set_back(
    store: RedisClient, tmp_path: Path
) -> None:
    out = str(tmp_path / "out.jsonl")
    await settle_page(store, [1])
    async with running(writer_of(store, CRAWL, out, holder="dead")):
        await drained(store)
    # As left by a writer that was killed before the clock of the server was set back by an hour.
    tag = store.tag(CRAWL % store.shards)
    now, _ = await store.do(tag, "TIME")
    left = ("holder " + out, "dead", "until " + out, str((int(now) + 3600) * 1000))
    await store.do(tag, "HSET", key_names.writer(tag, CRAWL), *left)

    await settle_page(store, [2])
    async with running(writer_of(store, CRAWL, out, holder="next")):
        await drained(store)
    assert numbers_in(tmp_path / "out.jsonl") == [1, 2]


async def test_an_entry_stays_until_every_output_has_it(store: RedisClient, tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.csv"
    await settle_page(store, [1])

    async def first_is_written() -> bool:
        return first.exists() and numbers_in(first) == [1]

    async with running(writer_of(store, CRAWL, str(first), str(second))):
        await eventually(first_is_written)
    assert await item_streams(store, CRAWL).length() == 1
    async with running(writer_of(store, CRAWL, str(second), str(first))):
        await drained(store)

    assert second.read_text().split() == ["n", "1"]


async def test_a_file_belongs_to_the_machine_that_first_wrote_it(store: RedisClient, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    async with running(writer_of(store, CRAWL, str(out), node="here")):
        await settle_page(store, [1])
        await drained(store)
    await settle_page(store, [2])
    stop = asyncio.Event()
    elsewhere = asyncio.create_task(writer_of(store, CRAWL, str(out), holder="x", node="there").run(stop))
    await asyncio.sleep(0.2)
    stop.set()
    await elsewhere
    assert numbers_in(out) == [1]

    async with running(writer_of(store, CRAWL, str(out), node="here")):
        await drained(store)
    assert numbers_in(out) == [1, 2]


async def test_an_output_of_another_crawl_is_refused_and_left_alone(
    store: RedisClient, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    async with running(writer_of(store, CRAWL, str(out))):
        await settle_page(store, [1])
        await drained(store)
    tag = store.tag(CRAWL % store.shards)
    await store.do(
        tag, "DEL", key_names.writer(tag, CRAWL)
    )  # another store, or another crawl under that number

    for holder in ("first", "second"):  # the first one ends its long term: the second does not wait
        writer = writer_of(store, CRAWL, str(out), holder=holder, term_s=600.0)
        with pytest.raises(Misconfigured, match=r"not written.*--fresh"):
            await writer.run(asyncio.Event())
    assert numbers_in(out) == [1]

    async with running(writer_of(store, CRAWL, str(out), overwrite=True)):
        await settle_page(store, [2])
        await drained(store)
    assert numbers_in(out) == [1]  # until the crawl has succeeded
    assert numbers_in(Path(draft_of(str(out)))) == [2]
    publish({str(out): draft_of(str(out))})
    assert numbers_in(out) == [2]


async def test_a_writer_that_is_cancelled_ends_its_term(store: RedisClient, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    await settle_page(store, [1])
    task = asyncio.create_task(
        writer_of(store, CRAWL, str(out), holder="first", term_s=600.0).run(asyncio.Event())
    )
    await drained(store)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async with running(writer_of(store, CRAWL, str(out), holder="second", term_s=600.0)):
        await settle_page(store, [2])
        await drained(store)
    assert numbers_in(out) == [1, 2]


async def test_a_writer_frees_memory_of_a_full_server(store: RedisClient, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    for number in range(40):
        await settle_page(store, [number])
    await store.do(store.tag(0), "CONFIG", "SET", "maxmemory", "1mb")

    async with running(writer_of(store, CRAWL, str(out))):
        await drained(store)

    assert sorted(numbers_in(out)) == list(range(40))


async def test_an_idle_writer_sends_no_commands(
    store: RedisClient, server: RedisServer, tmp_path: Path
) -> None:
    def commands(info: dict[str, str]) -> int:
        return int(info["total_commands_processed"])

    described = WriterOutput(CRAWL, str(tmp_path / "out.jsonl"), [str(tmp_path / "out.jsonl")])
    stop = asyncio.Event()
    task = asyncio.create_task(OutputWriter(store, described, holder="w", node="here", term_s=60.0).run(stop))

    async def is_waiting() -> bool:
        return int((await server.info())["blocked_clients"]) == 1

    await eventually(is_waiting)
    before = commands(await server.info())
    await asyncio.sleep(1.0)
    assert commands(await server.info()) - before <= 2  # including this one
    stop.set()
    await task


async def test_items_of_a_cluster_reach_the_output_once(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    async with shared_cluster() as servers, RedisClient.open(servers.dsn) as store:
        await begin(store)
        for number in range(100):
            await settle_page(store, [number])
        async with running(writer_of(store, CRAWL, str(out))):
            await drained(store)
            await settle_page(store, [100])
            await drained(store)

    assert sorted(numbers_in(out)) == list(range(101))


# Processes that are killed and suspended


async def test_a_writer_that_is_killed_repeatedly_loses_and_duplicates_nothing(
    store: RedisClient, server: RedisServer, tmp_path: Path
) -> None:
    out, rng, count = tmp_path / "out.jsonl", random.Random(4), 0
    for round_number in range(6):
        worker = await WriterProcess.start(str(store.dsn), CRAWL, str(out), f"w{round_number}")
        for _ in range(rng.randint(20, 60)):
            await settle_page(store, range(count, count + 3))
            count += 3
        if round_number == 3:
            server.kill()
            await server.begin()
        await worker.kill()
    last = await WriterProcess.start(str(store.dsn), CRAWL, str(out), "last")
    await drained(store)
    await last.end()

    assert sorted(numbers_in(out)) == list(range(count))


async def test_a_suspended_writer_cannot_overwrite_its_successor(store: RedisClient, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    workers = [await WriterProcess.start(str(store.dsn), CRAWL, str(out), f"w{n}") for n in range(2)]
    count = 0
    for turn in range(4):
        stopped = workers[turn % 2].process
        stopped.send_signal(signal.SIGSTOP)
        for _ in range(30):
            await settle_page(store, [count])
            count += 1
        await asyncio.sleep(TERM_S * 2)  # another one is elected
        stopped.send_signal(signal.SIGCONT)
    await drained(store)
    for worker in workers:
        await worker.end()

    assert sorted(numbers_in(out)) == list(range(count))


async def test_suspended_and_killed_writers_write_every_item_once_to_a_table(
    store: RedisClient, database: str
) -> None:
    output, count = f"{database}?table=streamed", 0
    workers = [await WriterProcess.start(str(store.dsn), CRAWL, output, f"w{n}") for n in range(2)]
    for turn in range(4):
        victim = workers[turn % 2]
        victim.process.send_signal(signal.SIGSTOP)
        for _ in range(30):
            await settle_page(store, [count])
            count += 1
        await asyncio.sleep(TERM_S * 2)
        victim.process.send_signal(signal.SIGCONT)
        if turn > 1:
            await victim.kill()
            workers[turn % 2] = await WriterProcess.start(str(store.dsn), CRAWL, output, f"v{turn}")
    await drained(store)
    for worker in workers:
        await worker.end()

    rows = await asyncio.to_thread(ask, database, "SELECT (item->>'n')::int AS n FROM streamed")
    assert sorted(row["n"] for row in rows) == list(range(count))


async def test_a_writer_that_cannot_reach_its_table_hands_over(store: RedisClient, database: str) -> None:
    """The same output for both, with two addresses."""
    place = urlsplit(database)
    way = f"postgresql://{place.path}?user=postgres&host=127.0.0.1&table=reached&port={place.port}"
    nowhere = f"{way.rpartition('=')[0]}={free_port()}"
    term = RETRY_S + 3.0  # longer than one attempt, so that it could be renewed between attempts
    lost, found = (writer_of(store, CRAWL, dsn, holder=dsn, term_s=term) for dsn in (nowhere, way))
    for number in range(20):
        await settle_page(store, [number])

    async def fails() -> bool:
        return lost.state is WriterState.FAILING

    async with running(lost):
        await eventually(fails)
        async with running(found):
            await drained(store)

    rows = await asyncio.to_thread(ask, database, "SELECT (item->>'n')::int AS n FROM reached")
    assert sorted(row["n"] for row in rows) == list(range(20))
    assert (lost.items, found.items) == (0, 20)


async def test_a_writer_creates_no_keys_of_a_deleted_crawl(store: RedisClient, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    await settle_page(store, [1])
    async with running(writer_of(store, CRAWL, str(out))):
        await drained(store)
        for tag in store.tags():  # as deleting a crawl does
            await store.do(tag, "HDEL", f"{tag}:c", CRAWL)
            await store.do(tag, "DEL", *(f"{tag}:{name}:{CRAWL}" for name in ("items", "written", "writer")))
        await asyncio.sleep(TERM_S * 2)  # so that it has to renew its term

    assert [await store.do(tag, "KEYS", f"{tag}:*:{CRAWL}") for tag in store.tags()] == [[]] * store.shards
    assert numbers_in(out) == [1]
