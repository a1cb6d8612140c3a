"""Addresses of Redis stores: every kind, and the errors for wrong ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.servers.process import free_port, until
from tests.servers.redis import (
    SERVICE,
    RedisServer,
    redis7,
    sentinel,
    valkey,
    valkey_program,
)

from shoal.frontier.redis import RedisFrontier
from shoal.model.errors import Misconfigured, Unavailable
from shoal.redis_client import RedisClient, Script
from shoal.testing.contracts.frontier import UNLIMITED, link

COUNT = Script("count", "return redis.call('HINCRBY', KEYS[1], 'count', 1)")
SERVERS = {"valkey": valkey, "redis7": redis7}


async def count(dsn: str) -> int:
    """Open a store and increment a counter there."""
    async with RedisClient.open(dsn, timeout=2.0, advise=False) as store:
        return int(await store.run(COUNT, store.tag(3), []))


async def refusal(dsn: str) -> str:
    """Return the error for an address that cannot work, raised at once."""
    with pytest.raises(Misconfigured) as caught:
        await count(dsn)
    return str(caught.value)


@pytest.fixture(params=sorted(SERVERS))
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RedisServer]:
    socket = ("--unixsocket", str(tmp_path / "s"), "--databases", "4")
    async with SERVERS[request.param](tmp_path / "server", *socket) as running:
        yield running


async def test_one_server_has_several_addresses_and_each_database_is_a_store(
    server: RedisServer, tmp_path: Path
) -> None:
    mapped = f"redis://[::ffff:127.0.0.1]:{server.port}"  # an IPv4 address, mapped to IPv6
    addresses = [f"redis://127.0.0.1:{server.port}/0", mapped, f"redis+unix://{tmp_path / 's'}"]
    assert [await count(dsn) for dsn in addresses] == [1, 2, 3]
    assert [await count(dsn) for dsn in (f"{mapped}/3", f"redis+unix://{tmp_path / 's'}?db=3")] == [1, 2]
    assert "not have that many databases" in await refusal(f"{mapped}/4")


async def test_users_and_passwords_may_have_any_characters(server: RedisServer) -> None:
    user, password = "us:er@/?#%&+ü", "p:a@s/s?w#o%r&d+[ü] "
    await server.ask("ACL", "SETUSER", user, "on", f">{password}", "~*", "+@all")
    assert await count(f"redis://{quote(user, safe='')}:{quote(password, safe='')}@{server.address}") == 1
    await server.ask("CONFIG", "SET", "requirepass", password)
    assert await count(f"redis://:{quote(password, safe='')}@{server.address}") == 2


async def test_fleets_in_one_database_are_separate(server: RedisServer) -> None:
    names = ("one", "one-more", "on")  # one is a prefix of another
    stores = [f"{server.dsn}?namespace={name}" for name in names]
    for number, dsn in enumerate(stores, 1):
        async with RedisFrontier.open(dsn) as frontier:
            await frontier.crawls.open("c", pace=UNLIMITED)
            assert (await frontier.add("c", [link(str(n)) for n in range(number)])).new == number
    async with RedisFrontier.open(stores[0]) as frontier:
        await frontier.crawls.delete("c")
    for number, dsn in list(enumerate(stores, 1))[1:]:
        async with RedisFrontier.open(dsn) as frontier:
            await frontier.crawls.open("c")
            leased = 0
            while grant := (await frontier.lease(holder="w", limit=10, ttl=60.0)).leases:
                leased += len(grant)  # a store that answers late is asked for a few of each shard at once
            assert leased == number


@asynccontextmanager
async def one_sentinel(folder: Path, *, password: str = "") -> AsyncIterator[RedisServer]:
    """Run a master, and the one sentinel that watches it."""
    async with valkey(folder / "master") as master:
        watcher = sentinel(valkey_program(), folder / "sentinel", master.port, password=password)
        try:
            await watcher.begin()
            yield watcher
        finally:
            watcher.kill()


async def test_the_second_sentinel_is_asked_if_the_first_is_down(tmp_path: Path) -> None:
    async with one_sentinel(tmp_path) as watcher:
        dsn = f"redis+sentinel://127.0.0.1:{free_port()},{watcher.address}"
        assert await count(f"{dsn}/{SERVICE}") == 1
        assert await count(f"{dsn}/{SERVICE}?db=2") == 1
        assert "knows no master of that name" in await refusal(f"{dsn}/another")
        assert "is a sentinel: use redis+sentinel://" in await refusal(watcher.dsn)


async def test_sentinels_have_separate_passwords(tmp_path: Path) -> None:
    async with one_sentinel(tmp_path, password="sesame") as watcher:
        dsn = f"redis+sentinel://{watcher.address}/{SERVICE}"
        assert await count(f"{dsn}?sentinel_password=sesame") == 1
        for wrong in (dsn, f"{dsn}?sentinel_password=hunter2"):
            said = await refusal(wrong)
            assert "?sentinel_password= are for sentinels" in said
            assert "hunter2" not in said


@pytest.fixture
async def small_cluster(tmp_path: Path) -> AsyncIterator[RedisServer]:
    """A cluster of one server."""
    port = free_port(below=55_535)
    server = RedisServer(valkey_program(), tmp_path / "cluster", "--cluster-enabled", "yes", port=port)
    try:
        await server.begin()
        await server.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
        await until(_is_up, server)
        yield server
    finally:
        server.kill()


async def _is_up(server: RedisServer) -> bool:
    return b"cluster_state:ok" in await server.ask("CLUSTER", "INFO")


async def test_the_second_server_of_a_cluster_is_asked_if_the_first_is_down(
    small_cluster: RedisServer,
) -> None:
    assert await count(f"redis+cluster://127.0.0.1:{free_port()},{small_cluster.address}") == 1
    assert "belongs to a cluster: use redis+cluster://" in await refusal(small_cluster.dsn)


async def test_calls_retry_while_a_cluster_has_no_connection_left(small_cluster: RedisServer) -> None:
    dsn = f"redis+cluster://{small_cluster.address}"
    async with RedisClient.open(dsn) as store:
        await small_cluster.ask("CONFIG", "SET", "maxclients", 1)
        with pytest.raises(Unavailable, match="maxclients"):
            await count(f"{dsn}?patience_s=0.1")
        waiting = asyncio.create_task(count(dsn))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await store.do("{a}", "CONFIG", "SET", "maxclients", 100)
        assert await waiting == 1


async def test_a_server_of_another_kind_is_rejected_and_a_missing_one_retried(server: RedisServer) -> None:
    assert "is not a sentinel: use redis://" in await refusal(f"redis+sentinel://{server.address}/mymaster")
    assert "is not a cluster: use redis://" in await refusal(f"redis+cluster://{server.address}")
    with pytest.raises(Unavailable, match="is this a TLS port"):
        await count(f"rediss://{server.address}?patience_s=0")
    with pytest.raises(Unavailable, match="Connection refused"):
        await count(f"redis://127.0.0.1:{free_port()}?patience_s=0")
    with pytest.raises(Unavailable, match="No such file"):
        await count("redis+unix:///nowhere/s?patience_s=0")


async def test_a_server_that_does_not_speak_redis_is_rejected() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        assert "does not speak Redis" in await refusal(f"redis://{address}")
        assert "does not speak TLS" in await refusal(f"rediss://{address}")


@pytest.mark.parametrize("command", ["EVALSHA", "INFO"])
async def test_a_server_that_lacks_a_command_is_rejected(tmp_path: Path, command: str) -> None:
    server = RedisServer(valkey_program(), tmp_path / "server", "--rename-command", command, "")
    try:
        await server.begin()
        said = await refusal(server.dsn)
    finally:
        server.kill()
    assert (
        f"does not know a required command: was it renamed, or is there a proxy in between? ({command})"
        in said
    )


async def test_a_missing_permission_is_named(server: RedisServer) -> None:
    async def said(*rule: str) -> str:
        await server.ask("ACL", "SETUSER", "u", "reset", "on", ">x", *rule)
        return await refusal(f"redis://u:x@{server.address}")

    assert "(EVALSHA)" in await said("~*", "+@all", "-evalsha")
    assert "(INFO)" in await said("~*", "+@all", "-info")
    assert "its keys start with {shoal" in await said("~other*", "+@all")


class Relay:
    """A proxy that can stop passing data without closing connections, as when a cable is cut."""

    def __init__(self, server: RedisServer) -> None:
        self.dsn = ""
        self._server = server
        self._silent = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def to(cls, server: RedisServer) -> AsyncIterator["Relay"]:
        relay, serving = cls(server), set[asyncio.Task[None]]()
        async with asyncio.TaskGroup() as group:

            def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                serving.add(group.create_task(relay._serve(reader, writer)))

            async with await asyncio.start_server(accept, "127.0.0.1", 0) as listening:
                relay.dsn = f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
                yield relay
            for task in serving:
                task.cancel()

    def cut(self) -> None:
        """Stop passing data on existing connections; new ones work."""
        self._silent.set()
        self._silent = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        silent = self._silent
        there, back = await asyncio.open_connection("127.0.0.1", self._server.port)

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                while data := await source.read(65536):
                    if not silent.is_set():
                        target.write(data)

        try:
            await asyncio.gather(pump(reader, back), pump(there, writer))
        finally:
            for end in (back, writer):
                end.transport.abort()
                with suppress(ConnectionError):
                    await end.wait_closed()


async def test_a_connection_that_stops_responding_is_replaced(server: RedisServer) -> None:
    async with Relay.to(server) as relay, RedisClient.open(relay.dsn, timeout=0.5, advise=False) as store:
        stream = f"{store.tag(3)}:stream"
        waiting = asyncio.create_task(
            store.block(store.tag(3), 0.5, "XREAD", "BLOCK", 500, "STREAMS", stream, "0")
        )
        await asyncio.sleep(0.2)
        relay.cut()
        async with asyncio.timeout(20.0):
            # A call that reached the server may have taken effect, so it may run twice.
            assert await store.run(COUNT, store.tag(3), []) in (1, 2)
            assert await waiting is None
