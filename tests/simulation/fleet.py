"""A crawl of a fleet: workers on one Valkey that die, freeze and lose messages, and their successors."""

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.simulation import oracles
from tests.simulation.believers import Believers
from tests.simulation.clock import world
from tests.simulation.faults import Faults
from tests.simulation.folder import OVERRIDES, SPIDER, settings_of
from tests.simulation.loop import Node, SimLoop, SimWriter
from tests.simulation.network import Network
from tests.simulation.parser import SimParser
from tests.simulation.plan import ROLES, Fault, Plan
from tests.simulation.valkey import take_server
from tests.simulation.web import Web

from shoal.engine.plan import CrawlPlan, Stop
from shoal.frontier.redis.scripts import SCRIPTS, Scripts
from shoal.model.sandbox import SandboxRules
from shoal.services.submit import submit_known
from shoal.sinks.fleet import writer
from shoal.spider.source import SpiderFile
from shoal.stores.redis.store import RedisStore
from shoal.worker.machine import WorkerProcess
from shoal.worker.rules import WorkerRules
from shoal.worker.worker import Worker, WorkerPlan

DSN = "redis://simulated:1"
SHARDS = 4  # fewer than usual: fewer calls, more contention
LIMIT_S = 20_000.0
DEADLINE_S = 10.0  # without a heartbeat, after which others parse what a worker took


@dataclass(frozen=True, slots=True)
class _Running:
    node: Node
    stop: Stop


class FleetRun:
    """One run of a plan."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._output = folder / "items.jsonl"
        self._web = Web(plan.shape, trouble=plan.trouble)
        self._faults = Faults(plan.faults, self._strike)
        self._server = take_server()
        names = {getattr(SCRIPTS, name).sha: name for name in vars(Scripts) if _is_script(name)}
        names[writer._SCRIPT.sha] = "written"
        self._network = Network(self._server, names, self._faults.note)
        self._open = partial(RedisStore.open, DSN, connect=self._network.connect, shards=SHARDS)
        self._nodes: list[Node] = []
        self._running: dict[asyncio.Task[None], _Running] = {}
        self._clock_steps: list[float] = []

    @property
    def requests(self) -> int:
        return len(self._web.log)

    async def run(self) -> None:
        """Submit the crawl, serve it while the faults strike, let one worker finish it, and check it."""
        plan = self._plan
        world.slow_disk = plan.slow_disk
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        loop.limit = world.now + LIMIT_S
        believers = Believers(self._server)
        await self._node("submit").start(self._submit())
        self._network.begin_losses(plan)
        for roles in plan.workers:
            self._start(roles)
        self._faults.begin()
        await self._serve()
        self._faults.end()
        self._network.end_losses()
        self._start(ROLES)  # nothing happens to it: it finishes what is left
        for node in self._nodes:
            node.mortal = False
        await self._serve()
        await self._node("check").start(self._check())
        oracles.check_pace(plan, self._web.log, self._clock_steps)
        oracles.check_waste(plan, self._web)
        believers.check()
        oracles.check_log()

    async def _serve(self) -> None:
        """Wait until no worker runs; replace those that die, so that one with all roles is always there."""
        while self._running:
            deaths = [one.node.died for one in self._running.values()]
            await asyncio.wait([*self._running, *deaths], return_when=asyncio.FIRST_COMPLETED)
            for task, one in list(self._running.items()):
                if one.node.dead:
                    del self._running[task]
                    self._faults.crashed()
                    self._start(ROLES)
                elif task.done():
                    del self._running[task]
                    world.log("ended", one.node)
                    task.result()

    def _node(self, name: str) -> Node:
        node = Node(name, 1000 + len(self._nodes))
        self._nodes.append(node)
        return node

    def _start(self, roles: tuple[str, ...]) -> None:
        node = self._node(f"w{len(self._nodes)}")
        node.mortal = True
        stop = Stop()
        world.log("start", node, ",".join(roles))
        self._running[node.start(self._work(node, frozenset(roles), stop))] = _Running(node, stop)

    def _exists(self, pid: int) -> bool:
        return any(node.pid == pid and not node.dead for node in self._nodes)

    async def _submit(self) -> None:
        source = SpiderFile(SPIDER)
        planned = CrawlPlan(
            source,
            settings_of(self._plan, DSN),
            name="c",
            seeds=(self._web.graph.start,),
            outputs=(str(self._output),),
            overrides=OVERRIDES,
        )
        async with self._open() as store:
            await submit_known(store, planned, SimParser(source).description, Stop())

    async def _work(self, node: Node, roles: frozenset[str], stop: Stop) -> None:
        plan = WorkerPlan(
            roles=roles,
            concurrency=8,
            until_done=True,
            folder=self._folder / "data",
            rules=WorkerRules.of(settings_of(self._plan, DSN), own=(str(self._output),)),
            deadline=DEADLINE_S,
            sandbox=SandboxRules(),
        )
        machine = "machine" if self._plan.one_machine else f"machine-{node.pid}"
        async with self._open() as store:
            store.fleet.client.patience = 1e9
            worker = Worker(
                store.fleet,
                plan,
                stop,
                parser=SimParser(SpiderFile(SPIDER)),
                process=WorkerProcess(f"{node}-{node.pid}", machine, node.pid, self._exists),
                client=self._web,
                open_writer=SimWriter,
            )
            await worker.run()

    async def _check(self) -> None:
        async with self._open() as store:
            audit = await store.crawls.audit("c")
        oracles.check_items(self._web, self._output)
        oracles.check_counts(self._web, audit.counts)
        if audit.problems:
            raise oracles.Broken(f"audit: {audit.problems[0]}")

    def _strike(self, fault: Fault, node: Node | None) -> None:
        """Apply a fault to the node that made the event, or to one that the schedule chooses."""
        running = [one for one in self._running.values() if not one.node.dead]
        if not running:
            return
        chosen = world.schedule.choice(running)
        struck = next((one for one in running if one.node is node), chosen)
        match fault.kind:
            case "kill":
                struck.node.kill()
            case "freeze":
                struck.node.freeze(fault.seconds)
            case "stop":
                struck.stop.ask()
                self._start(ROLES)
            case "start":
                self._start(ROLES)
            case "wall":
                struck.node.wall_offset += fault.seconds
            case "outage":
                self._network.down_until = world.now + fault.seconds
            case "store_clock":
                self._clock_steps.append(world.now)
                self._server.clock_step += fault.seconds


def _is_script(name: str) -> bool:
    return not name.startswith("_") and name != "fragment"
