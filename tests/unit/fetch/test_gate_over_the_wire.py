"""The pace as the server sees it: its kernel's clock is the witness."""

import asyncio
import random
import time
from pathlib import Path

import pytest
from tests.site.access_log import gaps
from tests.site.server import serving

from shoal.fetch.client import HttpClient
from shoal.fetch.dns import Resolver
from shoal.fetch.gate import SendGate
from shoal.fetch.guard import Guard
from shoal.model.page import Response

INTERVAL = 0.04
REQUESTS = 30


@pytest.mark.parametrize("stalls", [False, True], ids=["free loop", "loop that stalls"])
async def test_no_two_requests_arrive_closer_together_than_the_interval(tmp_path: Path, stalls: bool) -> None:
    (tmp_path / "index.html").write_text("page")
    dice = random.Random(5)
    left = REQUESTS

    async with (
        asyncio.timeout(60),
        serving("bench.web_server:FolderSite", str(tmp_path), hosts=1) as site,
        Resolver() as resolver,
        HttpClient(resolver, Guard(allow_private=True)) as client,
    ):
        [host] = site.authorities
        gate = SendGate()

        async def slot() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                answer = await client.fetch(f"http://{host}/", turn=gate.turn(host, interval=INTERVAL))
                assert isinstance(answer, Response)
                if stalls:
                    time.sleep(dice.random() * 2 * INTERVAL)  # noqa: ASYNC251 - it is what this is about

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(slot())
        hits = await site.hits()

    assert len(hits) == REQUESTS
    assert min(gaps(hit.arrived for hit in hits)) >= INTERVAL
