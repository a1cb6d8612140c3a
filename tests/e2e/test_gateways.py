"""Gateways: proxies whose user name says which address a request leaves from, as the gateway itself sees it."""

import asyncio
import re
from base64 import b64decode
from collections import defaultdict
from pathlib import Path

import pytest
from tests.e2e.test_proxies import assert_complete, crawl
from tests.fleet_crawl import Fleet
from tests.graph_crawl import serving_graph
from tests.hostile.exits import forwards
from tests.servers.redis import valkey
from tests.site.graph import Shape
from tests.site.raw import raw_server

SHAPE = Shape(pages=40, hosts=3)
TEMPLATE = "{user}-type-{type}-country-{geo}-session-{session}"
USER = re.compile(r"acme-type-(residential|isp)-country-us-session-(s[0-9a-f]{12}):hush")


def sessions(requests: list[bytes]) -> dict[str, list[str]]:
    """Return the sessions by host, one for each connection, from the requests that a gateway has received."""
    found = defaultdict(list)
    for request in requests:
        host = request.split(b" ")[1].decode().partition(":")[0]
        login = re.search(rb"Proxy-Authorization: Basic (\S+)", request)
        assert login is not None, request
        user = USER.fullmatch(b64decode(login[1]).decode())
        assert user is not None, "kind, country and session are in the user name"
        found[host].append(user[2])
    return dict(found)


def line(port: int) -> str:
    return f"http://acme:hush@127.0.0.1:{port} name=gate template={TEMPLATE}"


@pytest.mark.parametrize("rotation", ["request", "timed", "worker"])
async def test_a_gateway_gets_sessions_as_the_rotation_says(rotation: str, tmp_path: Path) -> None:
    env = {
        "SHOAL_PROXY_ROTATION": rotation,
        "SHOAL_CRAWL_EXIT_KIND": "residential",
        "SHOAL_CRAWL_COUNTRY": "us",
    }
    async with serving_graph(SHAPE) as (site, graph), raw_server(forwards()) as gateway:
        ran = await crawl(graph, tmp_path, [line(gateway.port)], env=env)
        assert ran.code == 0, ran.err
        await assert_complete(site, graph, tmp_path)
        found = sessions(gateway.requests)
    assert len(found) == SHAPE.hosts
    used = [session for of_host in found.values() for session in of_host]
    if rotation == "request":
        assert len(set(used)) == len(used) >= SHAPE.pages, "every request has another address"
    else:
        assert all(len(set(of_host)) == 1 for of_host in found.values()), found
        assert len(set(used)) == SHAPE.hosts, "no two hosts share an address"


@pytest.mark.slow
async def test_two_workers_have_different_sessions_at_a_gateway(tmp_path: Path) -> None:
    async with (
        serving_graph(Shape(pages=120, hosts=3)) as (_, graph),
        raw_server(forwards()) as gateway,
        valkey(tmp_path / "valkey") as server,
    ):
        settings = {
            "SHOAL_PROXY_LIST": line(gateway.port),
            "SHOAL_PROXY_ROTATION": "worker",
            "SHOAL_CRAWL_EXIT_KIND": "isp",
            "SHOAL_CRAWL_COUNTRY": "us",
        }
        with Fleet(server.dsn, tmp_path, settings=settings) as fleet:
            # The pace leaves time for both workers to fetch from every host.
            submitted = await asyncio.to_thread(fleet.submit, graph.start, "--rate", "8")
            assert submitted.code == 0, submitted.err
            workers = [fleet.start("--until-done") for _ in range(2)]
            assert [await fleet.ended(worker) for worker in workers] == [0, 0], fleet.logs()
            assert fleet.counts()["dead"] == 0
            assert "hush" not in fleet.logs()
        found = sessions(gateway.requests)
    assert all(len(set(of_host)) == 2 for of_host in found.values()), found
    assert len({session for of_host in found.values() for session in of_host}) == 6
