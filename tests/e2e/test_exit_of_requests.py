"""Kind and country of the exit for a single request: in every way to make one, seen by the addresses at the site."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
from tests.e2e.command import PRIVATE, shoal
from tests.fleet_crawl import Fleet
from tests.servers.proxies import Login, Microsocks, proxy_server
from tests.servers.redis import valkey
from tests.site.raw import Peer, answer, raw_server

OWN, ISP, GERMAN = "127.0.0.21", "127.0.0.22", "127.0.0.23"
EXITS = {
    OWN: "kind=datacenter country=us",
    ISP: "kind=isp country=us",
    GERMAN: "kind=residential country=de",
}
HTML = (("Content-Type", "text/html"),)
LINKS = """<title>start</title><a class=de href=/de>x</a><a class=isp href=/isp>x</a>
<a class=own href=/own>x</a><a class=moved href=/moved>x</a>"""

PYTHON = """
import shoal
spider = shoal.Spider("fields", start=[shoal.Request("{url}", exit_kind="isp")])

@spider.page(r"/$")
def first(page):
    yield page.links("a.de", country="de")
    yield page.links("a.isp", exit_kind="isp")
    yield shoal.Request(page.urljoin("/own"), exit_kind="datacenter", country="us")
    yield page.follow("/moved", country="de")

@spider.page()
def other(page):
    yield {{"url": page.url}}
"""
TOML = """
name = "fields"
start = ["{url}"]
exit_kind = "isp"

[[page]]
match = "/$"
links = [
  {{select = "a.de", exit_kind = "residential", country = "de"}},
  {{select = "a.isp"}},
  {{select = "a.own", exit_kind = "datacenter", country = "us"}},
  {{select = "a.moved", exit_kind = "residential", country = "de"}},
]

[[page]]
item = {{title = "title"}}
"""
EXPECTED = {"/": ISP, "/de": GERMAN, "/isp": ISP, "/own": OWN, "/moved": GERMAN, "/landed": GERMAN}


async def exit_line(stack: AsyncExitStack, folder: Path, address: str) -> str:
    """Run an exit with an address; return the line that describes it."""
    make = partial(Microsocks, address=address)
    proxy = await stack.enter_async_context(proxy_server(make, folder / address, Login()))
    return f"{proxy.line} {EXITS[address]}"


class Site:
    """Takes note of the address that each page was asked for from."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}

    async def handle(self, peer: Peer) -> None:
        address = peer.writer.get_extra_info("peername")[0]
        while True:
            path = (await peer.request()).split(b" ")[1].decode()
            if path == "/robots.txt":
                await peer.send(answer(b"", status=404))
                continue
            self.seen[path] = address
            if path == "/moved":
                await peer.send(answer(b"", status=302, headers=(("Location", "/landed"),)))
            else:
                await peer.send(answer(LINKS.encode(), headers=HTML))


@pytest.mark.parametrize(
    ("file", "text", "kind"),
    [
        ("fields.py", PYTHON, "folder"),
        ("fields.toml", TOML, "folder"),
        pytest.param("fields.py", PYTHON, "fleet", marks=pytest.mark.slow),
    ],
)
async def test_a_request_leaves_through_the_exit_that_it_asks_for(
    file: str, text: str, kind: str, tmp_path: Path
) -> None:
    site = Site()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(raw_server(site.handle))
        (tmp_path / file).write_text(text.format(url=server.url()))
        lines = [await exit_line(stack, tmp_path, address) for address in EXITS]
        env = {**PRIVATE, "SHOAL_PROXY_LIST": "\n".join(lines)}
        quick = ("--allow-private", "--rate", "0", "--out", "items.jsonl")
        if kind == "folder":
            ran = await asyncio.to_thread(shoal, "crawl", file, *quick, cwd=tmp_path, env=env)
            assert ran.code == 0, ran.err
        else:
            valkey_server = await stack.enter_async_context(valkey(tmp_path / "valkey"))
            with Fleet(valkey_server.dsn, tmp_path, settings=env) as fleet:
                submitted = await asyncio.to_thread(
                    shoal, "submit", file, *quick, cwd=tmp_path, env=fleet.env
                )
                assert submitted.code == 0, submitted.err
                assert await fleet.ended(fleet.start("--until-done")) == 0, fleet.logs()
    assert site.seen == EXPECTED


HOSTS = """
[crawl]
exit_kind = "datacenter"
[hosts."127.0.0.1:{port}"]
exit_kind = "residential"
country = "de"
"""


@pytest.mark.parametrize("kind", ["folder", pytest.param("fleet", marks=pytest.mark.slow)])
async def test_the_settings_choose_exits_for_a_crawl_and_for_one_of_its_hosts(
    kind: str, tmp_path: Path
) -> None:
    crawled, other = Site(), Site()
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(raw_server(crawled.handle, host="127.0.0.2"))
        second = await stack.enter_async_context(raw_server(other.handle))
        lines = [await exit_line(stack, tmp_path, address) for address in EXITS]
        (tmp_path / "shoal.toml").write_text(HOSTS.format(port=second.port))
        (tmp_path / "seeds.txt").write_text(f"{first.url('/own')}\n{second.url('/de')}\n")
        quick = ("--seeds", "seeds.txt", "--depth", "0", "--rate", "0", "--out", "items.jsonl")
        env = {**PRIVATE, "SHOAL_PROXY_LIST": "\n".join(lines), "SHOAL_CRAWL_ALLOW_PRIVATE": "1"}
        if kind == "folder":
            ran = await asyncio.to_thread(shoal, "crawl", *quick, cwd=tmp_path, env=env)
            assert ran.code == 0, ran.err
        else:
            store = await stack.enter_async_context(valkey(tmp_path / "valkey"))
            with Fleet(store.dsn, tmp_path, settings=env) as fleet:
                submitted = await asyncio.to_thread(shoal, "submit", *quick, cwd=tmp_path, env=fleet.env)
                assert submitted.code == 0, submitted.err
                assert await fleet.ended(fleet.start("--until-done")) == 0, fleet.logs()
    assert (crawled.seen, other.seen) == ({"/own": OWN}, {"/de": GERMAN})


REGIONS = """
import shoal
spider = shoal.Spider("regions", start="{url}")

@spider.page(r"/$")
def first(page):
    yield shoal.Request(page.urljoin("/eu"), pool="http-eu")
    yield shoal.Request(page.urljoin("/us"))

@spider.page()
def other(page):
    yield {{"url": page.url}}
"""


@pytest.mark.slow
async def test_workers_of_a_region_fetch_its_pool_through_their_own_exits(tmp_path: Path) -> None:
    site = Site()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(raw_server(site.handle))
        store = await stack.enter_async_context(valkey(tmp_path / "valkey"))
        (tmp_path / "regions.py").write_text(REGIONS.format(url=server.url()))
        fleets = []
        for folder, address in ((tmp_path, OWN), (tmp_path / "eu", GERMAN)):
            folder.mkdir(exist_ok=True)
            settings = {**PRIVATE, "SHOAL_PROXY_LIST": await exit_line(stack, tmp_path, address)}
            fleets.append(stack.enter_context(Fleet(store.dsn, folder, settings=settings)))
        us, eu = fleets
        quick = ("--allow-private", "--rate", "0", "--out", "items.jsonl")
        submitted = await asyncio.to_thread(shoal, "submit", "regions.py", *quick, cwd=tmp_path, env=us.env)
        assert submitted.code == 0, submitted.err
        workers = [
            (us, us.start("--until-done")),
            (eu, eu.start("--until-done", "--roles", "fetch", "--pools", "http-eu")),
        ]
        for fleet, worker in workers:
            assert await fleet.ended(worker) == 0, us.logs() + eu.logs()
    assert site.seen == {"/": OWN, "/us": OWN, "/eu": GERMAN}
