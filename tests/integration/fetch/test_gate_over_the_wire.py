"""The pace as the server sees it: its kernel's clock is the witness."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.site.access_log import gaps
from tests.site.server import ServedSite, serving

from shoal.fetch.gate import LocalTurn, SendGate
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import DnsResolver
from shoal.fetch.http.guard import Guard
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.page import Response


@asynccontextmanager
async def site_and_client(folder: Path) -> AsyncIterator[tuple[ServedSite, HttpClient]]:
    (folder / "index.html").write_text("page")
    async with (
        asyncio.timeout(60),
        serving("bench.web_server:FolderSite", str(folder), hosts=1) as site,
        DnsResolver() as resolver,
        HttpClient(resolver, Guard(PRIVATE)) as client,
    ):
        yield site, client


async def test_no_two_requests_arrive_closer_together_than_the_interval(tmp_path: Path) -> None:
    async with site_and_client(tmp_path) as (site, client):
        [host] = site.authorities
        gate = SendGate()

        async def slot() -> None:
            for _ in range(8):
                answer = await client.fetch(f"http://{host}/", turn=gate.turn(host, interval=0.04))
                assert isinstance(answer, Response)

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(slot())
        hits = await site.hits()

    assert len(hits) == 32
    assert min(gaps(hit.arrived for hit in hits)) >= 0.04


class StalledTurn(LocalTurn):
    """Lets the process stop between taking the turn and writing, as a busy machine does."""

    async def take(self, address: str = "") -> float:
        wait = await super().take(address)
        time.sleep(0.15)  # noqa: ASYNC251
        return wait


async def test_a_request_that_was_held_back_moves_the_next_one(tmp_path: Path) -> None:
    async with site_and_client(tmp_path) as (site, client):
        [host] = site.authorities
        gate = SendGate()
        async with asyncio.TaskGroup() as group:  # connections, so that nothing but the gate holds them up
            for _ in range(2):
                group.create_task(client.fetch(f"http://{host}/warm"))
        async with asyncio.TaskGroup() as group:
            group.create_task(client.fetch(f"http://{host}/", turn=StalledTurn(gate, host, 0.2, 1)))
            await asyncio.sleep(0)
            group.create_task(client.fetch(f"http://{host}/", turn=gate.turn(host, interval=0.2)))
        hits = [hit.arrived for hit in await site.hits() if hit.path == "/"]

    assert len(hits) == 2
    assert gaps(hits)[0] >= 0.2
