"""Sites without an end: a crawl of them ends, says what it holds back, and releases it on demand."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.e2e.command import QUICK, records, shoal
from tests.servers.redis import valkey
from tests.site.maze import BOOKS, NUMBERED
from tests.site.server import serving


@pytest.fixture(params=["folder", "fleet"])
async def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "folder":
        yield str(tmp_path / "store")
    else:
        async with valkey(tmp_path) as server:
            yield server.dsn


@pytest.mark.slow("ten commands, one after the other")
async def test_what_brings_nothing_new_is_held_back_counted_everywhere_and_released_by_one_command(
    dsn: str, tmp_path: Path
) -> None:
    env = {"SHOAL_LINKS_NOTHING_NEW": "64", "SHOAL_LINKS_HELD": "20"}
    store = ("--store", dsn)
    async with serving("tests.site.maze:build", "", hosts=1) as site:
        host = site.authorities[0]
        command = ("crawl", f"http://{host}/", *store, *QUICK, "--crawl", "maze", "--out", "items.jsonl")
        ran = shoal(*command, "--json", cwd=tmp_path, env=env)
        fetched = Counter(hit.path for hit in await site.hits() if hit.path != "/robots.txt")
        [status] = shoal("status", *store, "--json", cwd=tmp_path).json["crawls"]
        screen = shoal("status", *store, cwd=tmp_path).out
        listed = shoal("urls", *store, "--state", "held", cwd=tmp_path).out.splitlines()
        again = shoal(*command, cwd=tmp_path, env=env)
        verified = shoal("verify", *store, cwd=tmp_path)
        unknown = shoal("release", "maze", "no/such/pattern", *store, cwd=tmp_path)
        released = shoal("release", "maze", f"{host}/maze/*", *store, "--json", cwd=tmp_path)
        more = ("--max-pages", str(ran.json["pages"] + 30))
        after = shoal(*command, *more, "--json", cwd=tmp_path, env=env)
        [later] = shoal("status", *store, "--json", cwd=tmp_path).json["crawls"]

    pattern = f"{host}/maze/*"
    held = ran.json["counts"]["held"]
    assert (ran.code, ran.json["ending"]) == (9, "finished"), ran.err
    assert {path for path in fetched if path.startswith("/book/")} == {f"/book/{n + 1}" for n in range(BOOKS)}
    assert sum(path.startswith("/maze/") for path in fetched) < 1_000
    assert [(one["pattern"], one["more_than"]) for one in ran.json["closed_patterns"]] == [(pattern, 64)]
    assert status["counts"]["held"] == held > 0
    assert status["closed_patterns"] == ran.json["closed_patterns"]
    assert (
        f"held in maze: {pattern}: more than 64 pages bring nothing new, such as http://{host}/maze/"
        in screen
    )
    assert len(listed) == held
    assert all(f"http://{host}/maze/" in line for line in listed)
    assert again.code == 9
    assert "shoal release" in again.out
    assert f"(queues {held:,} URLs that are held back)" in again.out
    assert verified.code == 0, verified.out + verified.err
    assert unknown.code == 1
    assert f"closed are: {pattern}" in unknown.err
    assert released.json["released"] == held
    assert released.json["patterns"] == [pattern]
    assert after.json["pages"] == 30, after.err
    assert (later["counts"]["held"], later["closed_patterns"]) == (0, [])
    if (tmp_path / "items.jsonl").exists():
        kept = Counter(urlsplit(item["url"]).path for item in records(tmp_path / "items.jsonl"))
        assert set(kept.values()) == {1}


@pytest.mark.slow("it crawls 2,000 pages")
async def test_many_urls_of_a_pattern_are_named_and_all_crawled(dsn: str, tmp_path: Path) -> None:
    async with serving("tests.site.maze:build", "", hosts=1) as site:
        host = site.authorities[0]
        crawl = ("crawl", f"http://{host}/numbers", "--store", dsn, "--crawl", "numbers", *QUICK, "--json")
        ran = shoal(*crawl, cwd=tmp_path, env={"SHOAL_LINKS_PER_PATTERN": "640"})
        status = shoal("status", "--store", dsn, cwd=tmp_path).out

    assert ran.code == 0, ran.err
    assert ran.json["counts"]["done"] == NUMBERED + 1
    assert ran.json["filtered"] == {}
    [large] = ran.json["large_patterns"]
    assert (large["pattern"], large["more_than"]) == (f"{host}/number/0", 640)
    assert (
        f"large in numbers: {host}/number/0: more than 640 URLs within an hour, such as http://{host}/number/"
        in status
    )


async def test_what_a_host_brings_beyond_its_budget_is_counted_like_every_other_rule(tmp_path: Path) -> None:
    async with serving("tests.site.maze:build", "", hosts=1) as site:
        start = f"http://{site.authorities[0]}/numbers"
        crawl = ("crawl", start, "--crawl", "numbers", *QUICK)
        ran = shoal(*crawl, "--json", cwd=tmp_path, env={"SHOAL_LINKS_PER_HOST": "50"})

    assert ran.code == 0, ran.err
    assert ran.json["filtered"] == {"budget": NUMBERED + 1 - 50}
    assert f"skipped in numbers: budget {NUMBERED + 1 - 50:,}" in shoal("status", cwd=tmp_path).out
