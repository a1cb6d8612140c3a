"""The Redis client on real servers: a call returns or raises, whatever happens to the server."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.servers.process import until
from tests.servers.redis import RedisServer, redis7, valkey

from shoal.model.errors import Misconfigured, Unavailable
from shoal.redis_client import EPOCH, Full, RedisClient, Script, ScriptFault
from shoal.redis_client.fan_out import fan_out
from shoal.redis_client.servers import CONNECTIONS

COUNT = Script("count", "return redis.call('HINCRBY', KEYS[1], 'count', 1)")
KEEP = Script("keep", "redis.call('HSET', KEYS[1], 'kept', ARGV[2]) return ARGV[1]")
WHO = Script("who", "return {ARGV[1], ARGV[2]}")
SHORT = 1.0  # seconds; disturbances of the server last half as long
SERVERS = {"valkey": valkey, "redis7": redis7}


@pytest.fixture(params=sorted(SERVERS))
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RedisServer]:
    options = ("--appendonly", "yes", "--enable-debug-command", "yes", "--busy-reply-threshold", "50")
    loading = ("--loading-process-events-interval-bytes", "2048")
    async with SERVERS[request.param](tmp_path / "server", *options, *loading) as running:
        yield running


@pytest.fixture
async def store(server: RedisServer) -> AsyncIterator[RedisClient]:
    async with RedisClient.open(server.dsn, timeout=SHORT) as opened:
        yield opened


@asynccontextmanager
async def later(act: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Run something half a second from now, while the block runs."""

    async def wait() -> None:
        await asyncio.sleep(0.5)
        await act()

    async with asyncio.TaskGroup() as group:
        group.create_task(wait())
        yield


async def count(store: RedisClient) -> int:
    return int(await store.run(COUNT, store.tag(3), []))


async def test_scripts_are_loaded_where_they_are_missing(server: RedisServer, store: RedisClient) -> None:
    assert await count(store) == 1
    await server.ask("SCRIPT", "FLUSH")
    assert await count(store) == 2


async def test_a_missing_script_is_loaded_once_for_concurrent_calls(
    server: RedisServer, store: RedisClient
) -> None:
    async def loads() -> int:
        told = (await server.info()).get("cmdstat_script|load", "calls=0")
        return int(told.split(",")[0].removeprefix("calls="))

    before = await loads()
    await fan_out(store.run(COUNT, tag, []) for tag in store.tags())

    assert await loads() - before <= CONNECTIONS


@pytest.mark.parametrize(("off_by", "says"), [(1, "newer Shoal"), (-1, "older Shoal")])
async def test_a_store_of_another_version_is_rejected(
    server: RedisServer, store: RedisClient, off_by: int, says: str
) -> None:
    await server.ask("HINCRBY", f"{{{store.namespace}}}:meta", "schema", off_by)
    with pytest.raises(Misconfigured, match=says):
        async with RedisClient.open(server.dsn, timeout=SHORT):
            pass


async def test_callers_share_a_connection_and_get_the_right_replies(store: RedisClient) -> None:
    asked = [f"caller {number}" for number in range(500)]
    answers = await asyncio.gather(*(store.run(WHO, store.tag(1), [who, 0]) for who in asked))

    assert [who.decode() for who, _ in answers] == asked


async def test_a_cancelled_caller_does_not_shift_the_replies_of_others(store: RedisClient) -> None:
    await store.run(WHO, store.tag(1), ["", ""])
    calls = [asyncio.create_task(store.run(WHO, store.tag(1), [str(n), ""])) for n in range(50)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    done = await asyncio.gather(*calls, return_exceptions=True)

    assert [answer[0] for answer in done[1::2] if isinstance(answer, list)] == [
        str(n).encode() for n in range(1, 50, 2)
    ]


async def test_a_pipeline_takes_one_round_trip(store: RedisClient) -> None:
    key = f"{store.tag(2)}:x"

    assert await store.pipeline(store.tag(2), [("SET", key, b"\x00\xff"), ("GET", key)]) == [
        b"OK",
        b"\x00\xff",
    ]
    assert await store.do(store.tag(2), "STRLEN", key) == 2
    assert await store.pipeline(store.tag(2), []) == []


async def test_a_blocking_command_does_not_delay_other_calls(store: RedisClient) -> None:
    stream = f"{store.tag(2)}:stream"
    async with later(lambda: store.do(store.tag(2), "XADD", stream, "*", "k", "v")):
        [[name, entries]] = await store.block(
            store.tag(2), 5.0, "XREAD", "BLOCK", 5000, "STREAMS", stream, "0"
        )

    assert name.decode() == stream
    assert len(entries) == 1


async def test_repeated_blocking_commands_use_one_connection(server: RedisServer, store: RedisClient) -> None:
    tag = store.tag(0)
    await store.block(tag, 0.01, "XREAD", "BLOCK", 10, "STREAMS", f"{tag}:s", "$")
    connected = (await server.info())["total_connections_received"]
    await store.block(tag, 0.01, "XREAD", "BLOCK", 10, "STREAMS", f"{tag}:s", "$")

    assert int((await server.info())["total_connections_received"]) == int(connected) + 1  # it is ours


async def test_a_cancelled_blocking_command_closes_its_connection(store: RedisClient) -> None:
    tag = store.tag(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await store.block(tag, 60, "XREAD", "BLOCK", 60_000, "STREAMS", f"{tag}:s", "$")
    await store.do(tag, "XADD", f"{tag}:s", "*", "a", "b")

    assert await store.block(tag, 0.01, "XREAD", "BLOCK", 10, "STREAMS", f"{tag}:s", "$") is None


async def test_a_durable_call_writes_to_all_its_shards(store: RedisClient) -> None:
    calls = {store.tag(shard): [shard, "x"] for shard in (3, 4, 5)}
    answers = await store.run_durable(KEEP, calls, connection="w")

    assert answers == {store.tag(shard): str(shard).encode() for shard in (3, 4, 5)}
    assert await store.run_durable(KEEP, {}, connection="w") == {}


async def test_waiting_for_a_disk_does_not_delay_other_calls(tmp_path: Path) -> None:
    async with valkey(tmp_path / "server", "--appendonly", "yes") as server:
        async with RedisClient.open(server.dsn) as store:
            await store.sync()
            await server.ask("CONFIG", "SET", "appendfsync", "no")  # never confirmed to be on disk
            waiting = asyncio.create_task(store.sync())
            await until(_is_waited_for, server)
            assert await count(store) == 1
            assert not waiting.done()
            await server.ask("CONFIG", "SET", "appendfsync", "always")
            await waiting


async def _is_waited_for(server: RedisServer) -> bool:
    return (await server.info())["blocked_clients"] == "1"


async def test_a_durable_call_does_not_wait_for_an_aof_that_was_switched_off(tmp_path: Path) -> None:
    async with valkey(tmp_path / "server", "--appendonly", "yes") as server:
        async with RedisClient.open(server.dsn) as store:
            keep = partial(store.run_durable, KEEP, {store.tag(3): ["a", ""]}, connection="w")
            await keep()
            await server.ask("CONFIG", "SET", "appendonly", "no")
            assert await keep() == {store.tag(3): b"a"}


async def test_a_user_without_waitaof_gets_a_warning_and_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with valkey(tmp_path / "server", "--appendonly", "yes") as server:
        await server.ask("ACL", "SETUSER", "careless", "on", ">x", "~*", "+@all", "-waitaof")
        async with RedisClient.open(f"redis://careless:x@127.0.0.1:{server.port}") as store:
            assert await store.run_durable(KEEP, {store.tag(3): ["a", ""]}, connection="w") == {
                store.tag(3): b"a"
            }
    assert "+waitaof" in str([vars(record).get("advice") for record in caplog.records])


async def test_an_error_in_a_script_is_not_retried(store: RedisClient) -> None:
    with pytest.raises(ScriptFault, match=r"127\.0\.0\.1"):
        await store.run(Script("wrong", "return redis.call('GET')"), store.tag(0), [])


async def test_calls_reconnect_to_a_server_that_was_killed_and_restarted(
    server: RedisServer, store: RedisClient
) -> None:
    await count(store)
    before = await store.epoch(store.tag(3))
    server.kill()
    async with later(server.begin):
        counted = await count(store)

    assert counted == 2  # the append-only file had the first
    assert await store.epoch(store.tag(3)) != before


async def test_a_script_receives_the_run_id_of_its_server_process(
    server: RedisServer, store: RedisClient
) -> None:
    first, _ = await store.run(WHO, store.tag(3), [EPOCH, ""])
    again, _ = await store.run(WHO, store.tag(4), [EPOCH, ""])
    server.kill()
    await server.begin()
    # The call is first sent to the old connection; what counts is the process that answers.
    after, _ = await store.run(WHO, store.tag(3), [EPOCH, ""])

    assert first == again != after
    assert after.decode() == (await server.info())["run_id"]


async def test_calls_retry_while_a_server_is_stopped(server: RedisServer, store: RedisClient) -> None:
    await count(store)

    async def go_on() -> None:
        await asyncio.sleep(SHORT)
        server.signal(signal.SIGCONT)

    server.signal(signal.SIGSTOP)
    async with later(go_on):
        # A call that reached the server before it stopped takes effect, so it may run twice.
        assert await count(store) in (2, 3)


async def test_calls_to_a_server_that_never_answers_fail_after_their_patience(server: RedisServer) -> None:
    async with RedisClient.open(f"{server.dsn}?patience_s=0.3", timeout=0.3) as store:
        server.kill()
        with pytest.raises(Unavailable, match="cannot be reached"):
            await count(store)


async def test_calls_retry_while_a_server_loads_its_data(server: RedisServer, store: RedisClient) -> None:
    # It answers between two kilobytes of data (as configured), and loads each key slowly.
    await store.pipeline(store.tag(3), [("SET", f"{store.tag(3)}:{n}", os.urandom(2048)) for n in range(60)])
    await server.ask("CONFIG", "SET", "key-load-delay", 10_000)
    await count(store)
    loading = asyncio.create_task(server.ask("DEBUG", "RELOAD"))
    await until(_loads, server)

    assert await count(store) == 2
    await loading


async def _loads(server: RedisServer) -> bool:
    return (await server.info())["loading"] == "1"


async def test_calls_retry_while_a_long_script_runs(server: RedisServer, store: RedisClient) -> None:
    endless = asyncio.create_task(server.ask("EVAL", "while true do end", 0))
    await asyncio.sleep(0.2)
    async with later(lambda: server.ask("SCRIPT", "KILL")):
        assert await count(store) == 1
    with pytest.raises(ScriptFault, match="killed"):
        await endless


async def test_calls_retry_until_a_demoted_server_is_master_again(
    server: RedisServer, store: RedisClient
) -> None:
    await count(store)
    await server.ask("REPLICAOF", "127.0.0.1", 1)
    async with later(lambda: server.ask("REPLICAOF", "NO", "ONE")):
        assert await count(store) == 2


async def test_calls_retry_while_a_master_lacks_replicas(server: RedisServer, store: RedisClient) -> None:
    await server.ask("CONFIG", "SET", "min-replicas-to-write", 1)
    async with later(lambda: server.ask("CONFIG", "SET", "min-replicas-to-write", 0)):
        assert await count(store) == 1


async def test_a_full_server_raises_at_once(server: RedisServer, store: RedisClient) -> None:
    await count(store)
    await server.ask("CONFIG", "SET", "maxmemory", 1)
    with pytest.raises(Full, match="is full"):
        await count(store)
    # Calls that free memory still run.
    drain = Script("drain", "#!lua flags=allow-oom\nreturn redis.call('HINCRBY', KEYS[1], 'count', 1)")
    assert await store.run(drain, store.tag(3), []) == 2


async def test_calls_retry_while_the_disk_of_a_server_fails(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    async with valkey(folder, "--save", "3600 1") as server, RedisClient.open(server.dsn) as store:
        shutil.rmtree(folder)
        await server.ask("BGSAVE")
        await until(_cannot_save, server)

        async def repair_disk() -> None:
            folder.mkdir()
            await server.ask("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")

        async with later(repair_disk):
            assert await count(store) == 1


async def _cannot_save(server: RedisServer) -> bool:
    return (await server.info())["rdb_last_bgsave_status"] == "err"


async def test_a_server_that_evicts_is_rejected(server: RedisServer) -> None:
    await server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    with pytest.raises(Misconfigured, match="maxmemory-policy allkeys-lru"):
        async with RedisClient.open(server.dsn):
            pass


async def test_the_first_client_fixes_the_number_of_shards(server: RedisServer, store: RedisClient) -> None:
    assert store.shards == 16
    await server.ask("HSET", "{other}:meta", "shards", 5)
    async with RedisClient.open(f"{server.dsn}?namespace=other") as other:
        assert other.tags() == [f"{{other:{shard:02}}}" for shard in range(5)]


async def test_users_and_passwords(
    server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await server.ask("ACL", "SETUSER", "crawler", "on", ">hunter2", "~*", "+@all", "-config")
    await server.ask("ACL", "SETUSER", "default", "off")
    address = f"127.0.0.1:{server.port}"
    async with RedisClient.open(f"redis://crawler:hunter2@{address}") as store:
        assert await count(store) == 1
    (tmp_path / "password").write_text("hunter2\n")
    async with RedisClient.open(f"redis://crawler@{address}?password_file={tmp_path / 'password'}") as store:
        assert await count(store) == 2
    for dsn, complaint in {
        f"redis://{address}": "requires a password",
        f"redis://crawler:hunter3@{address}": "rejects this user",
    }.items():
        with pytest.raises(Misconfigured, match=complaint) as caught:
            async with RedisClient.open(dsn):
                pass
        assert "hunter" not in f"{caught.value} {caplog.text}"


async def test_a_user_with_too_few_permissions_is_rejected(server: RedisServer) -> None:
    await server.ask("ACL", "SETUSER", "reader", "on", ">x", "~*", "+@read", "+info", "-eval", "-evalsha")
    with pytest.raises(Misconfigured, match="does not allow this user to run"):
        async with RedisClient.open(f"redis://reader:x@127.0.0.1:{server.port}"):
            pass
