"""A fleet whose workers and whose store are killed over and over: nothing lost, nothing doubled, never impolite.

Workers are killed every 0.5 to 2 seconds and replaced, stopped until others have what they had, and the store
is killed under them, or its master is. What is done comes from a seed, which a failure shows. `CHAOS_SIZE`
multiplies all of it; the promise is made for 1 (`make chaos`).
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.crash.fleet import judge
from tests.crash.fleet.adversary import Adversary, Malice
from tests.crash.fleet.seeds import SIZE, drawn, kept_if_it_fails, seeds
from tests.e2e.command import records
from tests.fleet_crawl import CONCURRENCY, Fleet
from tests.graph_crawl import serving_graph
from tests.servers.power import Power
from tests.servers.redis import cluster, sentinels, valkey
from tests.servers.shared import shared_database
from tests.site.graph import Shape

from shoal.stores.contract.places import pattern_for

RATE = 1.0  # requests per second and host: no crawl is over before its largest host is
LEASE = 4.0
ALL: tuple[str, ...] = ()
ROLES = (ALL, ("--roles", "fetch"), ("--roles", "parse,sink"), ("--roles", "fetch,parse"))

# Where one master is lost for good, one loss is all there can be.
FAILOVER, PAGES = Malice(kills=8, stops=2, strikes=1), 1_000

Strike = Callable[[random.Random], Awaitable[None]]


def sized(number: int) -> int:
    return max(1, round(number * SIZE))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    malice: Malice
    pages: int
    seed: int

    @property
    def shape(self) -> Shape:
        return Shape(
            seed=self.seed,
            pages=self.pages,
            hosts=50,
            redirects=self.pages // 50,
            gone=self.pages // 100,
            disallowed=self.pages // 100,
            spellings=True,
            queries=True,
            latency_s=dict.fromkeys(range(0, 50, 5), 1.5),  # longer than an interval
        )


async def play(scenario: Scenario, dsn: str, folder: Path, strike: Strike) -> None:
    """Crawl a graph with an adversary about, and judge what is left."""
    rng = random.Random(scenario.seed)
    with kept_if_it_fails(scenario.name, scenario.seed), shared_database() as database:
        table = f"{database}?table=chaos"
        async with serving_graph(scenario.shape) as (site, graph):
            allowed = {"SHOAL_WORKER_ALLOW_OUTPUTS": f".\n{pattern_for(table)}"}
            with Fleet(dsn, folder, lease=LEASE, settings=allowed) as fleet:
                submitted = fleet.submit(graph.start, "--rate", str(RATE), "--out", table)
                assert submitted.code == 0, submitted.err
                adversary = Adversary(fleet, rng, ROLES, lambda: strike(rng))
                codes = await adversary.torment(scenario.malice)
                assert codes == [0] * len(ROLES), fleet.logs()[-20_000:]
                assert adversary.done == scenario.malice.deeds

                hits, expected = await site.hits(), graph.expected()
                blows = adversary.kills + adversary.stops
                again = judge.assert_fetched(hits, expected, blows=blows, concurrency=CONCURRENCY)
                judge.assert_items("JSONL", records(folder / "items.jsonl"), expected.items)
                judge.assert_items("PostgreSQL", await judge.rows(table), expected.items)
                judge.assert_counted(fleet.counts(), expected)
                judge.assert_paced(hits, RATE)
                verified = fleet.verify()
                assert verified.code == 0, verified.out
        print(f"{scenario.name}: {len(expected.fetched)} URLs, {scenario.malice}, {again} fetched again")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", seeds("restarts"))
async def test_workers_and_the_store_are_killed_and_started_again(
    seed: int | None, tmp_path: Path, folder: Path
) -> None:
    malice = Malice(kills=sized(200), stops=sized(20), strikes=sized(5))
    async with valkey(tmp_path / "server", "--appendonly", "yes", "--appendfsync", "everysec") as server:

        async def restart(rng: random.Random) -> None:
            server.kill()
            await asyncio.sleep(rng.uniform(0.0, 1.0))
            await server.begin()

        await play(Scenario("restarts", malice, sized(20_000), drawn(seed)), server.dsn, folder, restart)


@pytest.mark.full_size
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", seeds("power"))
async def test_the_store_loses_power_under_a_fleet(seed: int | None, tmp_path: Path, folder: Path) -> None:
    malice = Malice(kills=sized(40), stops=sized(4), strikes=sized(20))
    async with valkey(tmp_path / "server", "--appendonly", "yes", "--appendfsync", "everysec") as server:
        with Power(server) as power:

            async def lose_power(_: random.Random) -> None:
                await power.cut()

            await play(Scenario("power", malice, sized(4_000), drawn(seed)), server.dsn, folder, lose_power)
        print(f"power: {power.lost} bytes of the log were lost")


@pytest.mark.full_size
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds("failover"))
async def test_sentinels_replace_the_master_under_a_fleet(
    seed: int | None, tmp_path: Path, folder: Path
) -> None:
    async with sentinels(tmp_path / "servers") as servers:

        async def lose_the_master(_: random.Random) -> None:
            (await servers.master()).kill()

        await play(Scenario("failover", FAILOVER, PAGES, drawn(seed)), servers.dsn, folder, lose_the_master)


@pytest.mark.full_size
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds("cluster"))
async def test_a_cluster_replaces_a_master_under_a_fleet(
    seed: int | None, tmp_path: Path, folder: Path
) -> None:
    async with cluster(tmp_path / "servers") as servers:

        async def lose_a_master(rng: random.Random) -> None:
            rng.choice(await servers.masters()).kill()

        await play(Scenario("cluster", FAILOVER, PAGES, drawn(seed)), servers.dsn, folder, lose_a_master)
