"""Streams in many shards, read as one: on one server and on a cluster."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.servers.redis import valkey
from tests.servers.shared import shared_cluster

from shoal.redis_client import RedisClient
from shoal.redis_client.streams import ShardStreams


@pytest.fixture(params=["valkey", "cluster"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RedisClient]:
    async with (valkey if request.param == "valkey" else shared_cluster)(tmp_path) as server:
        async with RedisClient.open(server.dsn) as opened:
            yield opened


async def test_streams_of_all_shards_are_read_as_one(store: RedisClient) -> None:
    streams, stop = ShardStreams(store, lambda tag: f"{tag}:notes"), asyncio.Event()

    async def put(shard: int, text: str) -> None:
        await store.do(store.tag(shard), "XADD", streams.key(shard), "*", "text", text)

    assert await streams.read({}, count=10) == []
    shards = [0, 3, store.shards - 1]
    for shard in shards:
        await put(shard, f"first of {shard}")
        await put(shard, f"second of {shard}")
    found = await streams.read({}, count=10)
    assert [(entry.shard, entry.fields[b"text"].decode()) for entry in found] == [
        (shard, f"{which} of {shard}") for shard in shards for which in ("first", "second")
    ]
    assert len(await streams.read({}, count=1)) == len(shards)
    assert await streams.length() == 2 * len(shards)

    positions = {entry.shard: entry.id for entry in found}
    assert await streams.read(positions, count=10) == []
    await streams.wait(positions, seconds=0.1, stop=stop)  # times out
    waiting = asyncio.create_task(streams.wait(positions, seconds=60.0, stop=stop))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await put(3, "third")
    await waiting
    [entry] = await streams.read(positions, count=10)
    assert entry.fields == {b"text": b"third"}

    waiting = asyncio.create_task(streams.wait({**positions, 3: entry.id}, seconds=60.0, stop=stop))
    stop.set()
    await waiting
