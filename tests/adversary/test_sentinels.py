"""Sentinels that name a false master: which server gets the password of the store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.servers.redis import RedisServer, valkey, valkey_program

from shoal.model.errors import Misconfigured, Unavailable
from shoal.redis_client import RedisClient

PASSWORD = "correct-horse"


@asynccontextmanager
async def listening(answer: bytes) -> AsyncIterator[tuple[int, bytearray]]:
    """Answer whatever arrives with the same bytes; record what arrives."""
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(4096):
            received.extend(data)
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], received


@asynccontextmanager
async def locked(folder: Path) -> AsyncIterator[RedisServer]:
    """Run a master that asks for the password."""
    server = RedisServer(valkey_program(), folder, "--requirepass", PASSWORD, password=PASSWORD)
    try:
        await server.begin()
        yield server
    finally:
        server.kill()


def naming(host: str, port: int | str) -> bytes:
    return b"*2\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (
        len(host),
        host.encode(),
        len(str(port)),
        str(port).encode(),
    )


async def shards(dsn: str) -> int:
    async with RedisClient.open(dsn) as client:
        return client.shards


async def test_one_sentinel_of_three_does_not_decide_who_gets_the_password(tmp_path: Path) -> None:
    async with (
        locked(tmp_path / "master") as master,
        listening(b"+OK\r\n") as (thief, stolen),
        AsyncExitStack() as stack,
    ):
        ports = [
            (await stack.enter_async_context(listening(naming("127.0.0.1", port))))[0]
            for port in (thief, master.port, master.port)
        ]
        where = ",".join(f"127.0.0.1:{port}" for port in ports)
        for _ in range(5):
            assert await shards(f"redis+sentinel://:{PASSWORD}@{where}/m?patience_s=5") > 0
        two = ",".join(f"127.0.0.1:{port}" for port in ports[:2])
        with pytest.raises(Unavailable):  # one against one: neither is believed
            await shards(f"redis+sentinel://:{PASSWORD}@{two}/m?patience_s=0.2")
    assert not stolen


@pytest.mark.parametrize(
    "answer", [naming("127.0.0.1", "x"), b"*0\r\n", b"*1\r\n$1\r\na\r\n", b":5\r\n", b"+OK\r\n"]
)
async def test_a_sentinel_whose_answer_is_junk_is_unavailable(answer: bytes) -> None:
    async with listening(answer) as (port, _):
        with pytest.raises((Unavailable, Misconfigured)):
            await shards(f"redis+sentinel://:{PASSWORD}@127.0.0.1:{port}/m?patience_s=0.2")


async def test_the_operator_can_name_the_servers_that_may_be_the_master(tmp_path: Path) -> None:
    async with listening(b"+OK\r\n") as (thief, stolen), listening(naming("127.0.0.1", thief)) as (liar, _):
        dsn = f"redis+sentinel://:{PASSWORD}@127.0.0.1:{liar}/m?patience_s=0.2&servers="
        with pytest.raises(Misconfigured, match="not among"):
            await shards(f"{dsn}10.0.0.0/8,db.example")
        assert not stolen
        with pytest.raises(Misconfigured, match="has a range that is not one"):
            await shards(f"{dsn}10.0.0.1/8")
    async with (
        valkey(tmp_path / "master") as master,
        listening(naming("127.0.0.1", master.port)) as (sentinel, _),
    ):
        assert await shards(f"redis+sentinel://127.0.0.1:{sentinel}/m?servers=10.0.0.0/8,127.0.0.0/30") > 0
    with pytest.raises(Misconfigured, match="servers is for redis"):
        await shards("redis://127.0.0.1:1/?servers=10.0.0.0/8")
