"""kill -9 of workers, browsers and renderers at random moments of a rendered crawl: exact sets, nothing left running.

The moments come from a seed, which a failure shows; `CHAOS_SEED` repeats them. The cut kills one of each kind;
`make browser-soak` kills 30 times, in a folder and in a fleet.
"""

import asyncio
import os
import random
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.crash.browser_processes import browsers, processes, renderers, until_ended
from tests.e2e.command import SHOAL, Ran, shoal, surroundings
from tests.fleet_crawl import Fleet, assert_fleet_items
from tests.graph_crawl import POLL, GraphCrawl, assert_items, assert_same, serving_graph
from tests.servers.redis import valkey
from tests.site.access_log import fetches
from tests.site.graph import Graph, Shape
from tests.site.server import ServedSite

KILLS = int(os.environ.get("BROWSER_KILLS", "3"))
STORES = ("folder", "redis") if KILLS >= 30 else ("folder",)
PAGES = 8 * KILLS
CONCURRENCY = 8
GROUP_COMMIT = 64
VICTIM_S = 60.0  # within which there is a process of the kind that is to be killed
LAST_RUN_S = 240.0
WORKER, BROWSER, RENDERER = VICTIMS = ("worker", "browser", "renderer")


@dataclass(frozen=True, slots=True)
class Crawl:
    """One rendered crawl of a graph, in a folder or in a fleet."""

    start: Callable[[], subprocess.Popen[bytes]]  # a process that works on it until it is done
    command: Callable[..., Ran]  # a command about it
    check: Callable[[Graph], None]  # its archive and its items


def started(arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a command as a separate process, whose environment can be seen from outside."""
    with (folder / "log").open("ab") as log:  # for a failed test
        return subprocess.Popen(
            [*SHOAL, *arguments],
            cwd=folder,
            env=surroundings(env),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


@asynccontextmanager
async def in_a_folder(graph: Graph, folder: Path, profiles: Path) -> AsyncIterator[Crawl]:
    options = ("--render", "--rate", "0", "--per-host", "4", "--concurrency", str(CONCURRENCY))
    crawl = replace(GraphCrawl(graph.start, folder, options), env={"TMPDIR": str(profiles)})

    def check(graph: Graph) -> None:
        assert_same("archived", crawl.archived().elements(), graph.expected().pages)
        assert_items(crawl, graph)

    def command(*arguments: str) -> Ran:
        return shoal(*arguments, "--store", "store", cwd=folder)

    yield Crawl(lambda: started(crawl.arguments, folder, crawl.env), command, check)


@asynccontextmanager
async def on_redis(graph: Graph, folder: Path, profiles: Path) -> AsyncIterator[Crawl]:
    async with valkey(folder / "valkey") as server:
        with Fleet(server.dsn, folder, settings={"TMPDIR": str(profiles)}) as fleet:
            submitted = await asyncio.to_thread(fleet.submit, graph.start, "--render")
            assert submitted.code == 0, submitted.err

            def check(graph: Graph) -> None:
                assert_same("archived", set(fleet.archived()), graph.expected().pages)
                assert_fleet_items(fleet, graph)

            def start() -> subprocess.Popen[bytes]:
                roles = ("--roles", "fetch,browser,parse,sink", "--concurrency", str(CONCURRENCY))
                return started(["worker", *roles, "--until-done"], folder, fleet.env)

            def command(*arguments: str) -> Ran:
                return shoal(*arguments, cwd=folder, env=fleet.env)

            yield Crawl(start, command, check)


OPEN = {"folder": in_a_folder, "redis": on_redis}


@dataclass(slots=True)
class Killer:
    """Keeps a crawl going, and kills parts of it."""

    crawl: Crawl
    served: ServedSite
    profiles: Path
    rng: random.Random
    worker: subprocess.Popen[bytes] | None = None

    async def kill_at(self, served: int, kind: str) -> None:
        """Send SIGKILL to a process of a kind, up to a second after `served` pages were served in all."""
        if self.worker is None:
            self.worker = self.crawl.start()
        while await self.served.served() < served:
            self._check_running()
            await asyncio.sleep(POLL)
        await asyncio.sleep(self.rng.uniform(0.0, 1.0))
        async with asyncio.timeout(VICTIM_S):
            while not await self._kill_one(kind):  # noqa: ASYNC110
                await asyncio.sleep(POLL)
        if kind == WORKER:
            self.worker.wait()
            self.worker = None
            await until_ended(self.profiles)

    async def _kill_one(self, kind: str) -> bool:
        """Kill one process; return False if no such process runs."""
        assert self.worker is not None
        self._check_running()
        pids = [self.worker.pid]
        if kind != WORKER:
            pids = await asyncio.to_thread(renderers if kind == RENDERER else browsers, self.profiles)
        try:
            os.kill(self.rng.choice(pids), signal.SIGKILL)
        except (IndexError, ProcessLookupError):
            return False
        return True

    def _check_running(self) -> None:
        assert self.worker is not None
        assert self.worker.poll() is None, "the crawl has ended: a kill would mean nothing"

    async def finish(self) -> None:
        worker, self.worker = self.worker or self.crawl.start(), None
        assert await asyncio.to_thread(worker.wait, LAST_RUN_S) == 0
        await until_ended(self.profiles)

    def close(self) -> None:
        if self.worker is not None:
            self.worker.kill()
            self.worker.wait()


def kinds(rng: random.Random) -> list[str]:
    """Return as many of each kind, in random order."""
    found = [VICTIMS[number % len(VICTIMS)] for number in range(KILLS)]
    rng.shuffle(found)
    return found


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("store", STORES)
async def test_a_rendered_crawl_that_is_killed_over_and_over_ends_with_exactly_the_graph(
    store: str, tmp_path: Path, profiles: Path
) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.SystemRandom().randrange(1_000_000)))
    print(f"CHAOS_SEED={seed}")  # shown if the test fails
    rng = random.Random(seed)
    shape = Shape(seed=seed, pages=PAGES, hosts=5, chain=3, redirects=4, gone=3, disallowed=3)
    moments = sorted(rng.randrange(PAGES * 3 // 4) for _ in range(KILLS))
    async with serving_graph(shape) as (served, graph), OPEN[store](graph, tmp_path, profiles) as crawl:
        killer = Killer(crawl, served, profiles, rng)
        try:
            for moment, kind in zip(moments, kinds(rng), strict=True):
                await killer.kill_at(moment, kind)
            await killer.finish()
        finally:
            killer.close()
        await replay_twice_killed(killer)

        crawl.check(graph)
        asked = fetches(await served.hits())
        expected = graph.expected()
        assert_same("fetched", set(asked), expected.fetched)
        again = asked.total() - len(expected.fetched)
        assert again <= KILLS * (CONCURRENCY + GROUP_COMMIT)
        verified = await asyncio.to_thread(crawl.command, "verify")
        assert verified.code == 0, verified.out
    assert processes(profiles) == []
    print(f"{store}: {KILLS} kills, {len(expected.fetched)} URLs, {again} fetched again")


async def replay_twice_killed(killer: Killer) -> None:
    """Fetch again what lost its renderer twice: such a page is given up, as one that crashes a renderer is."""
    listed = await asyncio.to_thread(killer.crawl.command, "dlq", "list", "--json")
    dead = listed.json["dead_letters"]
    assert {letter["class"] for letter in dead} <= {"renderer_crash"}, dead
    assert 2 * len(dead) <= KILLS
    if dead:
        replayed = await asyncio.to_thread(killer.crawl.command, "dlq", "replay", "--yes")
        assert replayed.code == 0, replayed.err
        await killer.finish()
