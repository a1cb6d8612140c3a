"""Hosts that refuse the addresses of exits, or are gone: what that means for them, for others and for exits."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.e2e.command import PRIVATE, Ran, shoal
from tests.fleet_crawl import Fleet
from tests.servers.process import deaf_port
from tests.servers.proxies import Login, Make, Microsocks, Tinyproxy, proxy_server
from tests.servers.redis import valkey
from tests.site.raw import Peer, answer, raw_server

PAGES = 40
REFUSED = {f"127.0.0.{number}" for number in (11, 12, 13)}
ALLOWED = "127.0.0.14"
LINKS = "".join(f'<a href="/{number}">x</a>' for number in range(1, PAGES)).encode()


class Site:
    """Serves pages to one address, and 403 to all others; the first page to anyone."""

    def __init__(self) -> None:
        self.served: Counter[str] = Counter()  # pages by path
        self.refused: Counter[str] = Counter()  # requests by address

    async def handle(self, peer: Peer) -> None:
        address = peer.writer.get_extra_info("peername")[0]
        while True:
            path = (await peer.request()).split(b" ")[1].decode()
            if path == "/robots.txt":
                await peer.send(answer(b"", status=404))
            elif path == "/" or address == ALLOWED:
                self.served[path] += 1
                await peer.send(
                    answer(b"<title>page</title>" + LINKS, headers=(("Content-Type", "text/html"),))
                )
            else:
                self.refused[address] += 1
                await peer.send(answer(b"no", status=403))


@asynccontextmanager
async def exits(folder: Path) -> AsyncIterator[str]:
    """Run three exits of a data centre, whose addresses are refused, and one of a provider."""
    async with AsyncExitStack() as stack:
        lines = []
        for number, address in enumerate([*sorted(REFUSED), ALLOWED]):
            make = partial(Microsocks, address=address)
            login = Login(f"user{number}", f"secret-{number}")
            proxy = await stack.enter_async_context(proxy_server(make, folder / address, login))
            kind = "isp" if address == ALLOWED else "datacenter"
            lines.append(f"{proxy.line} kind={kind} name={kind}{number}")
        yield "\n".join(lines)


async def crawl_in_folder(url: str, folder: Path, env: dict[str, str]) -> Ran:
    quick = ("--allow-private", "--rate", "0", "--per-host", "2", "--out", "items.jsonl")
    return await asyncio.to_thread(shoal, "crawl", url, *quick, cwd=folder, env=env)


async def crawl_in_fleet(url: str, folder: Path, env: dict[str, str]) -> Ran:
    with Fleet(env["SHOAL_STORE"], folder, settings=env) as fleet:
        submitted = await asyncio.to_thread(fleet.submit, url, "--per-host", "2", spider=None)
        assert submitted.code == 0, submitted.err
        workers = [fleet.start("--until-done") for _ in range(2)]
        codes = [await fleet.ended(worker) for worker in workers]
        assert codes == [0, 0], fleet.logs()
        return Ran(0, "", fleet.logs())


@pytest.mark.parametrize("kind", ["folder", pytest.param("fleet", marks=pytest.mark.slow)])
async def test_a_host_that_refuses_addresses_is_asked_through_exits_of_another_kind(
    kind: str, tmp_path: Path
) -> None:
    site = Site()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(raw_server(site.handle))
        env = {
            **PRIVATE,
            "SHOAL_PROXY_LIST": await stack.enter_async_context(exits(tmp_path)),
            "SHOAL_PROXY_WHEN_REFUSED": "isp",
            "SHOAL_CRAWL_EXIT_KIND": "datacenter",
            "SHOAL_SLOWDOWN_FLOOR": "0.001",
        }
        if kind == "fleet":
            env["SHOAL_STORE"] = (await stack.enter_async_context(valkey(tmp_path / "valkey"))).dsn
        crawl = crawl_in_fleet if kind == "fleet" else crawl_in_folder
        ran = await crawl(server.url(), tmp_path, env)
        assert ran.code == 0, ran.err
        told = shoal("status", cwd=tmp_path, env=env)
        [crawled] = shoal("status", "--json", cwd=tmp_path, env=env).json["crawls"]
        [refusing] = shoal("status", "--json", cwd=tmp_path, env=env).json["hosts_refusing"]
        trace = shoal("trace", server.url("/7"), cwd=tmp_path, env=env)
    assert set(site.served) == {"/", *(f"/{number}" for number in range(1, PAGES))}
    assert crawled["counts"]["dead"] == 0
    assert "host.exits_changed" in ran.err
    assert (refusing["host"], refusing["exit_kind"], refusing["rotation"]) == (
        f"127.0.0.1:{server.port}",
        "isp",
        "worker",
    )
    assert "answered 403 to" in told.out
    assert "exits of kind isp" in told.out
    assert "exits of kind isp" in trace.out, trace.out
    # Five make a spike; those in flight and those of the other worker come on top.
    assert site.refused.total() < PAGES / 2
    assert "secret-" not in ran.err + told.out + trace.out


@pytest.mark.slow("a URL is refused and waits before its last attempt")
@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_the_only_url_of_a_crawl_is_refused_and_comes_through_the_next_kind(
    kind: str, tmp_path: Path
) -> None:
    site = Site()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(raw_server(site.handle))
        env = {
            **PRIVATE,
            "SHOAL_PROXY_LIST": await stack.enter_async_context(exits(tmp_path)),
            "SHOAL_PROXY_WHEN_REFUSED": "isp",
            "SHOAL_CRAWL_EXIT_KIND": "datacenter",
            "SHOAL_RETRY_MAX_RETRIES": "1",
            "SHOAL_CRAWL_DEPTH": "0",
        }
        if kind == "fleet":
            env["SHOAL_STORE"] = (await stack.enter_async_context(valkey(tmp_path / "valkey"))).dsn
        crawl = crawl_in_fleet if kind == "fleet" else crawl_in_folder
        ran = await crawl(server.url("/7"), tmp_path, env)
        assert ran.code == 0, ran.err
        [crawled] = shoal("status", "--json", cwd=tmp_path, env=env).json["crawls"]
    assert (crawled["counts"]["done"], crawled["counts"]["dead"]) == (1, 0), crawled
    assert (site.refused.total(), site.served["/7"]) == (1, 1)


async def refuse_all(peer: Peer) -> None:
    while True:
        path = (await peer.request()).split(b" ")[1].decode()
        await peer.send(answer(b"no", status=404 if path == "/robots.txt" else 403))


async def serve_all(peer: Peer) -> None:
    while True:
        if (await peer.request()).startswith(b"GET /robots.txt "):
            await peer.send(answer(b"", status=404))
        else:
            await peer.send(answer(b"<title>page</title>", headers=(("Content-Type", "text/html"),)))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "make"), [("folder", Tinyproxy), ("fleet", Microsocks)])
async def test_hosts_that_no_exit_gets_pages_from_end_and_cost_no_other_host(
    kind: str, make: Make, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        good = await stack.enter_async_context(raw_server(serve_all))
        refusing = await stack.enter_async_context(raw_server(refuse_all))
        gone = stack.enter_context(deaf_port())
        proxy = await stack.enter_async_context(proxy_server(make, tmp_path / "proxy", Login()))
        # More than an exit that rests at a host is asked for, and more failures than let an exit rest.
        urls = [refusing.url(f"/{n}") for n in range(8)] + [f"http://127.0.0.1:{gone}/{n}" for n in range(8)]
        (tmp_path / "seeds.txt").write_text("\n".join([*urls, *(good.url(f"/{n}") for n in range(8))]))
        env = {
            **PRIVATE,
            "SHOAL_PROXY_LIST": f"{proxy.line} name=exit",
            "SHOAL_PROXY_COOL_OFF": "0.5",
            "SHOAL_FETCH_CONNECT": "0.5",
            "SHOAL_RETRY_MAX_RETRIES": "1",
        }
        if kind == "fleet":
            env["SHOAL_STORE"] = (await stack.enter_async_context(valkey(tmp_path / "valkey"))).dsn
        quick = ("--seeds", "seeds.txt", "--allow-private", "--rate", "0", "--out", "items.jsonl")
        if kind == "folder":
            ran = await asyncio.to_thread(shoal, "crawl", *quick, cwd=tmp_path, env=env, timeout=100)
            assert ran.code in (0, 2), ran.err
        else:
            with Fleet(env["SHOAL_STORE"], tmp_path, settings=env) as fleet:
                submitted = await asyncio.to_thread(shoal, "submit", *quick, cwd=tmp_path, env=fleet.env)
                assert submitted.code == 0, submitted.err
                workers = [fleet.start("--until-done") for _ in range(2)]
                assert [await fleet.ended(worker) for worker in workers] == [0, 0], fleet.logs()
        [crawled] = shoal("status", "--json", cwd=tmp_path, env=env).json["crawls"]
        [exit] = shoal("proxy", "list", "--json", cwd=tmp_path, env=env).json["exits"]
    assert (crawled["counts"]["done"], crawled["counts"]["dead"]) == (8, 16), crawled
    assert crawled["dead_by_class"] == {"connect": 8, "ip_blocked": 8}
    assert (exit["name"], exit["state"], exit["cause"]) == ("exit", "in use", "")
