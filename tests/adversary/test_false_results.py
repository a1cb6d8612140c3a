"""Parse children that return false results, and stores that hold what an older version took from one."""

from pathlib import Path

import pytest
from tests.adversary.false_results_spider import FALSE, HARMLESS
from tests.e2e.command import QUICK, records, shoal
from tests.servers.redis import valkey
from tests.site.written import Sheet, serving_written

from shoal.frontier.redis import RedisFrontier
from shoal.model.request import Link, Request
from shoal.redis_client import RedisClient
from shoal.stores.open import open_store

SPIDER = Path(__file__).parent / "false_results_spider.py"


@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_a_false_result_costs_its_page_and_nothing_else(kind: str, tmp_path: Path) -> None:
    names = [*FALSE, *HARMLESS, "honest"]
    sheets = {f"/{name}": Sheet(name) for name in names}
    sheets["/"] = Sheet("".join(f'<a href="/{name}">{name}</a>' for name in names))
    sheets |= {f"/{name}/found": Sheet("found") for name in names}
    async with valkey(tmp_path) as server, serving_written(sheets) as site:
        dsn = server.dsn if kind == "fleet" else str(tmp_path / "store")
        start = f"http://{site.authorities[0]}"
        out = ("--out", "items.jsonl", "--json", "--quiet", "--max-dead", "1000")
        crawl = ("crawl", str(SPIDER), f"{start}/", "--same-host", "--store", dsn, *QUICK, *out)
        env = {"SHOAL_PARSE_CRASHES": "1"}
        ran = shoal(*crawl, cwd=tmp_path, env=env)
        again = shoal(*crawl, cwd=tmp_path, env=env)
        letters = shoal("dlq", "list", "--store", dsn, "--json", cwd=tmp_path)
        verified = shoal("verify", "--store", dsn, cwd=tmp_path)
        fetched = {hit.path for hit in await site.hits()}

    assert (ran.code, again.code, verified.code) == (0, 0, 0), ran.err + again.err + verified.out
    assert ran.json["counts"]["dead"] == len(FALSE)
    dead = letters.json["dead_letters"]
    assert {letter["url"].rsplit("/", 1)[1] for letter in dead} == set(FALSE)
    assert {(letter["class"], letter["reason"].partition(":")[0]) for letter in dead} == {("poison", "junk")}
    believed = [*HARMLESS, "honest"]
    expected = {"/", *(f"/{name}" for name in believed), *(f"/{name}/found" for name in believed)}
    assert {item["url"].removeprefix(start) for item in records(tmp_path / "items.jsonl")} == expected
    assert fetched == {*expected, *(f"/{name}" for name in FALSE), "/robots.txt"}


@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_a_store_that_holds_false_requests_is_resumed(kind: str, tmp_path: Path) -> None:
    async with valkey(tmp_path) as server, serving_written({"/": Sheet(), "/a": Sheet()}) as site:
        dsn = server.dsn if kind == "fleet" else str(tmp_path / "store")
        host = site.authorities[0]
        crawl = ("crawl", f"http://{host}/", "--crawl", "c", "--store", dsn, *QUICK, "--json", "--quiet")
        assert shoal(*crawl, cwd=tmp_path).code == 0

        honest = Link.to(Request(url=f"http://{host}/a"))
        false = [
            Link(1, host, 5, "http", b"\xc1"),
            Link(2, host, 5, "http", b""),
            Link(3, "false.test", 5, "http", honest.packed),
            Link(4, host, 5, "http", Link.to(Request(url="file:///etc/passwd")).packed),
            Link(5, host, 5, "http", honest.packed.replace(b"http://", b"HTTP://")),
        ]
        await add(dsn, kind, [*false, honest])
        ran = shoal(*crawl, "--max-dead", "10", cwd=tmp_path)
        listed = shoal("dlq", "list", "--store", dsn, cwd=tmp_path)
        traced = [shoal("trace", f"{n:016x}", "--store", dsn, cwd=tmp_path) for n in range(3, 6)]
        [status] = shoal("status", "--store", dsn, "--json", cwd=tmp_path).json["crawls"]
        verified = shoal("verify", "--store", dsn, cwd=tmp_path)
        fetched = [hit.path for hit in await site.hits()]

    assert ran.code == 0, ran.err
    assert ran.json["counts"]["dead"] == 5
    assert status["dead_by_class"] == {"unreadable": 2, "poison": 3}
    assert (listed.code, {one.code for one in traced}) == (0, {0}), listed.err
    # It names what was quarantined, and finds nothing else.
    problems = [line for line in verified.out.splitlines() if "problem:" in line]
    assert verified.code == 5
    assert all("be read" in line for line in problems), verified.out
    assert sorted(fetched) == ["/", "/a", "/robots.txt"]


async def add(dsn: str, kind: str, links: list[Link]) -> None:
    """Put links into the crawl as if an older version had taken them from a child."""
    if kind == "fleet":
        async with RedisClient.open(dsn) as store:
            frontier = RedisFrontier(store)
            await frontier.crawls.open("c")
            await frontier.add("c", links)
    else:
        async with open_store(dsn) as folder, folder.work() as owned:
            await owned.frontier.crawls.open("c")
            await owned.frontier.add("c", links)
