"""The Redis store where masters are replaced: what was promised is still there, and nobody has to be told."""

import asyncio
import itertools
from pathlib import Path

import pytest
from tests.servers.redis import RedisCluster, RedisServer, cluster, sentinels

from shoal.redis_client import EPOCH, RedisClient, Script
from shoal.redis_client.topology import slot_of

NOTE = Script("note", "redis.call('SADD', KEYS[1] .. ':notes', ARGV[1]) return ARGV[2]")


async def write(store: RedisClient, promised: asyncio.Queue[str], writer: int) -> None:
    """Write notes for ever, and hand on those that were promised."""
    for number in itertools.count():
        note = f"{writer}/{number}"
        await store.run(NOTE, store.tag_of(note), [note, EPOCH], replicated=True)
        promised.put_nowait(note)


async def notes(store: RedisClient) -> set[str]:
    found: set[str] = set()
    for tag in store.tags():
        found |= {note.decode() for note in await store.do(tag, "SMEMBERS", f"{tag}:m:notes")}
    return found


async def lose(store: RedisClient, victim: RedisServer) -> set[str]:
    """Kill a master while notes are written; return those that were promised, before and after."""
    promised: asyncio.Queue[str] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        writers = [group.create_task(write(store, promised, writer)) for writer in range(8)]
        noted = {await promised.get() for _ in range(200)}
        victim.kill()
        while not promised.empty():
            noted.add(promised.get_nowait())
        for tag in store.tags():  # answered again, all of them: somebody else is the master now
            await store.do(tag, "EXISTS", f"{tag}:m")
        noted |= {await promised.get() for _ in range(200)}
        for writer in writers:
            writer.cancel()
    return noted


@pytest.mark.slow
async def test_sentinels_replace_a_master_and_no_promise_is_lost(tmp_path: Path) -> None:
    async with sentinels(tmp_path) as servers, RedisClient.open(servers.dsn) as store:
        epoch = await store.epoch(store.tag(0))
        promised = await lose(store, await servers.master())

        assert await notes(store) >= promised
        assert await store.epoch(store.tag(0)) != epoch


@pytest.mark.slow
async def test_a_cluster_replaces_a_master_moves_slots_and_loses_no_promise(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, RedisClient.open(servers.dsn) as store:
        assert store.shards == 64
        await a_slot_on_the_move_is_waited_for(servers, store)
        await a_slot_that_has_moved_is_found(servers, store)
        promised = await lose(store, (await servers.masters())[0])

        assert await notes(store) >= promised


async def a_slot_on_the_move_is_waited_for(servers: RedisCluster, store: RedisClient) -> None:
    """ASK is not followed: the script would find an empty shard on the other server, and begin a second one."""
    tag = store.tag(0)
    source, target = await source_and_target(servers, tag)
    slot = slot_of(tag)
    source_id, target_id = await source.ask("CLUSTER", "MYID"), await target.ask("CLUSTER", "MYID")
    await target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
    await source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
    await source.ask("DEL", f"{tag}:m")  # so that the source says ASK
    call = asyncio.create_task(store.run(NOTE, tag, ["moving", EPOCH]))
    await asyncio.sleep(0.3)
    assert not call.done()
    for server in (source, target):
        await server.ask("CLUSTER", "SETSLOT", slot, "STABLE")
    assert (await call).decode() == (await source.info())["run_id"]


async def a_slot_that_has_moved_is_found(servers: RedisCluster, store: RedisClient) -> None:
    tag = "{moved}"  # none of the frontier's: its slot is empty
    await store.run(NOTE, tag, ["x", EPOCH])
    await store.do(tag, "DEL", f"{tag}:m:notes")
    source, target = await source_and_target(servers, tag)
    for server in (target, source, *servers.servers):
        if (await server.info())["role"] == "master":
            await server.ask("CLUSTER", "SETSLOT", slot_of(tag), "NODE", await target.ask("CLUSTER", "MYID"))
    epoch = await store.run(NOTE, tag, ["y", EPOCH])
    assert epoch.decode() == (await target.info())["run_id"]


async def source_and_target(servers: RedisCluster, tag: str) -> tuple[RedisServer, RedisServer]:
    """Find the master that has a tag, and one that has not."""
    masters = await servers.masters()
    for first, last, [_, port, *_], *_ in await masters[0].ask("CLUSTER", "SLOTS"):
        if first <= slot_of(tag) <= last:
            [source] = [master for master in masters if master.port == port]
            return source, next(master for master in masters if master is not source)
    raise AssertionError(f"nobody has {tag}")
