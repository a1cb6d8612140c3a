"""Failover: replicated writes survive the replacement of a master, and clients find the new one."""

import asyncio
import itertools
from pathlib import Path

import pytest
from tests.servers.redis import RedisCluster, RedisServer, cluster, sentinels

from shoal.redis_client import EPOCH, RedisClient, Script
from shoal.redis_client.topology import slot_of

NOTE = Script("note", "redis.call('SADD', KEYS[1] .. ':notes', ARGV[1]) return ARGV[2]")


async def write(store: RedisClient, replicated: asyncio.Queue[str], writer: int) -> None:
    """Write notes without end, and pass on those that were replicated."""
    for number in itertools.count():
        note = f"{writer}/{number}"
        await store.run(NOTE, store.tag_of(note), [note, EPOCH], replicated=True)
        replicated.put_nowait(note)


async def notes(store: RedisClient) -> set[str]:
    found: set[str] = set()
    for tag in store.tags():
        found |= {note.decode() for note in await store.do(tag, "SMEMBERS", f"{tag}:m:notes")}
    return found


async def lose(store: RedisClient, victim: RedisServer) -> set[str]:
    """Kill a master while notes are written; return those that were replicated, before and after."""
    replicated: asyncio.Queue[str] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        writers = [group.create_task(write(store, replicated, writer)) for writer in range(8)]
        noted = {await replicated.get() for _ in range(200)}
        victim.kill()
        while not replicated.empty():
            noted.add(replicated.get_nowait())
        for tag in store.tags():  # all are answered again: there is a new master
            await store.do(tag, "EXISTS", f"{tag}:m")
        noted |= {await replicated.get() for _ in range(200)}
        for writer in writers:
            writer.cancel()
    return noted


@pytest.mark.slow
async def test_sentinels_replace_a_master_and_no_replicated_write_is_lost(tmp_path: Path) -> None:
    async with sentinels(tmp_path) as servers, RedisClient.open(servers.dsn) as store:
        epoch = await store.epoch(store.tag(0))
        replicated = await lose(store, await servers.master())

        assert await notes(store) >= replicated
        assert await store.epoch(store.tag(0)) != epoch


@pytest.mark.slow
async def test_a_cluster_replaces_a_master_and_moves_slots_without_losing_replicated_writes(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as servers, RedisClient.open(servers.dsn) as store:
        assert store.shards == 64
        await calls_retry_while_a_slot_is_moved(servers, store)
        await a_slot_that_has_moved_is_found(servers, store)
        replicated = await lose(store, (await servers.masters())[0])

        assert await notes(store) >= replicated


async def calls_retry_while_a_slot_is_moved(servers: RedisCluster, store: RedisClient) -> None:
    """ASK is not followed: on the other server the script would create a second, empty shard."""
    tag = store.tag(0)
    source, target = await source_and_target(servers, tag)
    slot = slot_of(tag)
    source_id, target_id = await source.ask("CLUSTER", "MYID"), await target.ask("CLUSTER", "MYID")
    await target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
    await source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
    await source.ask("DEL", f"{tag}:m")  # so that the source replies ASK
    call = asyncio.create_task(store.run(NOTE, tag, ["moving", EPOCH]))
    await asyncio.sleep(0.3)
    assert not call.done()
    for server in (source, target):
        await server.ask("CLUSTER", "SETSLOT", slot, "STABLE")
    assert (await call).decode() == (await source.info())["run_id"]


async def a_slot_that_has_moved_is_found(servers: RedisCluster, store: RedisClient) -> None:
    tag = "{moved}"  # not a shard of the frontier: its slot is empty
    await store.run(NOTE, tag, ["x", EPOCH])
    await store.do(tag, "DEL", f"{tag}:m:notes")
    source, target = await source_and_target(servers, tag)
    for server in (target, source, *servers.servers):
        if (await server.info())["role"] == "master":
            await server.ask("CLUSTER", "SETSLOT", slot_of(tag), "NODE", await target.ask("CLUSTER", "MYID"))
    epoch = await store.run(NOTE, tag, ["y", EPOCH])
    assert epoch.decode() == (await target.info())["run_id"]


async def source_and_target(servers: RedisCluster, tag: str) -> tuple[RedisServer, RedisServer]:
    """Return the master that has a tag, and another one."""
    masters = await servers.masters()
    for first, last, [_, port, *_], *_ in await masters[0].ask("CLUSTER", "SLOTS"):
        if first <= slot_of(tag) <= last:
            [source] = [master for master in masters if master.port == port]
            return source, next(master for master in masters if master is not source)
    raise AssertionError(f"no master has {tag}")
