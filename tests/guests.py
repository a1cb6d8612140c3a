"""Processes that crawl the test graph in one folder together: how tests start, stop and read them."""

import asyncio
import json
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.command import Ran, shoal, start_logged
from tests.e2e.command_server import StartedCommand
from tests.graph_crawl import POLL, SPIDER
from tests.site.server import ServedSite

from shoal.stores.open import open_store


async def hold(store: Path, hosts: Iterable[str]) -> None:
    """Pause hosts for all crawls of a store, which may not exist yet."""
    async with open_store(str(store), create=True) as opened, opened.work() as working:
        for host in hosts:
            await working.frontier.hosts.set(host, paused=True)


async def let_go(store: Path, hosts: Iterable[str]) -> None:
    """Resume hosts for the crawls of a store that is in use."""
    async with open_store(str(store)) as opened, opened.change() as changes:
        for host in hosts:
            await changes.set_host(host, paused=False)


async def count_requests(site: ServedSite) -> int:
    """Count the requests that a site has received, each time a page was asked for."""
    return len(await site.hits())


async def wait_for_requests(site: ServedSite, number: int) -> None:
    while await count_requests(site) < number:  # noqa: ASYNC110 - of another process
        await asyncio.sleep(POLL)


@dataclass(slots=True)
class Member:
    """One crawl, with its own working folder, in a store that others use as well."""

    name: str
    folder: Path
    store: Path
    start_url: str
    options: tuple[str, ...] = ()
    spider: Path = SPIDER
    process: StartedCommand | None = field(default=None, init=False)

    @property
    def arguments(self) -> list[str]:
        return [
            *("crawl", str(self.spider), self.start_url, "--store", str(self.store), "--crawl", self.name),
            *("--out", "items.jsonl", "--any-host", "--allow-private", *self.options),
        ]

    def start(self) -> None:
        """Start the command, the same every time, in a separate process group."""
        self.folder.mkdir(exist_ok=True)
        self.process = start_logged(*self.arguments, cwd=self.folder, log=self.folder / "log", session=True)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def kill(self) -> None:
        """Send SIGKILL to the process and its children."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def interrupt(self) -> None:
        """Do what Ctrl-C does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)

    async def ended(self) -> int:
        """Wait for the end of the process; return its exit code."""
        assert self.process is not None
        while (code := self.process.poll()) is None:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(POLL)
        return code

    async def said(self, text: str) -> None:
        """Wait until the process has printed a text."""
        while text not in self.log:
            assert self.is_running, self.log
            await asyncio.sleep(POLL)

    def items(self) -> list[dict[str, Any]]:
        """Read the items; a torn line raises."""
        text = (self.folder / "items.jsonl").read_text()
        assert text.endswith("\n")
        return [json.loads(line) for line in text.splitlines()]

    def shoal(self, *arguments: str) -> Ran:
        """Run another command on the store."""
        return shoal(*arguments, "--store", str(self.store), cwd=self.folder)
