"""The dashboard in a real browser, on a server in this process."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.integration.server.running import RunningServer, running_server
from tests.servers.chromium import DESKTOP, BrowserPage, open_browser

from shoal.model.api.roles import Role

PAGES = (
    *("", "crawls", "hosts", "workers", "exits", "dead-letters", "requests", "items", "graph", "schedules"),
    *("alerts", "page"),
)
READY = (
    "document.querySelector('.connection.live') && document.querySelector('main').children.length"
    " && !document.querySelector('main > .loading, main > .skeleton')"
)


@dataclass
class Dashboard:
    server: RunningServer
    page: BrowserPage

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    async def sign_in(self, role: Role = Role.ADMIN) -> None:
        await self.page.go(f"{self.url}/#token={self.server.tokens[role]}")
        await self.page.until(READY)

    async def show(self, path: str) -> str:
        """Open a page and return its text once it is drawn."""
        await self.page.go(f"{self.url}/ui/{path}".rstrip("/"))
        await self.page.until(f"location.pathname.startsWith('/ui') && {READY}")
        return await self.page.text()

    def check(self) -> None:
        """Raise if the browser complained about anything since it was opened."""
        assert not self.page.console, self.page.console
        assert not self.page.failed, self.page.failed
        assert self.page.dialogs == []
        foreign = [url for url in self.page.requests if not re.match(rf"{self.url}|about:|data:", url)]
        assert foreign == []


class Relay:
    """Passes connections on to a server, until it is cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._open: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self.port = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, target: int) -> AsyncIterator["Relay"]:
        relay = cls(target)
        server = await asyncio.start_server(relay._accept, "127.0.0.1", 0)
        relay.port = server.sockets[0].getsockname()[1]
        try:
            yield relay
        finally:
            relay.cut()
            server.close()

    def cut(self) -> None:
        self._is_cut = True
        for writer in list(self._open):
            writer.close()

    def restore(self) -> None:
        self._is_cut = False

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._open |= {writer, back}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, back))
                group.create_task(_copy(there, writer))
        finally:
            self._open -= {writer, back}


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()
    target.close()


@asynccontextmanager
async def open_dashboard(
    folder: Path, store: str, size: tuple[int, int] = DESKTOP
) -> AsyncIterator[Dashboard]:
    """Serve a store, open its dashboard and sign in."""
    async with running_server(folder, store=store) as server, open_browser() as browser:
        async with browser.page() as page:
            await page.view(size)
            shown = Dashboard(server, page)
            await shown.sign_in()
            yield shown
