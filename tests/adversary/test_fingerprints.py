"""A site that chooses URLs by their fingerprints: it can for a crawl without a key, and harms nothing there."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from tests.adversary.size import sized
from tests.e2e.command import QUICK, shoal
from tests.servers.redis import valkey
from tests.site.chosen import PER_PAGE, PREFIX, chosen
from tests.site.server import serving

from shoal.frontier.redis import RedisFrontier, keys
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.sqlite.packing import unpack_ints
from shoal.frontier.sqlite.seen import MAX_SIZE
from shoal.model.request import FINGERPRINT_KEY, Link, Request
from shoal.model.url import fingerprint_of
from shoal.redis_client import RedisClient
from shoal.testing.contracts.frontier import UNLIMITED

LINKS = sized(8_600, full=26_000)


def chosen_links() -> list[Link]:
    return [Link.to(Request(url=f"http://a.test{path}")) for path in chosen("http://a.test", LINKS)]


def prefix(fingerprint: int) -> str:
    return f"{fingerprint:063b}"[: len(PREFIX)]


def test_the_urls_share_their_prefix_only_without_a_key() -> None:
    urls = [f"http://a.test{path}" for path in chosen("http://a.test", 500)]
    assert {prefix(fingerprint_of("GET", url)) for url in urls} == {PREFIX}
    assert len({prefix(fingerprint_of("GET", url, key=b"k" * 16)) for url in urls}) > 40


async def test_a_crawl_without_a_key_takes_them_in_on_redis(tmp_path: Path) -> None:
    links = chosen_links()
    async with valkey(tmp_path) as server, RedisClient.open(server.dsn) as store:
        frontier = RedisFrontier(store)
        await frontier.crawls.open("c", pace=UNLIMITED)
        assert (await frontier.add("c", links)).new == LINKS
        others = [Link.to(Request(url=f"http://a.test/other/{n}")) for n in range(3_000)]
        assert (await frontier.add("c", others)).new == 3_000
        assert (await frontier.add("c", [*links, *others])).duplicate == LINKS + 3_000
        assert not (await frontier.reader.audit("c")).problems

        tag = store.tag_of("a.test")
        buckets = int(await store.do(tag, "HGET", keys.seen_size(tag, 1), "buckets"))
        sizes = await store.pipeline(tag, [("SCARD", keys.seen(tag, 1, one)) for one in range(buckets)])
        assert max(sizes) < LINKS / 2, "what is still to be split is small"

        assert await RedisFrontier(store).crawls.delete("c")
        assert [key for key in await store.do(tag, "KEYS", "*") if b":s:" in key or b":so:" in key] == []


async def test_a_crawl_without_a_key_takes_them_in_in_a_folder(tmp_path: Path) -> None:
    links = chosen_links()
    for new in (LINKS, 0):  # the second time from disk
        async with SqliteFrontier.open(tmp_path / "frontier.sqlite") as frontier:
            await frontier.crawls.open("c", pace=UNLIMITED)
            assert (await frontier.add("c", links)).new == new
            assert (await frontier.add("c", links[:100])).duplicate == 100
            seen = frontier._owner.state.crawl("c").seen
            assert len(seen) == LINKS
            assert max(map(len, seen._buckets)) <= MAX_SIZE
            assert all(link.fingerprint in seen for link in links)
            assert not (await frontier.reader.audit("c")).problems


@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_a_site_cannot_choose_fingerprints_of_a_new_crawl(kind: str, tmp_path: Path) -> None:
    """The crawl continues after the pages that list them, its fingerprints are spread, and it has its own key."""
    async with valkey(tmp_path) as server, serving("tests.site.chosen:build", str(LINKS), hosts=1) as site:
        dsn = server.dsn if kind == "fleet" else str(tmp_path / "store")
        pages = 1 + -(-LINKS // PER_PAGE)
        limit = ("--max-pages", str(pages), "--quiet", "--json")
        crawl = ("crawl", f"http://{site.authorities[0]}/", "--store", dsn, *QUICK, *limit)
        ran = shoal(*crawl, cwd=tmp_path)
        again = shoal(*crawl, "--crawl", "other", cwd=tmp_path)
        assert (ran.code, again.code) == (0, 0), ran.err + again.err
        assert ran.json["counts"]["done"] == pages
        accepted = shoal("status", "--store", dsn, "--json", cwd=tmp_path).json["crawls"][0]["accepted"]
        assert accepted == LINKS + pages
        assert shoal("verify", "--store", dsn, cwd=tmp_path).code == 0
        found = await (fleet_crawls(dsn) if kind == "fleet" else folder_crawls(Path(dsn)))

    for _, fingerprints in found:
        assert len(fingerprints) == accepted
        assert max(Counter(map(prefix, fingerprints)).values()) < accepted / 20
    assert len({key for key, _ in found}) == 2


async def folder_crawls(folder: Path) -> list[tuple[bytes, list[int]]]:
    """Return key and seen-set of each crawl."""
    with closing(sqlite3.connect(folder / "store.db")) as database:
        found = []
        for id, value in database.execute(
            "SELECT crawl, value FROM crawl_state WHERE key = ?", (FINGERPRINT_KEY,)
        ).fetchall():
            logged = database.execute("SELECT fps FROM seen WHERE crawl = ?", (id,))
            found.append((bytes(value), [fp for [fps] in logged for fp in unpack_ints(fps)]))
        return found


async def fleet_crawls(dsn: str) -> list[tuple[bytes, list[int]]]:
    async with RedisClient.open(dsn) as store:
        reader = RedisFrontier(store).reader
        found = []
        for name in await reader.crawls():
            number = await reader.number(name)
            fingerprints: list[int] = []
            for tag in store.tags():
                buckets = int(await store.do(tag, "HGET", keys.seen_size(tag, number), "buckets") or 1)
                for one in range(buckets):
                    fingerprints += map(int, await store.do(tag, "SMEMBERS", keys.seen(tag, number, one)))
            found.append((await reader.value(name, FINGERPRINT_KEY) or b"", fingerprints))
        return found
