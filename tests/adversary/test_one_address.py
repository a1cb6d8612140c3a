"""Many host names of one site, on one address or on many: address and site have a separate pace."""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.adversary.size import sized
from tests.e2e.command import shoal
from tests.fleet_crawl import Fleet
from tests.servers.redis import valkey
from tests.site.access_log import violations
from tests.site.name_server import name_server

NAMES = sized(20, full=50)
RATE = 1.0
ADDRESS_RATE = 5 * RATE
BURST = 12  # the first few hosts are not a crowd yet, and the wait for the turn of the host comes after that


@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_many_names_on_one_address_do_not_get_as_many_paces(kind: str, tmp_path: Path) -> None:
    arrived = await arrivals(kind, tmp_path, names=NAMES, rate=RATE)
    assert not violations(arrived, rate=ADDRESS_RATE, burst=BURST), arrived
    assert violations(arrived, rate=RATE, burst=3)  # and the address is not limited to the pace of one host


@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_many_names_of_one_site_on_as_many_addresses_do_not_get_as_many_paces(
    kind: str, tmp_path: Path
) -> None:
    arrived = await arrivals(kind, tmp_path, names=NAMES, rate=RATE, addresses=NAMES)
    assert not violations(arrived, rate=ADDRESS_RATE, burst=BURST), arrived
    assert violations(arrived, rate=RATE, burst=3)


@pytest.mark.parametrize("by", ["site", "address"])
@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_the_hosts_of_a_site_or_an_address_share_one_pace_if_the_crawl_says_so(
    kind: str, by: str, tmp_path: Path
) -> None:
    arrived = await arrivals(kind, tmp_path, names=10, rate=4.0, by=by)
    assert not violations(arrived, rate=4.0, burst=5), arrived  # the first ones are not a crowd yet


async def arrivals(
    kind: str, tmp_path: Path, *, names: int, rate: float, by: str = "host", addresses: int = 1
) -> list[float]:
    """Crawl one page of each of many hosts of one site; return when they were asked for."""
    arrived: list[float] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                arrived.append(time.monotonic())
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok")
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    others = [f"127.0.3.{number}" for number in range(1, addresses)]

    def address_of(name: str) -> str:
        return ["127.0.0.1", *others][int(name.partition(".")[0].removeprefix("n")) % addresses]

    seeds = [f"http://n{number}.shop.test:{port}/" for number in range(names)]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(server)
        if others:
            await stack.enter_async_context(await asyncio.start_server(serve, others, port))
        nameserver = await stack.enter_async_context(name_server(lambda name: [address_of(name)]))
        env = {"SHOAL_CRAWL_NAMESERVERS": nameserver, "SHOAL_CRAWL_PACE_BY": by}
        options = (*seeds[1:], "--rate", f"{rate:g}", "--allow-private", "--any-host", "--no-robots")
        if kind == "folder":
            ran = await asyncio.to_thread(shoal, "crawl", seeds[0], *options, cwd=tmp_path, env=env)
            assert ran.code == 0, ran.err
        else:
            async with valkey(tmp_path) as store:
                with Fleet(store.dsn, tmp_path, settings=env) as fleet:
                    submitted = await asyncio.to_thread(
                        shoal, "submit", seeds[0], *options, cwd=tmp_path, env=fleet.env
                    )
                    assert submitted.code == 0, submitted.err
                    for _ in range(2):
                        fleet.start("--until-done")
                    for worker in fleet.workers:
                        assert await fleet.ended(worker) == 0, fleet.logs()
    assert len(arrived) == names
    return arrived
