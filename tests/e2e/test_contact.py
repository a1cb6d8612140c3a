"""How a crawl identifies itself, and the warning if it names no contact."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.e2e.command import NO_RETRIES, QUICK, Ran, shoal
from tests.site.name_server import name_server

from shoal import __version__

HOST = "shop.example.org"


class Site:
    """A web server and a name server for a public name; `agents` are the User-Agent headers received."""

    def __init__(self) -> None:
        self.agents: set[str] = set()
        self.url = ""
        self.nameserver = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.agents |= {
            line.partition(": ")[2] for line in head.split("\r\n") if line.startswith("User-Agent")
        }
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx")
        writer.close()

    async def crawl(self, folder: Path, *flags: str) -> Ran:
        env = {**NO_RETRIES, "SHOAL_CRAWL_NAMESERVERS": self.nameserver}
        arguments = ("crawl", self.url, *QUICK, "--quiet", *flags)
        return await asyncio.to_thread(shoal, *arguments, cwd=folder, env=env)


@asynccontextmanager
async def serve() -> AsyncIterator[Site]:
    site = Site()
    server = await asyncio.start_server(site.handle, "127.0.0.1", 0)
    async with server, name_server(lambda name: ["127.0.0.1"]) as site.nameserver:
        site.url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}/"
        yield site


async def test_a_crawl_of_a_public_host_without_a_contact_warns_once(tmp_path: Path) -> None:
    async with serve() as site:
        ran = await site.crawl(tmp_path)

    assert ran.code == 0
    [line] = ran.err.splitlines()
    assert " warning crawl.no_contact " in line
    assert "setting=crawl.contact" in line
    assert site.agents == {f"Shoal/{__version__}"}


@pytest.mark.parametrize(
    ("flags", "agent"),
    [
        (("--contact", "me@example.org"), f"Shoal/{__version__} (+me@example.org)"),
        (("--user-agent", "books/1.0"), "books/1.0"),
    ],
)
async def test_a_contact_or_a_user_agent_is_sent_and_ends_the_warning(
    flags: tuple[str, str], agent: str, tmp_path: Path
) -> None:
    async with serve() as site:
        ran = await site.crawl(tmp_path, *flags)

    assert (ran.code, ran.err) == (0, "")
    assert site.agents == {agent}
