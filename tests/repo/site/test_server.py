"""The server behind the acceptance tests, over real sockets."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.site.graph import Graph, Shape
from tests.site.server import ServedSite, serving

SHAPE = Shape(pages=20, hosts=3, latency_s={2: 30.0})


@pytest.fixture
async def site() -> AsyncIterator[ServedSite]:
    spec = msgspec.json.encode(SHAPE).decode()
    async with serving("tests.site.graph_site:build", spec, hosts=SHAPE.hosts) as served:
        yield served


class Client:
    """One connection that sends requests by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, authority: str) -> "Client":
        return cls(*await asyncio.open_connection(*authority.split(":")))

    async def send(self, path: str) -> None:
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: any\r\n\r\n".encode())
        await self._writer.drain()

    async def status(self) -> int:
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await self._reader.readexactly(length)
        return int(head.split()[1])

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def test_hosts_differ_by_address_and_every_request_is_remembered(site: ServedSite) -> None:
    graph = Graph(SHAPE, site.authorities)
    for node in graph.nodes[:2]:
        client = await Client.to(site.authorities[node.host])
        for path in (node.path, "/nowhere", "/robots.txt"):
            await client.send(path)
            await client.status()
        await client.close()

    hits = await site.hits()

    assert len(set(site.authorities)) == 3
    assert [(hit.url, hit.status) for hit in hits] == [
        (f"http://{authority}{path}", status)
        for authority, node in zip(site.authorities, graph.nodes[:2], strict=False)
        for path, status in ((node.path, 200), ("/nowhere", 404), ("/robots.txt", 200))
    ]
    assert all(hit.arrived <= hit.ended for hit in hits)
    assert await site.served() == 2


async def test_a_request_is_dated_by_its_arrival_even_while_the_server_is_held_up(site: ServedSite) -> None:
    client = await Client.to(site.authorities[0])
    os.kill(site.pid, signal.SIGSTOP)
    before = time.time()
    await client.send("/")
    after = time.time()
    await asyncio.sleep(0.01)  # let the clock move on, so that a late date would show
    os.kill(site.pid, signal.SIGCONT)
    assert await client.status() == 200
    await client.close()

    [hit] = await site.hits()

    assert before <= hit.arrived <= after
    assert hit.ended > after


async def test_a_request_ends_when_its_client_goes_away(site: ServedSite) -> None:
    client = await Client.to(site.authorities[2])
    await client.send("/section-2/2.html")
    async with asyncio.timeout(10):
        while not (hits := await site.hits()):
            pass
        assert hits[0].ended == float("inf")

        await client.close()

        while hits[0].ended == float("inf"):
            hits = await site.hits()
