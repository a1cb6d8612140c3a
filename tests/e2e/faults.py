"""A crawl in real processes that things go wrong in, and everything that people see of it: `status`, alerts, the
dashboard as its page gets it, the log, and a webhook.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.e2e.command import PRIVATE, shoal, start_logged
from tests.e2e.command_server import StartedCommand
from tests.fleet_crawl import Fleet
from tests.servers.proxies import Login, Microsocks, ProxyServer, proxy_server
from tests.servers.redis import RedisServer, valkey
from tests.servers.shared import shared_database
from tests.site.raw import Peer, RawServer, answer, raw_server

from shoal.services.alerts.read import alerts

LIMIT_S = 180.0
POLL_S = 0.2
ROLES = ("fetch,sink", "parse")
SPIDER = """
import os
import time
import shoal

spider = shoal.Spider("tree", follow="")

@spider.page()
def page(page):
    while os.path.exists({hang!r}):
        time.sleep(0.1)
    yield {{"url": page.url, "title": page.css("h1::text").get()}}
    yield from page.links("a")
    yield from page.links("i", pool="http-eu")
"""


class Tree:
    """An endless site: every page links to two others. `status` is what it answers with."""

    def __init__(self) -> None:
        self.status = 200
        self.pool = False  # whether pages link into another pool
        self.trap = False  # whether they link to pages of one pattern
        self._pages = 0

    async def handle(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            path = request.split(b" ", 2)[1].decode()
            if path == "/robots.txt":
                await peer.send(answer(b"", status=404))
                continue
            if self.status != 200:
                await peer.send(answer(b"", status=self.status, headers=(("Retry-After", "2"),)))
                continue
            await peer.send(answer(self.page(path), headers=(("Content-Type", "text/html"),)))

    def page(self, path: str) -> bytes:
        self._pages += 1
        links = f'<a href="/{letters(2 * self._pages)}">a</a><a href="/{letters(2 * self._pages + 1)}">b</a>'
        if self.trap:
            links += "".join(f'<a href="/day/{self._pages}{number}">day</a>' for number in range(100, 160))
        if self.pool:
            links += f'<i href="/eu/{letters(self._pages)}">eu</i>'
        text = " ".join(letters(self._pages * 1_000 + word) for word in range(40))
        return f"<h1>{path}</h1><p>{text}</p>{links}".encode()


def letters(number: int) -> str:
    """Return a word for a number: paths made of words are of no pattern."""
    digits = sha256(str(number).encode()).hexdigest()[:12]
    return digits.translate(str.maketrans("0123456789", "ghijklmnop"))


class Dashboard:
    """`shoal serve` as a process, and what its page gets: the stream of summaries, and the list of alerts."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder = folder
        self._env = env
        self._host, self._token = "", ""
        self.summary: dict[str, Any] | None = None
        self.process: StartedCommand

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Dashboard"]:
        self.start()
        following = asyncio.create_task(self._follow())
        try:
            yield self
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
            self.kill()

    def start(self) -> None:
        self._host, self.summary = "", None
        self._log = self._folder / f"serve-{time.monotonic_ns()}.log"
        options = ("--listen", "127.0.0.1:0", "--no-schedules")
        self.process = start_logged("serve", *options, cwd=self._folder, log=self._log, env=self._env)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def alerts(self) -> list[dict[str, Any]]:
        reader, writer = await self._request("/api/v1/alerts")
        try:
            body = (await reader.read(-1)).partition(b"\r\n\r\n")[2]
            return list(json.loads(body)["active"]) if body else []
        finally:
            writer.close()

    async def _follow(self) -> None:
        """Keep the latest summary, as the page does; connect again when the connection ends."""
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await self._request("/api/v1/live/events")
                try:
                    while line := await reader.readline():
                        if line.startswith(b"data: "):
                            self.summary = json.loads(line.removeprefix(b"data: "))
                finally:
                    writer.close()
            await asyncio.sleep(POLL_S)

    async def _request(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(LIMIT_S):
            while not self._host:
                text = self._log.read_text()
                if found := re.search(r"http://([\d.]+:\d+)/#token=(\S+)", text):
                    self._host, self._token = found.groups()
                else:
                    assert self.process.poll() is None, text
                    await asyncio.sleep(POLL_S)
        host, port = self._host.split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 22)
        head = f"Host: {self._host}\r\nAuthorization: Bearer {self._token}\r\nConnection: close"
        writer.write(f"GET {path} HTTP/1.0\r\n{head}\r\n\r\n".encode())
        return reader, writer


@dataclass(frozen=True)
class Fault:
    """What goes wrong, and what people have to be told about it."""

    kind: str  # of the alert
    stage: str
    words: tuple[str, ...]  # cause and action: in the alert, in `status` and on the dashboard
    level: str  # of the cause in the picture of the pipeline; "held": it may be "stalled" as well
    broken: Callable[["World"], AbstractAsyncContextManager[None]]  # repaired at the end of the block
    shown_at: str = ""  # the stage of the picture; empty: the same
    status_words: tuple[str, ...] = ()  # instead of `words`
    shown_words: tuple[str, ...] = ()  # likewise, on the dashboard
    stores: tuple[str, ...] = ("folder", "fleet")
    exits: bool = False  # the crawl uses an exit


@dataclass
class World:
    """A crawl of an endless site through an exit into a database, watched by a dashboard and a webhook."""

    folder: Path
    env: Mapping[str, str]
    site: RawServer
    tree: Tree
    proxy: ProxyServer | None
    database: str
    hook: RawServer
    server: RedisServer | None = None  # of a fleet
    fleet: Fleet = field(init=False)
    dashboard: Dashboard = field(init=False)
    crawl: StartedCommand | None = None  # in a folder

    @property
    def hang(self) -> Path:
        """While this file exists, the spider hangs."""
        return self.folder / "hang"

    @contextmanager
    def running(self) -> Iterator[None]:
        (self.folder / "tree.py").write_text(SPIDER.format(hang=str(self.hang)))
        options = ("tree.py", self.site.url("/"), "--rate", "20", "--per-host", "4")
        output = ("--out", f"{self.database}?table=items")
        self.fleet = Fleet(self.env["SHOAL_STORE"], self.folder, settings=self.env)
        self.dashboard = Dashboard(self.folder, self.env)
        if self.server is None:
            log = self.folder / "crawl.log"
            self.crawl = start_logged("crawl", *options, *output, cwd=self.folder, log=log, env=self.env)
        else:
            submitted = shoal("submit", *options, *output, cwd=self.folder, env=self.env)
            assert submitted.code == 0, submitted.err
            for roles in ROLES:
                self.fleet.start("--roles", roles)
        try:
            yield
        finally:
            if self.crawl is not None:
                self.crawl.kill()
                self.crawl.wait()
            self.fleet.__exit__()

    def log(self) -> str:
        return self.fleet.logs() if self.crawl is None else (self.folder / "crawl.log").read_text()

    def posted(self, event: str, fault: Fault) -> bool:
        """Return whether the webhook got an event about the alert of a fault."""
        bodies = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in self.hook.requests]
        wanted = (event, fault.kind, fault.stage)
        return any((one["event"], one["alert"]["kind"], one["alert"]["stage"]) == wanted for one in bodies)

    def is_logged(self, event: str, fault: Fault) -> bool:
        words = (event, f"kind={fault.kind} ", f"stage={fault.stage} ")
        return any(all(word in line for word in words) for line in self.log().splitlines())

    async def pages(self, more: int = 20) -> None:
        """Wait until so many more requests have arrived."""
        wanted = len(self.site.requests) + more
        await self.until(lambda: [] if len(self.site.requests) >= wanted else ["no requests"])

    async def watched(self) -> None:
        """Wait until a process of the crawl evaluates alerts."""

        async def unmet() -> list[str]:
            return [] if (await alerts(self.env["SHOAL_STORE"])).by else ["no evaluation"]

        await self.until_seen(unmet)

    async def run(self, *arguments: str) -> Any:
        return await asyncio.to_thread(shoal, *arguments, cwd=self.folder, env=self.env)

    async def until(self, unmet: Callable[[], list[str]]) -> None:
        async def found() -> list[str]:
            return unmet()

        await self.until_seen(found)

    async def until_seen(self, unmet: Callable[[], Any]) -> float:
        """Wait until nothing is left unmet; return how long that took."""
        began, left = time.monotonic(), ["nothing was looked at"]
        while left := await unmet():
            if time.monotonic() - began > LIMIT_S or not self._is_alive():
                raise AssertionError(f"{left}\n{self.dashboard.summary}\n{self.log()[-3000:]}")
            await asyncio.sleep(POLL_S)
        return time.monotonic() - began

    def _is_alive(self) -> bool:
        if self.crawl is not None:
            return self.crawl.poll() is None
        return any(worker.poll() is None for worker in self.fleet.workers)

    # --- what people see -------------------------------------------------------------------------

    async def named(self, fault: Fault) -> float:
        """Wait until every view names a fault; return how long that took."""
        return await self.until_seen(lambda: self._unnamed(fault))

    async def _unnamed(self, fault: Fault) -> list[str]:
        """Return the views that do not name a fault; commands are run when all others name it."""
        seen = {
            "picture": self._is_in_picture(fault),
            "alert of the dashboard": _is_listed(fault, await self.dashboard.alerts(), fault.shown_words),
            "log": self.is_logged("alert.raised", fault),
            "webhook": self.posted("alert.raised", fault),
        }
        if not all(seen.values()):
            return [view for view, is_named in seen.items() if not is_named]
        status = await self.run("status")
        if fault.status_words:  # the store does not answer
            is_named = status.code == 4 and all(word in status.err for word in fault.status_words)
            return [] if is_named else ["status"]
        alerts, listed = await self.run("alerts", "--json"), await self.run("status", "--json")
        told = {
            "alerts": _is_listed(fault, alerts.json["active"]),
            "status": all(word in status.out for word in fault.words),
            "status --json": _is_listed(fault, listed.json["alerts"]),
        }
        return [view for view, is_named in told.items() if not is_named]

    def _is_in_picture(self, fault: Fault) -> bool:
        picture = self._picture()
        stage = fault.shown_at or fault.stage
        words = fault.shown_words or fault.words
        causes = [
            cause["text"]
            for one in picture["stages"]
            for cause in one["causes"]
            if one["name"] == stage and cause["level"] in (fault.level, "stalled")
        ]
        if not any(all(word in text for word in words) for text in causes):
            return False
        return fault.level != "stalled" or (
            picture["stalled"] == stage and all(word in picture["verdict"] for word in words)
        )

    async def normal(self, fault: Fault) -> float:
        """Wait until no view names a fault any more; return how long that took."""
        return await self.until_seen(lambda: self._still_named(fault))

    async def _still_named(self, fault: Fault) -> list[str]:
        picture, alerts = self._picture(), await self.dashboard.alerts()
        levels = {cause["level"] for one in picture["stages"] for cause in one["causes"]}
        seen = {
            "picture": bool(picture["stalled"]) or picture["state"] != "running" or "stalled" in levels,
            "alert of the dashboard": fault.kind in {alert["kind"] for alert in alerts},
            "log": not self.is_logged("alert.cleared", fault),
            "webhook": not self.posted("alert.cleared", fault),
        }
        if any(seen.values()):
            return [view for view, is_named in seen.items() if is_named]
        found, listed = await self.run("alerts", "--json"), await self.run("status", "--json")
        if found.code or listed.code:
            return ["the store does not answer"]
        kinds = {alert["kind"] for alert in found.json["active"] + listed.json["alerts"]}
        past = {alert["kind"] for alert in found.json["recent"]}
        return ["alerts and status"] if fault.kind in kinds or fault.kind not in past else []

    def _picture(self) -> dict[str, Any]:
        unread = {"stages": [], "stalled": "", "verdict": "", "state": ""}
        return unread if self.dashboard.summary is None else dict(self.dashboard.summary["picture"])


def _is_listed(fault: Fault, alerts: list[dict[str, Any]], words: tuple[str, ...] = ()) -> bool:
    """Return whether one of the alerts names the stage, the cause and an action."""
    return any(
        (alert["kind"], alert["stage"]) == (fault.kind, fault.stage)
        and alert["action"]
        and all(word in f"{alert['cause']}; {alert['action']}" for word in words or fault.words)
        for alert in alerts
    )


@asynccontextmanager
async def opened_world(
    store: str, folder: Path, settings: Mapping[str, str], *, exits: bool
) -> AsyncIterator[World]:
    """Start a crawl in a folder or in a fleet, and everything around it."""

    async def accept(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(answer(b"", status=204))

    async with AsyncExitStack() as stack:
        tree, work = Tree(), folder / "work"
        work.mkdir()
        site = await stack.enter_async_context(raw_server(tree.handle))
        hook = await stack.enter_async_context(raw_server(accept))
        proxy = None
        if exits:
            proxy = await stack.enter_async_context(proxy_server(Microsocks, folder / "proxy", Login()))
        database = stack.enter_context(shared_database())
        server = None
        if store == "fleet":
            server = await stack.enter_async_context(valkey(folder / "server"))
        env = {
            "SHOAL_STORE": str(work / "data") if server is None else server.dsn,
            "SHOAL_WORKER_ALLOW_OUTPUTS": database,
            "SHOAL_ALERTS_WEBHOOKS": hook.url("/T0/secret"),
            **({} if proxy is None else {"SHOAL_PROXY_LIST": proxy.line}),
            **PRIVATE,
            **settings,
        }
        world = World(work, env, site, tree, proxy, database, hook, server)
        stack.enter_context(world.running())
        await stack.enter_async_context(world.dashboard.running())
        await world.pages()
        yield world
