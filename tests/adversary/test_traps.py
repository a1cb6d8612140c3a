"""Sites that serve one page under any number of addresses, on default settings, in a folder and by a fleet."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.adversary.size import sized
from tests.e2e.command import QUICK, shoal
from tests.fleet_crawl import Fleet
from tests.servers.redis import valkey
from tests.site.name_server import name_server
from tests.site.server import serving
from tests.site.sessions import PRODUCTS

PAGES = 800  # within which a trap is closed: 250 pages that bring nothing new, one in 8 digested at first
WHERE = sized(["query", "path"], full=["query", "path", "matrix", "letters"])


@pytest.fixture
async def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "folder":
        yield str(tmp_path / "store")
    else:
        async with valkey(tmp_path) as server:
            yield server.dsn


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("dsn", ["folder", "fleet"], indirect=True)
async def test_session_ids_are_cut_off_and_everything_else_is_found(
    dsn: str, where: str, tmp_path: Path
) -> None:
    async with serving("tests.site.sessions:build", where, hosts=1) as site:
        start = f"http://{site.authorities[0]}/"
        crawl = ("crawl", start, "--store", dsn, *QUICK, "--json", "--quiet")
        ran = shoal(*crawl, cwd=tmp_path)
        fetched = Counter(hit.path for hit in await site.hits())

    assert ran.code == 9, ran.err
    assert sum("home" in path for path in fetched) < PAGES
    assert {path for path in fetched if "product" in path} == {f"/product/{n + 1}" for n in range(PRODUCTS)}
    [closed] = ran.json["closed_patterns"]
    assert closed["more_than"] == 250
    [status] = shoal("status", "--store", dsn, "--json", cwd=tmp_path).json["crawls"]
    assert status["closed_patterns"] == [closed]
    assert status["filtered_by_rule"]["held"] == status["counts"]["held"] > 0
    assert closed["pattern"] in shoal("status", "--store", dsn, cwd=tmp_path).out


@pytest.mark.parametrize("dsn", ["folder", "fleet"], indirect=True)
async def test_counts_survive_the_process_that_counted(dsn: str, tmp_path: Path) -> None:
    """No run sees enough identical pages alone; in a fleet each run is another worker."""
    async with serving("tests.site.sessions:build", "query", hosts=1) as site:
        start = f"http://{site.authorities[0]}/home"
        crawl = ("crawl", start, "--store", dsn, *QUICK, "--json", "--quiet")
        found = []
        env = {"SHOAL_LINKS_NOTHING_NEW": "120"}
        for limit in (60, 400):
            ran = shoal(*crawl, "--max-pages", str(limit), cwd=tmp_path, env=env)
            assert ran.code in {0, 9}, ran.err
            found.append(len(ran.json["closed_patterns"]))
        more = f"{start}?sid=0123456789abcdef01234567"  # of the closed shape
        after = shoal(*crawl, more, "--max-pages", "3000", cwd=tmp_path, env=env)
        fetched = sum("home" in hit.path for hit in await site.hits())

    assert found[0] == 0
    assert found[-1] == 1
    assert (after.code, after.json["ending"]) == (9, "finished")
    assert set(after.json["filtered"]) == {"held"}
    assert after.json["pages"] == 0, "a new process knows what was closed before its first page"
    assert fetched <= 400


async def test_workers_add_up_what_each_of_them_has_counted(tmp_path: Path) -> None:
    async with valkey(tmp_path) as server, serving("tests.site.sessions:build", "path", hosts=1) as site:
        settings = {"SHOAL_LINKS_NOTHING_NEW": "300"}
        with Fleet(server.dsn, tmp_path, lease=1.0, settings=settings) as fleet:
            submitted = fleet.submit(f"http://{site.authorities[0]}/s/1/home", "--rate", "300", spider=None)
            assert submitted.code == 0, submitted.err
            workers = [fleet.start("--until-done") for _ in range(3)]
            assert [await fleet.ended(worker) for worker in workers] == [0, 0, 0], fleet.logs()
            [status] = fleet.status()["crawls"]
            fetched = sum("home" in hit.path for hit in await site.hits())

    assert [closed["more_than"] for closed in status["closed_patterns"]] == [300]
    assert fetched < 900, "three workers that count alone would each allow that many"


@pytest.mark.parametrize("dsn", ["folder", "fleet"], indirect=True)
async def test_all_hosts_of_a_site_share_its_budget(dsn: str, tmp_path: Path) -> None:
    """A wildcard in the DNS gives every page a new host."""
    async with (
        serving("tests.site.sessions:build", "host", hosts=1) as site,
        name_server(lambda name: [site.authorities[0].partition(":")[0]]) as nameserver,
    ):
        port = site.authorities[0].partition(":")[2]
        env = {"SHOAL_LINKS_PER_SITE": "50", "SHOAL_CRAWL_NAMESERVERS": nameserver}
        options = ("--store", dsn, *QUICK, "--any-host", "--json", "--quiet", "--no-robots")
        crawl = ("crawl", f"http://www.wild.example.com:{port}/home", *options)
        # In a thread: the name server is in this one.
        ran = await asyncio.to_thread(shoal, *crawl, cwd=tmp_path, env=env)
        again = await asyncio.to_thread(shoal, *crawl, cwd=tmp_path, env=env)
        fetched = [hit.path for hit in await site.hits()]

    assert (ran.code, again.code) == (0, 0), ran.err + again.err
    assert ran.json["counts"]["done"] == len(fetched) == 50
    assert ran.json["counts"]["filtered"] > 0
    assert ran.json["filtered"].keys() == {"budget"}
