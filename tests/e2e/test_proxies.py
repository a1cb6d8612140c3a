"""Crawls through real proxies, and through some that fail: seen in the proxies' own logs."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import Ran, shoal
from tests.fleet_crawl import Fleet, assert_fleet_items
from tests.graph_crawl import LONGEST_RUN, SPIDER, assert_same, serving_graph
from tests.hostile.exits import forwards
from tests.servers.proxies import Login, Microsocks, ProxyServer, Squid, Tinyproxy, proxy_server
from tests.servers.redis import valkey
from tests.site.access_log import fetches
from tests.site.graph import Graph, Shape
from tests.site.raw import Handler, Peer, raw_server
from tests.site.server import ServedSite

SHAPE = Shape(pages=60, hosts=3)
MADE = {"squid": Squid, "tinyproxy": Tinyproxy, "microsocks": Microsocks}
FAULTLESS = {"SHOAL_RETRY_MAX_RETRIES": "0", "SHOAL_FETCH_CONNECT": "2"}  # one charged attempt: a dead letter
QUICK = ("--allow-private", "--rate", "0", "--per-host", "8", "--out", "items.jsonl", "--quiet")


@asynccontextmanager
async def proxies(folder: Path, *names: str) -> AsyncIterator[list[ProxyServer]]:
    """Run a proxy for each name, all with different passwords."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                proxy_server(
                    MADE[name], folder / f"{name}{number}", Login(f"user{number}", f"secret-{number}")
                )
            )
            for number, name in enumerate(names)
        ]


async def crawl(
    graph: Graph, folder: Path, exits: Sequence[str], *options: str, env: dict[str, str] | None = None
) -> Ran:
    file = folder / "proxies.txt"
    file.write_text("# exits\n" + "\n".join(exits) + "\n")
    file.chmod(0o600)
    arguments = ("crawl", str(SPIDER), graph.start, "--any-host", *QUICK, "--proxy", str(file), *options)
    return await asyncio.to_thread(shoal, *arguments, cwd=folder, env={**FAULTLESS, **(env or {})})


async def assert_complete(site: ServedSite, graph: Graph, folder: Path) -> None:
    """Every page was fetched once, none was given up, and no URL was charged for a fault of an exit."""
    assert_same("fetched", fetches(await site.hits()).elements(), graph.expected().fetched)
    [found] = shoal("status", "--json", cwd=folder).json["crawls"]
    assert found["counts"]["dead"] == 0, found
    assert_fleet_items(Fleet("", folder), graph)


def requests(proxy: ProxyServer) -> int:
    """Return how many connections the log of a proxy shows, without the one that asked whether it runs."""
    lines = proxy.log()
    if isinstance(proxy, Squid):
        return sum(line.split()[0] == proxy.login.user for line in lines)
    if isinstance(proxy, Tinyproxy):
        return sum("Request" in line for line in lines)
    return len(lines)


async def test_a_crawl_goes_through_all_kinds_of_proxies_and_shows_no_password(tmp_path: Path) -> None:
    planted = "p" + "0123456789abcdef" * 2 + "XYZ1234"
    async with (
        serving_graph(SHAPE) as (site, graph),
        AsyncExitStack() as stack,
    ):
        exits = [
            await stack.enter_async_context(
                proxy_server(make, tmp_path / name, Login(f"user-{name}", planted + name[0]))
            )
            for name, make in MADE.items()
        ]
        folder = tmp_path / "crawl"
        folder.mkdir()
        ran = await crawl(
            graph, folder, [exit.line for exit in exits], "-vv", env={"SHOAL_PROXY_ROTATION": "request"}
        )
        assert ran.code == 0, ran.err
        await assert_complete(site, graph, folder)
        for exit in exits:
            assert requests(exit), exit.name
            # No credential of one proxy at another: each of them has refused nothing.
            assert not any(" 407 " in line or "nauthorized" in line for line in exit.log())
        used = shoal(
            "sql", "SELECT count(DISTINCT exit), bool_and(exit <> '') FROM attempts", "--json", cwd=folder
        )
        assert used.json["rows"] == [[len(exits), True]], used.err
        told = [ran.out, ran.err, *(shoal("proxy", "list", "--json", cwd=folder).out for _ in range(1))]
    (folder / "proxies.txt").unlink()
    assert not secrets_in(folder, planted)
    assert planted not in "".join(told)
    (folder / "positive").write_text(f"x{planted}x")
    assert secrets_in(folder, planted) == ["positive"], "the scan finds what is there"


def secrets_in(folder: Path, secret: str) -> list[str]:
    """Return the files below a folder that hold a secret, as it is or in Base64 at any offset."""
    from base64 import b64encode

    forms = [secret.encode(), *(b64encode(b"x" * n + secret.encode())[4 * n : -4] for n in range(3))]
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            if any(form in data for form in forms):
                found.append(path.name)
    return found


@pytest.mark.parametrize("rotation", ["request", "timed", "worker"])
async def test_each_rotation_is_seen_in_the_logs_of_the_proxies(rotation: str, tmp_path: Path) -> None:
    async with (
        serving_graph(SHAPE) as (site, graph),
        proxies(tmp_path, "tinyproxy", "tinyproxy", "tinyproxy") as exits,
    ):
        ran = await crawl(
            graph, tmp_path, [exit.line for exit in exits], env={"SHOAL_PROXY_ROTATION": rotation}
        )
        assert ran.code == 0, ran.err
        await assert_complete(site, graph, tmp_path)
        by_host: dict[str, Counter[str]] = {}
        for exit in exits:
            for line in exit.log():
                if found := re.search(r"CONNECT ([\d.]+):\d+ HTTP", line):
                    by_host.setdefault(found[1], Counter())[exit.name] += 1
    assert len(by_host) == SHAPE.hosts
    for used in by_host.values():
        if rotation == "request":
            assert len(used) == 3, "a host was asked through every exit"
        else:
            assert len(used) == 1, "a host has one exit"


async def _silent(peer: Peer) -> None:
    await peer.hang()


def _answers(head: bytes) -> Handler:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(head)

    return handler


BAD = {
    "407": _answers(b"HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n"),
    "502": _answers(b"HTTP/1.1 502 Bad\r\nContent-Length: 0\r\n\r\n"),
    "silent": _silent,
}


# The silent one is asked once in half a second, and these crawls are short.
CERTAIN = {"bad-407", "bad-502", "bad-gone"}


@asynccontextmanager
async def bad_exits() -> AsyncIterator[list[str]]:
    """Run an exit that answers 407, one that answers 502, one that is silent; and one that is gone."""
    async with AsyncExitStack() as stack:
        lines = []
        for name, handler in BAD.items():
            server = await stack.enter_async_context(raw_server(handler))
            lines.append(f"http://u:p@127.0.0.1:{server.port} name=bad-{name}")
        async with raw_server(_silent) as gone:
            pass
        yield [*lines, f"http://u:p@127.0.0.1:{gone.port} name=bad-gone"]


@pytest.mark.parametrize("rotation", ["request", "timed"])
async def test_exits_that_fail_cost_no_url_an_attempt_and_rest(rotation: str, tmp_path: Path) -> None:
    async with (
        serving_graph(SHAPE) as (site, graph),
        proxies(tmp_path, "microsocks") as [good],
        bad_exits() as bad,
    ):
        env = {"SHOAL_PROXY_ROTATION": rotation, "SHOAL_FETCH_CONNECT": "0.5", "SHOAL_PROXY_COOL_OFF": "600"}
        ran = await crawl(graph, tmp_path, [good.line, *bad], env=env)
        assert ran.code == 0, ran.err
        await assert_complete(site, graph, tmp_path)
        if rotation == "request":
            listed = shoal("proxy", "list", "--json", cwd=tmp_path).json["exits"]
            assert {exit["name"] for exit in listed if exit["rest_s"]} - {"bad-silent"} == CERTAIN


async def test_when_every_exit_rests_the_crawl_waits_and_a_probe_continues_it(tmp_path: Path) -> None:
    async with serving_graph(SHAPE) as (site, graph), proxies(tmp_path, "tinyproxy") as [exit]:
        # An exit that never worked is an error at the start.
        first = await crawl(graph, tmp_path, [exit.line], "--max-pages", "5")
        assert first.code == 0, first.err
        exit.kill()
        env = {"SHOAL_PROXY_COOL_OFF": "5"}  # longer than a look at the status takes
        running = asyncio.create_task(crawl(graph, tmp_path, [exit.line], env=env))
        async with asyncio.timeout(60):
            while True:
                await asyncio.sleep(0.2)
                if not (tmp_path / "shoal-data" / "exits.db").exists():
                    continue
                told = await asyncio.to_thread(shoal, "status", cwd=tmp_path)
                if "all 1 exit rest" in told.out:
                    break
        exit.start()
        ran = await running
        assert ran.code == 0, ran.err
        await assert_complete(site, graph, tmp_path)


class Gateway:
    """An exit that works, or fails in one of several ways."""

    def __init__(self) -> None:
        self.fault: Handler | None = None
        self._forward = forwards()

    async def handle(self, peer: Peer) -> None:
        if self.fault is not None:
            await self.fault(peer)
            return
        await self._forward(peer)


async def _tunnel_of_garbage(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
    await peer.reader.read(1)
    await peer.send(b"SSH-2.0-OpenSSH\r\n\r\n")


async def _tunnel_without_an_answer(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
    await peer.hang()


@pytest.mark.slow("the only exit fails in three ways, a second each")
@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_no_url_is_charged_while_the_only_exit_fails_in_every_way(kind: str, tmp_path: Path) -> None:
    gateway = Gateway()
    async with AsyncExitStack() as stack:
        site, graph = await stack.enter_async_context(serving_graph(SHAPE))
        exit = await stack.enter_async_context(raw_server(gateway.handle))
        env = {"SHOAL_PROXY_COOL_OFF": "0.5", "SHOAL_FETCH_CONNECT": "0.5", "SHOAL_FETCH_FIRST_BYTE": "0.5"}
        env |= {"SHOAL_PROXY_ROTATION": "request"}
        if kind == "fleet":
            env["SHOAL_STORE"] = (await stack.enter_async_context(valkey(tmp_path / "valkey"))).dsn
        line = f"http://127.0.0.1:{exit.port} connections=4"
        running = asyncio.create_task(crawl(graph, tmp_path, [line], "--rate", "10", env=env))
        async with asyncio.timeout(60):
            while len({url.split("/")[2] for url in fetches(await site.hits())}) < SHAPE.hosts:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        for fault in (BAD["502"], _tunnel_of_garbage, _tunnel_without_an_answer):
            gateway.fault = fault
            await asyncio.sleep(1.0)
        gateway.fault = None
        ran = await running
        assert ran.code == 0, ran.err
        [found] = shoal("status", "--json", cwd=tmp_path, env=env).json["crawls"]
        assert found["counts"]["dead"] == 0, shoal("dlq", "list", cwd=tmp_path, env=env).out
        assert_same("fetched", fetches(await site.hits()).elements(), graph.expected().fetched)


@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_a_proxy_that_never_worked_is_an_error_at_the_start_and_costs_nothing(
    kind: str, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        _, graph = await stack.enter_async_context(serving_graph(Shape(pages=3, hosts=1)))
        async with raw_server(_silent) as gone:
            pass
        env = {}
        if kind == "fleet":
            env["SHOAL_STORE"] = (await stack.enter_async_context(valkey(tmp_path / "valkey"))).dsn
        refused = await crawl(graph, tmp_path, [f"http://u:planted@127.0.0.1:{gone.port}"], env=env)
        assert refused.code == 12, refused.err
        assert f"the proxy does not work: 127.0.0.1:{gone.port}: no connection to it" in refused.err
        assert "planted" not in refused.err
        if kind == "fleet":
            worker = await asyncio.to_thread(
                shoal,
                "worker",
                "--until-done",
                "--proxy",
                f"http://127.0.0.1:{gone.port}",
                cwd=tmp_path,
                env=env,
            )
            assert worker.code == 12, worker.err
        exit = await stack.enter_async_context(raw_server(forwards()))
        again = await crawl(graph, tmp_path, [f"http://127.0.0.1:{exit.port}"], env=env)
        assert again.code == 0, again.err


@pytest.mark.slow("an exit fails five times, a second apart, before it counts as one that does not work")
@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_a_crawl_whose_exits_reach_nothing_ends_after_its_patience_and_is_resumed(
    kind: str, tmp_path: Path
) -> None:
    gateway = Gateway()
    gateway.fault = BAD["502"]
    async with AsyncExitStack() as stack:
        site, graph = await stack.enter_async_context(serving_graph(Shape(pages=5, hosts=1)))
        exit = await stack.enter_async_context(raw_server(gateway.handle))
        env = {"SHOAL_PROXY_PATIENCE": "1", "SHOAL_PROXY_COOL_OFF": "2"}
        if kind == "fleet":
            env["SHOAL_STORE"] = (await stack.enter_async_context(valkey(tmp_path / "valkey"))).dsn
        line = f"http://127.0.0.1:{exit.port} name=gate"
        ended = await crawl(graph, tmp_path, [line], env=env)
        assert ended.code == 12, ended.err
        assert "none of 1 exits has worked so far" in ended.err
        assert "gate: no connection: the exit answers 502" in ended.err
        [found] = shoal("status", "--json", cwd=tmp_path, env=env).json["crawls"]
        assert found["counts"]["dead"] == 0, found
        gateway.fault = None
        again = await crawl(graph, tmp_path, [line], env={**env, "SHOAL_PROXY_PATIENCE": "60"})
        assert again.code == 0, again.err
        assert_same("fetched", fetches(await site.hits()).elements(), graph.expected().fetched)


async def test_a_list_with_commas_is_used_in_turn_and_the_crawl_says_so(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        _, graph = await stack.enter_async_context(serving_graph(Shape(pages=20, hosts=1)))
        exits = [await stack.enter_async_context(raw_server(forwards())) for _ in range(4)]
        listed = ",".join(f"http://127.0.0.1:{exit.port}" for exit in exits)
        quick = ("--allow-private", "--rate", "0", "--out", "items.jsonl")
        ran = await asyncio.to_thread(
            shoal, "crawl", str(SPIDER), graph.start, *quick, "--proxy", listed, cwd=tmp_path
        )
        assert ran.code == 0, ran.err
        assert "requests leave through 4 exits: the next one for each request" in ran.out + ran.err
        assert all(exit.connections for exit in exits), "a single host is asked through all of them"


async def test_a_budget_stops_the_crawl_and_a_larger_one_resumes_it(tmp_path: Path) -> None:
    async with serving_graph(SHAPE) as (site, graph), proxies(tmp_path, "microsocks") as [exit]:
        line = f"{exit.line} kind=residential price_gb=1000"
        first = await crawl(graph, tmp_path, [line], "--per-host", "1", env={"SHOAL_CRAWL_BUDGET": "0.01"})
        assert first.code == 0, first.err
        assert "budget.nearly_spent" in first.err
        assert "budget.spent" in first.err
        fetched = len(fetches(await site.hits()))
        assert 0 < fetched < SHAPE.pages
        [status] = shoal("status", "--json", cwd=tmp_path).json["crawls"]
        assert 0.01 <= status["spending"]["cost"] < 0.05
        assert list(status["spending"]["by_kind"]) == ["residential"]
        assert status["spending"]["cost_by_kind"] == {"residential": status["spending"]["cost"]}
        assert status["spending"]["budget_share"] >= 1.0
        assert status["spending"]["by_exit"] == {exit.name: status["spending"]["bytes"]}
        assert "through exits in graph" in shoal("status", cwd=tmp_path).out
        again = await crawl(graph, tmp_path, [line], env={"SHOAL_CRAWL_BUDGET": "0.01"})
        assert len(fetches(await site.hits())) == fetched, "it is spent"
        assert again.code == 0
        assert (await crawl(graph, tmp_path, [line], env={"SHOAL_CRAWL_BUDGET": "10"})).code == 0
        await assert_complete(site, graph, tmp_path)


@pytest.mark.slow
async def test_a_budget_stops_all_workers_and_a_larger_one_resumes_the_crawl(tmp_path: Path) -> None:
    async with (
        serving_graph(Shape(pages=120, hosts=3)) as (site, graph),
        proxies(tmp_path, "microsocks") as [exit],
        valkey(tmp_path / "valkey") as server,
    ):
        settings = {
            "SHOAL_PROXY_LIST": f"{exit.line} kind=residential price_gb=1000",
            "SHOAL_CRAWL_BUDGET": "0.01",
        }
        with Fleet(server.dsn, tmp_path, settings=settings) as fleet:
            submitted = await asyncio.to_thread(fleet.submit, graph.start, "--per-host", "1")
            assert submitted.code == 0, submitted.err
            workers = [fleet.start("--until-done") for _ in range(2)]
            assert [await fleet.ended(worker) for worker in workers] == [0, 0], fleet.logs()
            assert "budget.nearly_spent" in fleet.logs()
            assert "budget.spent" in fleet.logs()
            fetched = len(fetches(await site.hits()))
            assert 0 < fetched < 120
            [status] = shoal("status", "--json", cwd=tmp_path, env=fleet.env).json["crawls"]
            assert 1.0 <= status["spending"]["budget_share"] < 5.0, "what was in flight came on top"
            larger = {**fleet.env, "SHOAL_CRAWL_BUDGET": "10"}
            again = await asyncio.to_thread(
                shoal, "submit", str(SPIDER), graph.start, "--any-host", *QUICK, cwd=tmp_path, env=larger
            )
            assert again.code == 0, again.err
            assert await fleet.ended(fleet.start("--until-done")) == 0, fleet.logs()
            assert_same("fetched", fetches(await site.hits()).elements(), graph.expected().fetched)
            assert_fleet_items(fleet, graph)


@pytest.mark.parametrize("kind", ["folder", pytest.param("fleet", marks=pytest.mark.slow)])
async def test_a_spent_budget_leads_to_cheaper_exits(kind: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        site, graph = await stack.enter_async_context(serving_graph(SHAPE))
        dear, cheap = await stack.enter_async_context(proxies(tmp_path, "microsocks", "microsocks"))
        lines = [
            f"{dear.line} kind=residential price_gb=1000 name=dear",
            f"{cheap.line} kind=datacenter name=cheap",
        ]
        env = {
            "SHOAL_CRAWL_EXIT_KIND": "residential",
            "SHOAL_CRAWL_BUDGET": "0.01",
            "SHOAL_CRAWL_OVER_BUDGET": "datacenter",
        }
        if kind == "folder":
            ran = await crawl(graph, tmp_path, lines, "--per-host", "1", env=env)
            assert ran.code == 0, ran.err
            told = ran.err
        else:
            server = await stack.enter_async_context(valkey(tmp_path / "valkey"))
            settings = {**env, "SHOAL_PROXY_LIST": "\n".join(lines)}
            with Fleet(server.dsn, tmp_path, settings=settings) as fleet:
                submitted = await asyncio.to_thread(fleet.submit, graph.start, "--per-host", "1")
                assert submitted.code == 0, submitted.err
                workers = [fleet.start("--until-done") for _ in range(2)]
                assert [await fleet.ended(worker) for worker in workers] == [0, 0], fleet.logs()
                told, env = fleet.logs(), fleet.env
        assert_same("fetched", fetches(await site.hits()).elements(), graph.expected().fetched)
        [status] = shoal("status", "--json", cwd=tmp_path, env=env).json["crawls"]
    assert "budget.spent" in told
    by_exit = status["spending"]["by_exit"]
    assert by_exit["cheap"] > 0, status
    assert 10_000 <= by_exit["dear"] < 50_000


@pytest.mark.slow
async def test_four_workers_share_the_health_of_exits_that_fail_and_of_one_that_returns(
    tmp_path: Path,
) -> None:
    async with (
        serving_graph(Shape(pages=400, hosts=4)) as (site, graph),
        proxies(tmp_path, "microsocks", "tinyproxy") as [good, killed],
        bad_exits() as bad,
        valkey(tmp_path / "valkey") as server,
    ):
        folder = tmp_path / "fleet"
        folder.mkdir()
        settings = {
            **FAULTLESS,
            "SHOAL_PROXY_LIST": "\n".join([good.line, f"{killed.line} name=killed", *bad]),
            "SHOAL_PROXY_ROTATION": "request",
            "SHOAL_PROXY_COOL_OFF": "2",
            "SHOAL_FETCH_CONNECT": "0.5",
        }
        with Fleet(server.dsn, folder, settings=settings) as fleet:
            # The pace leaves time to see an exit rest and return.
            submitted = await asyncio.to_thread(fleet.submit, graph.start, "--rate", "6")
            assert submitted.code == 0, submitted.err
            workers = [fleet.start("--until-done") for _ in range(4)]
            await fleet.until_served(site, 40)
            killed.kill()
            resting = await until_exit(fleet, "killed", lambda exit: exit["state"] != "in use")
            # Alone, each of the four would need five failures to learn that an exit is gone.
            assert resting["failures"] < 4 * 5, resting
            logs = [folder / f"worker-{number}.log" for number in range(4)]
            async with asyncio.timeout(30):  # seconds, also on a slow machine
                while not all(re.search(r"exit.rested.*killed", log.read_text()) for log in logs):  # noqa: ASYNC110
                    await asyncio.sleep(0.2)
            killed.start()
            await until_exit(fleet, "killed", lambda exit: exit["state"] == "in use")
            codes = [await fleet.ended(worker) for worker in workers]
            assert codes == [0] * 4, fleet.logs()
            assert_same("fetched", fetches(await site.hits()).elements(), graph.expected().fetched)
            assert fleet.counts()["dead"] == 0
            assert_fleet_items(fleet, graph)
            rested = {exit["name"] for exit in exits_of(fleet) if exit["failures"]}
            assert {"bad-407", "bad-502", "bad-gone", "killed"} <= rested
            assert "secret-" not in fleet.logs()


@pytest.mark.slow
async def test_workers_divide_the_exits_among_themselves(tmp_path: Path) -> None:
    async with (
        serving_graph(Shape(pages=240, hosts=4)) as (_, graph),
        proxies(tmp_path, *["microsocks"] * 4) as exits,
        valkey(tmp_path / "valkey", "--appendonly", "yes") as server,
    ):
        settings = {
            "SHOAL_PROXY_LIST": "\n".join(exit.line for exit in exits),
            "SHOAL_PROXY_ROTATION": "request",
            "SHOAL_PROXY_SLICE": "auto",
        }
        folder = tmp_path / "fleet"
        folder.mkdir()
        with Fleet(server.dsn, folder, settings=settings) as fleet:
            # The pace leaves time for the workers to learn of one another.
            submitted = await asyncio.to_thread(fleet.submit, graph.start, "--rate", "6")
            assert submitted.code == 0, submitted.err
            workers = [fleet.start("--until-done") for _ in range(2)]
            assert [await fleet.ended(worker) for worker in workers] == [0, 0], fleet.logs()
            query = (
                "SELECT worker, list(DISTINCT exit) FROM"
                " (SELECT worker, exit FROM attempts WHERE exit <> '' ORDER BY started_at DESC LIMIT 60)"
                " GROUP BY worker"
            )
            stored = b"".join(path.read_bytes() for path in (tmp_path / "valkey").rglob("*.aof"))
            assert b"secret-" not in stored, "nor does the store have a password"
            assert exits[0].name.encode() in stored, "it has been searched"
            assert "secret-" not in fleet.logs()
            rows = shoal("sql", query, "--json", cwd=folder, env=fleet.env).json["rows"]
    [first, second] = [set(exits) for _, exits in rows]
    assert first
    assert second
    assert not first & second, rows


def exits_of(fleet: Fleet) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shoal("proxy", "list", "--json", cwd=fleet.folder, env=fleet.env).json[
        "exits"
    ]
    return found


async def until_exit(fleet: Fleet, name: str, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait for a state of an exit, while the workers run; return it."""
    async with asyncio.timeout(LONGEST_RUN):
        while True:
            [exit] = [one for one in await asyncio.to_thread(exits_of, fleet) if one["name"] == name]
            if is_so(exit):
                return exit
            assert any(worker.poll() is None for worker in fleet.workers), f"they have ended: {exit}"


async def test_exits_are_listed_tried_and_taken_out_by_hand(tmp_path: Path) -> None:
    async with (
        serving_graph(Shape(pages=3, hosts=1)) as (_, graph),
        proxies(tmp_path, "microsocks") as [exit],
    ):
        (tmp_path / "shoal.toml").write_text(
            f'[proxies]\nlist = ["{exit.line} kind=isp country=de", "http://u:hidden@127.0.0.1:9 name=gone"]\n'
            '[crawl]\nexit_kind = "isp"\n'
        )
        listed = shoal("proxy", "list", cwd=tmp_path)
        assert listed.code == 0, listed.err
        assert f"{exit.name}" in listed.out
        assert "not in use" in listed.out
        checked = await asyncio.to_thread(
            shoal, "proxy", "check", graph.start, "--allow-private", "--json", cwd=tmp_path
        )
        assert checked.code == 2
        assert {one["name"]: one["ok"] for one in checked.json["exits"]} == {exit.name: True, "gone": False}
        arguments = ("crawl", str(SPIDER), graph.start, "--any-host", *QUICK)
        assert (await asyncio.to_thread(shoal, *arguments, cwd=tmp_path)).code == 0
        assert "in use" in shoal("proxy", "list", cwd=tmp_path).out
        rested = shoal("proxy", "rest", exit.name, "--for", "2h", cwd=tmp_path)
        assert rested.out == f"{exit.name} rests for 2h 00m\n"
        [told] = [
            one for one in shoal("proxy", "list", "--json", cwd=tmp_path).json["exits"] if one["rest_s"]
        ]
        assert (told["name"], told["cause"], told["state"]) == (exit.name, "by hand", "rests")
        assert shoal("proxy", "rest", exit.name, "--for", "0s", cwd=tmp_path).code == 0
        assert not any(one["rest_s"] for one in shoal("proxy", "list", "--json", cwd=tmp_path).json["exits"])
        unknown = shoal("proxy", "rest", "other", cwd=tmp_path)
        assert (unknown.code, "known: " in unknown.complaint) == (1, True)
        assert "hidden" not in listed.out + checked.out + rested.out + unknown.err


@pytest.mark.parametrize(
    ("pages", "expected"), [("1e5", "residential, paid by the GB"), ("1e6", "isp, paid by the address")]
)
def test_a_plan_says_which_kind_of_exits_costs_less(pages: str, expected: str, tmp_path: Path) -> None:
    prices = ("--page-kb", "200", "--gb-price", "4.25", "--ips", "50", "--ip-price", "2.08")
    ran = shoal("plan", "--pages", pages, *prices, cwd=tmp_path)
    assert expected in ran.out, ran.out + ran.err


def test_a_plan_has_the_prices_of_the_list(tmp_path: Path) -> None:
    residential = "http://127.0.0.1:9 kind=residential price_gb=4.25"
    rented = [f"http://127.0.0.{n}:9 kind=isp price_month=2.08" for n in range(2, 52)]
    env = {"SHOAL_PROXY_LIST": "\n".join([residential, "http://127.0.0.1:8 price_gb=0.5", *rented])}
    ran = shoal("plan", "--pages", "1e6", "--page-kb", "200", cwd=tmp_path, env=env)
    for said in ("850.00 at 4.25 per GB", "104.00 for 50 at 2.08", "isp, paid by the address"):
        assert said in ran.out, ran.out + ran.err
    other = shoal("plan", "--pages", "1e6", "--page-kb", "200", "--gb-price", "1", cwd=tmp_path, env=env)
    assert "200.00 at 1 per GB" in other.out
    daily = shoal("plan", "--per-day", "1e6", "--page-kb", "200", cwd=tmp_path, env=env)
    assert "25,500.00 at 4.25 per GB" in daily.out, daily.out
    assert "50 for 104.00 per month" in daily.out


@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_a_plan_has_the_traffic_and_the_price_that_a_crawl_has_paid_for(
    kind: str, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        _, graph = await stack.enter_async_context(serving_graph(SHAPE))
        [exit] = await stack.enter_async_context(proxies(tmp_path, "microsocks"))
        env = {}
        if kind == "fleet":
            env["SHOAL_STORE"] = (await stack.enter_async_context(valkey(tmp_path / "valkey"))).dsn
        line = f"{exit.line} kind=mobile price_gb=20"
        ran = await crawl(graph, tmp_path, [line], "--max-pages", "20", env=env)
        assert ran.code == 0, ran.err
        [status] = shoal("status", "--json", cwd=tmp_path, env=env).json["crawls"]
        planned = shoal("plan", "--json", cwd=tmp_path, env=env).json
    assert planned["pages"] > 0
    assert planned["page_bytes"] == pytest.approx(status["spending"]["bytes"] / status["counts"]["done"])
    assert planned["traffic_cost"] == pytest.approx(20 * planned["traffic_bytes"] / 1e9)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--proxy", "http://u:planted@127.0.0.1:9", "--quiet"), "proxies.password_visible"),
        (("--proxy", "http://u:planted@127.0.0.1"), "proxies.list: entry 1: the address has no port"),
        (("--proxy", "planted"), "proxies.list: entry 1: neither a proxy URL"),
        (("--proxy", "http://127.0.0.1:9", "--config", "isp.toml"), "no exit is configured with kind 'isp'"),
        (("--config", "isp.toml"), "it asks for an exit with kind 'isp': name one with --proxy"),
    ],
)
def test_a_list_that_cannot_work_is_explained_without_its_text(
    arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    (tmp_path / "isp.toml").write_text('[crawl]\nexit_kind = "isp"\n')
    ran = shoal("crawl", "http://127.0.0.1:9/", *arguments, cwd=tmp_path)
    assert said in ran.err, ran.err
    assert "planted" not in ran.err + ran.out


@pytest.mark.parametrize(
    "wrong",
    [
        {"SHOAL_PROXY_LIST": "no-such-file"},
        {"SHOAL_PROXY_LIST": "http://127.0.0.1:9", "SHOAL_PROXY_WHEN_REFUSED": "isp"},
        {"SHOAL_PROXY_LIST": "http://127.0.0.1:9", "SHOAL_CRAWL_OVER_BUDGET": "isp"},
        {"SHOAL_CRAWL_EXIT_KIND": "isp"},
        {"SHOAL_CRAWL_CA_FILE": "no-such-file"},
        {"SHOAL_CRAWL_NAMESERVERS": "a-name"},
    ],
)
async def test_a_wrong_setting_costs_nothing_of_an_earlier_run(wrong: dict[str, str], tmp_path: Path) -> None:
    async with serving_graph(Shape(pages=3, hosts=1)) as (_, graph):
        command = ("crawl", str(SPIDER), graph.start, "--any-host", *QUICK)
        assert (await asyncio.to_thread(shoal, *command, cwd=tmp_path)).code == 0
        before = shoal("status", "--json", cwd=tmp_path).json["crawls"]
        again = await asyncio.to_thread(shoal, *command, "--fresh", "--yes", cwd=tmp_path, env=wrong)
    assert again.code == 1, again.err
    assert shoal("status", "--json", cwd=tmp_path).json["crawls"] == before
