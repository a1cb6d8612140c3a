"""Levels are learned: pages that are blocked or empty are fetched in another way, without a setting."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.command import HASTY, NO_RETRIES, Ran, records, shoal
from tests.fleet_crawl import Fleet
from tests.servers.process import program
from tests.servers.redis import valkey
from tests.site.written import Sheet, serving_written

from shoal.cli.demo.server import open_proxy, open_site
from shoal.cli.demo.shop import Reply
from shoal.cli.demo.wall import CHALLENGE, PAGES, SECTIONS, Wall, all_skus, sku

SPIDER = """
import shoal

spider = shoal.Spider("wall", key="sku")


@spider.page()
def page(page):
    for product in page.css("article[data-sku]"):
        yield {"sku": product.attrib["data-sku"]}
    yield page.links("a")
"""
GOODS = 260
GATE_SPIDER = f"""
import shoal

spider = shoal.Spider("gate")


@spider.page(r"/$")
def front(page):
    for number in range(1, {GOODS + 1}):
        yield page.follow(f"/goods/{{number}}")


@spider.page()
def goods(page):
    yield {{"sku": page.css("h1::text").get()}}
"""
EXAMPLE = Path(__file__).parents[2] / "examples" / "wall.py"
QUICK = ("--allow-private", "--rate", "200", "--out", "items.jsonl", "--quiet", "-v")


@dataclass(frozen=True, slots=True)
class Site:
    wall: Wall
    url: str
    folder: Path
    store: tuple[str, str]

    async def crawl(self, *options: str, env: dict[str, str] | None = None) -> Ran:
        arguments = ("crawl", "wall.py", self.url, *QUICK, *self.store, *options)
        return await asyncio.to_thread(shoal, *arguments, cwd=self.folder, env={**NO_RETRIES, **(env or {})})

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://").strip("/")

    def items(self) -> set[str]:
        return {record["sku"] for record in records(self.folder / "items.jsonl")}


@contextmanager
def wall_site(folder: Path, store: str, rate: int = 0) -> Iterator[Site]:
    """Serve the demo's shop behind a wall, without its rate limit."""
    (folder / "wall.py").write_text(SPIDER)
    wall = Wall(rate)
    with open_site(wall.reply, latency=0.001) as url:
        yield Site(wall, url, folder, ("--store", store))


class Gate:
    """A site that challenges clients which do not look like a browser, for its first 100 pages."""

    def __init__(self) -> None:
        self.agents: list[str] = []  # of the pages that were asked for

    def reply(self, path: str, headers: Mapping[str, str], address: str) -> Reply:
        agent = headers.get("user-agent", "")
        if path.startswith("/goods/"):
            self.agents.append(agent)
            if len(self.agents) < 100 and "Mozilla/5.0" not in agent:
                return Reply(403, CHALLENGE, headers=(("cf-mitigated", "challenge"),))
        return Reply(200, f"<h1>{path}</h1><p>{'Landed this morning. ' * 20}</p>")


@pytest.fixture(params=["folder", "fleet"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["folder", "fleet"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    async with stores(request.param, tmp_path) as store:
        with wall_site(tmp_path, store) as site:
            yield site


@asynccontextmanager
async def stores(kind: str, folder: Path) -> AsyncIterator[str]:
    if kind == "folder":
        yield "data"
        return
    async with valkey(folder / "valkey") as server:
        yield server.dsn


def products(*sections: str) -> set[str]:
    return {sku(section, number) for section in sections for number in range(1, PAGES + 1)}


async def test_a_site_that_challenges_plain_clients_is_fetched_with_another_and_so_is_the_next_run(
    site: Site,
) -> None:
    with open_proxy("127.0.0.2") as one, open_proxy("127.0.0.3") as two:
        (site.folder / "exits.txt").write_text(
            f"http://127.0.0.1:{one} name=one\nhttp://127.0.0.1:{two} name=two\n"
        )
        (site.folder / "exits.txt").chmod(0o600)
        proxies = ("--proxy", "exits.txt")
        # One retry: several pages may meet the exit that the site refuses before the first of them says so.
        env = {"SHOAL_CRAWL_LEVELS": "plain,exit,impersonate", "SHOAL_RETRY_MAX_RETRIES": "1", **HASTY}
        first = await site.crawl(*proxies, env=env)
        challenges = site.wall.challenges
        found = shoal("status", *site.store, "--json", cwd=site.folder).json
        traced = shoal("trace", f"{site.url}guarded/1", *site.store, cwd=site.folder).out
        second = await site.crawl(*proxies, "--fresh", "--yes", env=env)

    assert first.code == second.code == 0, first.err + second.err
    assert site.items() == products("open", "members", "guarded")
    assert found["crawls"][0]["counts"]["dead"] == 0, first.err
    levels = {pattern: one["level"] for pattern, one in found["levels"][site.host]["patterns"].items()}
    assert levels["/guarded/*"] == "impersonate"
    assert levels["/members/*"] in ("exit", "impersonate")  # the refused exit may be asked at both
    assert "level.raised" in first.err
    assert "at level impersonate" in traced
    assert "level     impersonate since" in traced
    # Only the address that asks first is challenged in the second run: the pages below /guarded/ are not.
    assert challenges >= 3
    assert "/guarded/" not in "".join(line for line in second.err.splitlines() if "anti_bot" in line)


async def test_levels_can_be_forbidden_and_set(site: Site) -> None:
    env = {"SHOAL_CRAWL_LEVELS": "plain,exit"}
    forbidden = await site.crawl(env=env)
    assert forbidden.code == 0, forbidden.err
    assert site.items() == products("open")
    set_ = shoal("host", "set-level", site.host, "impersonate", *site.store, cwd=site.folder)
    assert (set_.code, set_.out) == (0, f"pages of {site.host} are fetched at level impersonate now\n")
    shown = shoal("host", "show", site.host, *site.store, cwd=site.folder).out
    assert "level impersonate, set by hand" in shown
    again = await site.crawl("--fresh", "--yes", env=env)
    assert again.code == 0, again.err
    assert site.items() == products("open", "guarded")
    assert shoal("host", "reset-level", site.host, *site.store, cwd=site.folder).code == 0
    status = shoal("status", *site.store, "--json", cwd=site.folder).json
    assert status["levels"] == {}


async def test_empty_shells_are_pages_where_no_browser_may_be_used_and_the_log_says_so(site: Site) -> None:
    ran = await site.crawl(env={"SHOAL_CRAWL_LEVELS": "plain"})
    lines = [line for line in ran.err.splitlines() if "level.unavailable" in line]
    assert len(lines) == 1
    assert "crawl.levels forbids it" in lines[0]
    counts = json.loads(shoal("status", *site.store, "--json", cwd=site.folder).out)["crawls"][0]["counts"]
    assert counts["done"] >= 1 + PAGES * (len(SECTIONS) - 2) + 2


async def test_a_level_comes_down_when_pages_can_be_fetched_below_it(tmp_path: Path, kind: str) -> None:
    """A site that challenged plain clients stops doing so: after 200 pages two are tried below the level."""
    async with stores(kind, tmp_path) as store:
        (tmp_path / "gate.py").write_text(GATE_SPIDER)
        gate = Gate()
        with open_site(gate.reply, latency=0.0) as url:
            site = Site(Wall(0), url, tmp_path, ("--store", store))
            arguments = ("crawl", "gate.py", url, *QUICK, "--rate", "0", *site.store)
            env = {**NO_RETRIES, "SHOAL_CRAWL_LEVELS": "plain,impersonate"}
            ran = await asyncio.to_thread(shoal, *arguments, cwd=tmp_path, env=env)
            assert ran.code == 0, ran.err
            why = "2 pages in a row were fetched below impersonate"
            lowered = learned_at(site, "/goods/*")
            assert (lowered["level"], lowered["why"]) == ("plain", why)
            for command in (("trace", f"{url}goods/1"), ("status",), ("host", "show", site.host)):
                said = shoal(*command, *site.store, cwd=tmp_path).out
                assert re.search(f"level .*plain since .*{why}", said), said
    events = [word for line in ran.err.splitlines() for word in line.split() if word.startswith("level.")]
    assert (events.count("level.raised"), events.count("level.lowered")) == (1, 1), ran.err
    assert len(site.items()) == GOODS
    plain = [agent.startswith("Shoal") for agent in gate.agents]
    assert plain[0], "it starts at the first level"
    assert not any(plain[50:150])
    assert sum(plain[200:]) > 2, "after the two probes, pages are plain again"


def learned_at(site: Site, pattern: str) -> dict[str, str]:
    found: dict[str, str] = shoal("status", *site.store, "--json", cwd=site.folder).json["levels"][site.host][
        "patterns"
    ][pattern]
    return found


def level_figures(folder: Path, store: tuple[str, str]) -> dict[str, tuple[int, int]]:
    """Return tries and bytes by level, as the fetch log has them."""
    query = (
        "SELECT level, count(*) AS tries, sum(wire_bytes) AS bytes FROM attempts WHERE sent GROUP BY level"
    )
    rows = shoal("sql", query, *store, "--json", cwd=folder).json["rows"]
    return {level: (tries, count) for level, tries, count in rows}


async def test_pages_that_javascript_fills_are_rendered_and_the_next_run_starts_there(site: Site) -> None:
    """A client-side shell, a list that is scrolled, and one behind a click, without a setting."""
    program("chromium-headless-shell", "chromium-headless-shell")
    (site.folder / "wall.py").write_text(EXAMPLE.read_text())
    first = await site.crawl()
    assert first.code == 0, first.err
    found = shoal("status", *site.store, "--json", cwd=site.folder).json
    assert site.items() == all_skus() - products("members")
    assert found["crawls"][0]["counts"]["dead"] == len(products("members"))
    levels = {pattern: one["level"] for pattern, one in found["levels"][site.host]["patterns"].items()}
    assert (levels["/app/*"], levels["/guarded/*"]) == ("browser", "impersonate")
    assert "needs_browser" in first.err
    print(f"tries and bytes by level: {level_figures(site.folder, site.store)}")

    second = await site.crawl("--fresh", "--yes")
    assert second.code == 0, second.err
    assert site.items() == all_skus() - products("members")
    assert "needs_browser" not in second.err
    if site.store[1] == "data":
        assert shoal("verify", "--deep", *site.store, cwd=site.folder).code == 0


async def test_in_a_fleet_workers_with_a_browser_render_what_others_found_empty(tmp_path: Path) -> None:
    """Two workers with a browser, two without."""
    program("chromium-headless-shell", "chromium-headless-shell")
    async with valkey(tmp_path / "valkey") as server:
        with wall_site(tmp_path, server.dsn) as site:
            settings = {**HASTY, **NO_RETRIES, "SHOAL_ARCHIVE_LOCATION": str(tmp_path / "archive")}
            fleet = Fleet(server.dsn, tmp_path, settings=settings)
            submitted = await asyncio.to_thread(fleet.submit, site.url, spider=EXAMPLE)
            assert submitted.code == 0, submitted.err
            allowed = ("--allow-output", str(tmp_path))
            rendering = [fleet.start("--roles", "browser", *allowed) for _ in range(2)]
            await until_workers(fleet, 2)
            plain = [fleet.start("--roles", "fetch,parse,sink", "--until-done", *allowed) for _ in range(2)]
            assert [await fleet.ended(worker) for worker in plain] == [0, 0]
            for worker in rendering:
                worker.terminate()
            for worker in rendering:
                await fleet.ended(worker)
            found = {record["sku"] for record in records(tmp_path / "items.jsonl")}
            assert found == all_skus() - products("members")
            [traced] = shoal("trace", f"{site.url}app/1", "--json", cwd=tmp_path, env=fleet.env).json[
                "traces"
            ]
            assert {tried["pool"] for tried in traced["attempts"]} <= {"http", "browser"}
            assert traced["attempts"][-1]["level"] == "browser"


LATE = """
import shoal

spider = shoal.Spider("late")


@spider.page()
def page(page):
    yield {"title": page.css("h1::text").get()}
    yield page.links("a")
"""
LATE_SHELL = """<head><script>addEventListener('load', () => {
document.getElementById('root').innerHTML = '<h1>filled</h1><a href=/2>2</a><a href=/3>3</a>' })</script></head>
<body><div id=root></div></body>"""


@pytest.mark.slow("two workers and a browser, one after the other")
async def test_pages_that_need_a_browser_wait_for_a_browser_worker_that_starts_later(tmp_path: Path) -> None:
    program("chromium-headless-shell", "chromium-headless-shell")
    (tmp_path / "late.py").write_text(LATE)
    sheets = {path: Sheet(LATE_SHELL) for path in ("/", "/2", "/3")}
    async with valkey(tmp_path / "valkey") as server, serving_written(sheets) as site:
        settings = {**HASTY, **NO_RETRIES, "SHOAL_ARCHIVE_LOCATION": str(tmp_path / "archive")}
        fleet = Fleet(server.dsn, tmp_path, settings=settings)
        start = f"http://{site.authorities[0]}/"
        submitted = await asyncio.to_thread(fleet.submit, start, spider=tmp_path / "late.py")
        assert submitted.code == 0, submitted.err
        allowed = ("--until-done", "--allow-output", str(tmp_path))
        plain = fleet.start("--roles", "fetch,parse,sink", *allowed)
        wanted = "late has 1 request in the pool browser, which no running worker serves"
        async with asyncio.timeout(60):
            while True:
                status = await asyncio.to_thread(shoal, "status", "--json", cwd=tmp_path, env=fleet.env)
                if any(one["text"].startswith(wanted) for one in status.json["bottlenecks"]):
                    break
                await asyncio.sleep(0.2)
        browser = fleet.start("--roles", "browser", *allowed)
        assert [await fleet.ended(worker) for worker in (plain, browser)] == [0, 0]
    titles = [record["title"] for record in records(tmp_path / "items.jsonl")]
    assert titles == ["filled"] * 3


@pytest.mark.slow("workers look every five seconds for what waits in vain")
async def test_a_page_for_which_no_browser_worker_comes_is_given_up_and_never_parsed_as_it_is(
    tmp_path: Path,
) -> None:
    (tmp_path / "late.py").write_text(LATE)
    async with valkey(tmp_path / "valkey") as server, serving_written({"/": Sheet(LATE_SHELL)}) as site:
        location = {"SHOAL_ARCHIVE_LOCATION": str(tmp_path / "archive")}
        fleet = Fleet(server.dsn, tmp_path, settings={**HASTY, **location, "SHOAL_CRAWL_BROWSER_WAIT": "1"})
        start = f"http://{site.authorities[0]}/"
        submitted = await asyncio.to_thread(fleet.submit, start, spider=tmp_path / "late.py")
        assert submitted.code == 0, submitted.err
        worker = fleet.start("--roles", "fetch,parse,sink", "--until-done", "--allow-output", str(tmp_path))
        assert await fleet.ended(worker) == 0
        listed = await asyncio.to_thread(shoal, "dlq", "list", "--json", cwd=tmp_path, env=fleet.env)
    [letter] = listed.json["dead_letters"]
    assert letter["class"] == "needs_browser", letter
    assert "crawl.browser_wait" in letter["reason"]
    output = tmp_path / "items.jsonl"
    assert not output.exists() or not records(output)


async def until_workers(fleet: Fleet, count: int) -> None:
    async with asyncio.timeout(60):
        while True:
            status = await asyncio.to_thread(shoal, "status", "--json", cwd=fleet.folder, env=fleet.env)
            if len(status.json["workers"]) >= count:
                return
            await asyncio.sleep(0.2)


def test_the_demo_behind_a_wall_finds_all_and_tells_what_it_did(tmp_path: Path) -> None:
    program("chromium-headless-shell", "chromium-headless-shell")
    ran = shoal("demo", "--wall", cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert f"Found {len(all_skus())} of {len(all_skus())} products." in ran.out
    for level in ("plain", "exit", "impersonate", "browser"):
        assert f"\n{level} " in ran.out


def test_the_demo_names_what_is_not_installed(tmp_path: Path) -> None:
    ran = shoal("demo", "--wall", cwd=tmp_path, env={"PATH": str(tmp_path)})
    assert "no Chromium is installed" in ran.err
    assert "apt-get install chromium-headless-shell" in ran.err
