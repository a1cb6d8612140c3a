"""A crawl in a folder (SQLite), which is killed, frozen and stopped, and resumed until it has finished."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from tests.simulation import oracles
from tests.simulation.clock import CURRENT, world
from tests.simulation.faults import Faults
from tests.simulation.loop import Node, SimLoop, SimWriter
from tests.simulation.parser import SimParser
from tests.simulation.plan import Fault, Plan
from tests.simulation.web import Web

import shoal.frontier.sqlite.frontier as sqlite_frontier
import shoal.stores.folder.control_socket as control_socket
from shoal.engine.embedded_run.run import crawl
from shoal.engine.plan import CrawlPlan, Stop
from shoal.engine.runs.outcome import NothingToDo
from shoal.engine.snapshot import Ending, Summary
from shoal.frontier.sqlite.frontier import SqliteFrontier
from shoal.model.settings import CrawlSettings, Settings
from shoal.sinks import MultiSink
from shoal.spider.source import SpiderFile
from shoal.stores.folder.store import FolderStore

SPIDER = str(Path(__file__).parent.parent / "spiders" / "graph.py")
LIMIT_S = 40_000.0  # virtual; a crawl of these sizes takes at most an hour
MAX_RETRIES = 30  # attempts that a kill interrupts count, too
OVERRIDES = frozenset({"rate", "per_host", "concurrency", "same_host", "lease"})


def settings_of(plan: Plan, store: str = "") -> Settings:
    """Return the settings of the crawl of a plan."""
    settings = Settings()
    rules = replace(
        CrawlSettings(),
        rate=plan.rate,
        per_host=plan.per_host,
        concurrency=plan.concurrency,
        same_host=False,
        lease=plan.lease_s,
    )
    return replace(
        settings,
        crawl=rules,
        retry=replace(settings.retry, max_retries=MAX_RETRIES, base=1.3),
        fetch_log=replace(settings.fetch_log, enabled=plan.fetch_log),
        store=store or settings.store,
    )


class FolderRun:
    """One run of a plan."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._output = folder / "items.jsonl"
        self._web = Web(plan.shape, trouble=plan.trouble)
        self._faults = Faults(plan.faults, self._strike)
        self._node: Node
        self._stop: Stop

    @property
    def requests(self) -> int:
        return len(self._web.log)

    async def run(self) -> None:
        """Run the crawl to its end, and check it."""
        world.slow_disk = self._plan.slow_disk
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        loop.limit = world.now + LIMIT_S
        _note_calls(self._faults)
        ending, runs = Ending.INTERRUPTED, 0
        while ending is not Ending.FINISHED:
            self._node, self._stop = Node(f"n{runs}", 1000 + runs), Stop()
            self._node.mortal = True
            task = self._node.start(self._crawl(self._stop))
            if not runs:
                self._faults.begin()
            runs += 1
            await asyncio.wait([task, self._node.died], return_when=asyncio.FIRST_COMPLETED)
            if self._node.dead:
                self._faults.crashed()
                continue
            try:
                ending = task.result().ending
            except NothingToDo:  # the last run was killed after it had finished the crawl
                ending = Ending.FINISHED
            world.log("ended", ending)
        self._faults.end()
        oracles.check_items(self._web, self._output)
        await self._check_audit()
        oracles.check_pace(self._plan, self._web.log)
        oracles.check_waste(self._plan, self._web)
        oracles.check_log()

    async def _crawl(self, stop: Stop) -> Summary:
        settings = settings_of(self._plan)
        source = SpiderFile(SPIDER)
        planned = CrawlPlan(
            source,
            settings,
            name="c",
            seeds=(self._web.graph.start,),
            outputs=(str(self._output),),
            alone=True,
            overrides=OVERRIDES,
        )
        async with FolderStore.open(self._folder / "store", create=True) as store:
            parser = SimParser(source)
            return await crawl(
                planned, store, stop=stop, parser=parser, client=self._web, open_writer=SimWriter
            )

    async def _check_audit(self) -> None:
        async with FolderStore.open(self._folder / "store") as store:
            audit = await store.crawls.audit("c")
        oracles.check_counts(self._web, audit.counts)
        if audit.problems:
            raise oracles.Broken(f"audit: {audit.problems[0]}")

    def _strike(self, fault: Fault, _node: Node | None) -> None:
        match fault.kind:
            case "kill":
                self._node.kill()
            case "freeze":
                self._node.freeze(fault.seconds)
            case "stop":
                self._stop.ask()
            case "wall":
                self._node.wall_offset += fault.seconds


class _NoCheckpointer:
    """Crawls of a simulation change too few rows for a checkpoint of the write-ahead log; no thread waits."""

    def __init__(self, _path: Path) -> None: ...
    def __enter__(self) -> "_NoCheckpointer":
        return self

    def __exit__(self, *_error: object) -> None: ...
    def note(self, _changed_rows: int) -> None: ...


def _refuse_socket(_folder: Path) -> Any:
    raise OSError(95, "simulated nodes have no sockets")


def _note_calls(faults: Faults) -> None:
    """Report the calls of the frontier and of the outputs as events. A process runs one seed: no undo."""

    def reporting(call: Callable[..., Any], event: str) -> Callable[..., Any]:
        @wraps(call)
        async def called(*args: Any, **options: Any) -> Any:
            result = await call(*args, **options)
            if (node := CURRENT.get()) is not None:
                faults.note(event, node)
                if node.dead:
                    await asyncio.get_running_loop().create_future()  # nothing of it runs on
            return result

        return called

    for event in ("commit", "add", "lease", "extend"):
        setattr(SqliteFrontier, event, reporting(getattr(SqliteFrontier, event), event))
    flush = MultiSink.flush

    def flushed(sink: MultiSink) -> bytes:
        checkpoint = flush(sink)
        if (node := CURRENT.get()) is not None:
            faults.note("checkpoint", node)
        return checkpoint

    setattr(MultiSink, "flush", flushed)  # noqa: B010


vars(sqlite_frontier)["Checkpointer"] = _NoCheckpointer
vars(control_socket)["bind_socket"] = _refuse_socket
