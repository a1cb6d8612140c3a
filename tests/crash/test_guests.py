"""Several crawls at once in one folder, whose processes are killed at random moments and started again.

The first process owns the folder, the others are its guests; each kill makes another one the owner, or unloads the
crawl of a guest. `CHAOS_SEED` repeats the moments, `GUESTS_PAGES` and `GUESTS_KILLS` change the size.
"""

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest
from tests.graph_crawl import FIELDS, POLL, assert_same, serving_graph
from tests.guests import Member, count_requests, hold, let_go, wait_for_requests
from tests.site.access_log import by_host, violations
from tests.site.graph import Graph, Shape
from tests.site.server import ServedSite

PAGES = int(os.environ.get("GUESTS_PAGES", "300"))
KILLS = int(os.environ.get("GUESTS_KILLS", "9"))
MEMBERS = 3
RATE = 40  # requests per second and host, of all crawls together
CLOCK_SLACK_S = 0.001
LEASE_S = 1.0
LONGEST_S = 240.0


@pytest.mark.slow("nine kills in crawls of 300 pages at 40 requests per second and host")
@pytest.mark.alone("two requests may arrive a millisecond closer than they were sent, and not more")
@pytest.mark.timeout(900)
async def test_crawls_whose_processes_are_killed_end_with_exactly_the_graph_at_one_pace(
    tmp_path: Path,
) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.SystemRandom().randrange(1_000_000)))
    print(f"CHAOS_SEED={seed}")  # shown if the test fails
    rng = random.Random(seed)
    shape = Shape(seed=seed, pages=PAGES, hosts=4, redirects=10, gone=10)
    async with serving_graph(shape) as (site, graph):
        members = [
            Member(name, tmp_path / name, tmp_path / "store", graph.start, ("--rate", str(RATE)))
            for name in ("one", "two", "three")[:MEMBERS]
        ]
        for member in members:
            member.start()
        kills = await kill_at_random(rng, members, site, graph)
        async with asyncio.timeout(LONGEST_S):
            codes = [await member.ended() for member in members]

        assert codes == [0] * MEMBERS, [member.log for member in members]
        assert kills >= KILLS // 2, "the crawls ended too early for the kills to mean anything"
        expected = [tuple(item[field] for field in FIELDS) for item in graph.expected().items]
        for member in members:
            found = [tuple(row[field] for field in FIELDS) for row in member.items()]
            assert_same(member.name, found, expected)
        verified = members[0].shoal("verify")
        assert verified.code == 0, verified.out
        for host, hits in by_host(await site.hits()).items():
            assert not violations([hit.arrived for hit in hits], rate=RATE, slack_s=CLOCK_SLACK_S), host


@pytest.mark.slow("a process is stopped for two leases of a second each")
@pytest.mark.parametrize("stopped", ["one", "two"])
async def test_a_process_that_is_stopped_for_longer_than_its_leases_loses_and_doubles_nothing(
    tmp_path: Path, stopped: str
) -> None:
    async with asyncio.timeout(LONGEST_S), serving_graph(Shape(pages=200, hosts=4)) as (site, graph):
        members = [
            Member(name, tmp_path / name, tmp_path / "store", graph.start, ("--rate", str(RATE)))
            for name in ("one", "two")
        ]
        await hold(tmp_path / "store", graph.authorities)
        for member in members:
            member.folder.mkdir()
            (member.folder / "shoal.toml").write_text(f"[crawl]\nlease = {LEASE_S}\n")
            member.start()
            await member.said("items go to")
        await let_go(tmp_path / "store", graph.authorities)
        await wait_for_requests(site, 60)
        [chosen] = [member for member in members if member.name == stopped]
        os.killpg(chosen.pid, signal.SIGSTOP)
        await asyncio.sleep(2 * LEASE_S)
        os.killpg(chosen.pid, signal.SIGCONT)
        codes = [await member.ended() for member in members]

    assert codes == [0, 0], [member.log for member in members]
    expected = [tuple(item[field] for field in FIELDS) for item in graph.expected().items]
    for member in members:
        assert_same(member.name, [tuple(row[field] for field in FIELDS) for row in member.items()], expected)
    verified = members[0].shoal("verify")
    assert verified.code == 0, verified.out


async def kill_at_random(rng: random.Random, members: list[Member], site: ServedSite, graph: Graph) -> int:
    """Kill members that run and start them again, spread over the crawls; return how many were killed."""
    total = MEMBERS * len(graph.expected().pages)
    kills = 0
    for requests in sorted(rng.randrange(total // 30, int(total * 0.8)) for _ in range(KILLS)):
        while await count_requests(site) < requests and any(member.is_running for member in members):  # noqa: ASYNC110
            await asyncio.sleep(POLL)
        await asyncio.sleep(rng.uniform(0, 0.5))
        if running := [member for member in members if member.is_running]:
            victim = rng.choice(running)
            victim.kill()
            kills += 1
            await asyncio.sleep(rng.choice((0.0, 0.0, 1.0)))
            victim.start()
    return kills
