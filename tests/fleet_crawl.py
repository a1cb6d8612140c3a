"""A crawl of the test graph by a fleet: workers as separate processes, on one store."""

import asyncio
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.command import (
    PRIVATE,
    SHOAL,
    Ran,
    can_be_forked,
    records,
    shoal,
    start_logged,
    surroundings,
)
from tests.e2e.command_server import StartedCommand
from tests.graph_crawl import FIELDS, LONGEST_RUN, POLL, SPIDER, archived_in, assert_same
from tests.site.graph import Graph
from tests.site.server import ServedSite

LEASE = 5.0  # seconds after which other workers get the requests of a killed one
CONCURRENCY = 16  # of each worker
Worker = StartedCommand | subprocess.Popen[bytes]


@dataclass
class Fleet:
    """A store, a folder for what the workers write, and the workers."""

    dsn: str
    folder: Path
    lease: float = LEASE
    settings: Mapping[str, str] = field(default_factory=dict)  # as environment
    workers: list[Worker] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        return {"SHOAL_STORE": self.dsn, "SHOAL_CRAWL_LEASE": str(self.lease), **PRIVATE, **self.settings}

    def submit(self, start: str, *options: str, spider: Path | None = SPIDER) -> Ran:
        target = (start,) if spider is None else (str(spider), start, "--any-host")
        quick = ("--allow-private", "--rate", "0", "--per-host", "8", "--out", "items.jsonl", "--json")
        return shoal("submit", *target, *quick, *options, cwd=self.folder, env=self.env)

    def start(self, *options: str, program: Sequence[str] = SHOAL) -> Worker:
        """Start one more worker in a new process group."""
        arguments = ("worker", "--concurrency", str(CONCURRENCY), *options)
        path = self.folder / f"worker-{len(self.workers)}.log"
        worker: Worker
        if program == SHOAL and can_be_forked(self.settings):
            worker = start_logged(*arguments, cwd=self.folder, log=path, env=self.env, session=True)
        else:
            with path.open("ab") as log:
                worker = subprocess.Popen(
                    [*program, *arguments],
                    cwd=self.folder,
                    env=surroundings(self.env),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        self.workers.append(worker)
        return worker

    async def ended(self, worker: Worker, *, within: float = LONGEST_RUN) -> int:
        return await asyncio.to_thread(worker.wait, within)

    async def until_served(self, site: ServedSite, pages: int, *, within: float = LONGEST_RUN) -> None:
        """Wait until `pages` pages have been served; fail if a worker ends."""
        async with asyncio.timeout(within):
            while await site.served() < pages:
                assert all(worker.poll() in (None, -signal.SIGKILL) for worker in self.workers), self.logs()
                await asyncio.sleep(POLL)

    def kill(self, worker: Worker) -> None:
        """Send SIGKILL to a worker and its children."""
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            self.kill(worker)

    def status(self) -> Any:
        return shoal("status", "--json", cwd=self.folder, env=self.env).json

    def verify(self) -> Ran:
        return shoal("verify", cwd=self.folder, env=self.env)

    def counts(self) -> Mapping[str, int]:
        """Return the number of requests in each state of the only crawl."""
        [crawl] = self.status()["crawls"]
        return {"accepted": crawl["accepted"], **crawl["counts"]}

    def archived(self) -> Counter[str]:
        return archived_in(self.folder / "shoal-data")

    def logs(self) -> str:
        return "\n".join(log.read_text() for log in sorted(self.folder.glob("worker-*.log")))


def assert_fleet_items(fleet: Fleet, graph: Graph) -> None:
    """The output holds exactly the items of the graph, each of them once."""
    expected = [tuple(item[field] for field in FIELDS) for item in graph.expected().items]
    found = [tuple(row[field] for field in FIELDS) for row in records(fleet.folder / "items.jsonl")]
    assert_same("items.jsonl", found, expected)
