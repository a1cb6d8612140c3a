"""Entries that cannot be read, in every key of a shared store and in every table of a folder.

They cost themselves: every other URL reaches its end exactly once, no worker ends, and what was set aside is
counted and named.
"""

import asyncio
import os
import random
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from tests.adversary.size import sized
from tests.crash.fleet import judge
from tests.e2e.command import records, shoal
from tests.fleet_crawl import Fleet
from tests.graph_crawl import SPIDER, serving_graph
from tests.servers.redis import SYNCED, valkey
from tests.site.access_log import fetches
from tests.site.graph import Shape

from shoal.frontier.redis import keys
from shoal.redis_client import RedisClient, ScriptFault, key_names
from shoal.stores.redis.key_families import FAMILIES, Family, family_of

SEED = 7
LONGEST_S = sized(40.0, full=900.0)
# What is rebuilt when it is gone. The wrong type in any other key would lose requests, or the numbers of those done.
REBUILT = {
    *("h", "hw", "ho", "li", "xli", "lx", "su", "rf", "ca", "written", "allowance", "r", "rollcall"),
    *("quarantine", "F:news", "F:workers", "F:worker", "F:relay", "F:quarantine"),
}


def junk(rng: random.Random) -> list[bytes]:
    """Return values that no reader expects."""
    wrong_shape = msgspec.msgpack.encode({"url": 5, "status": [None]})
    entry = bytes(20) + rng.randbytes(30)  # the head of a request, and then anything
    huge = rng.randbytes(sized(100_000, full=2_000_000))
    return [b"", b"x", rng.randbytes(3), rng.randbytes(40), rng.randbytes(200), wrong_shape, entry, huge]


def name_of(family: Family, tag: str, rng: random.Random) -> str:
    """Return a key of a family, of crawl 1, which is the crawl of the test."""
    crawl, host = 1, f"junk{rng.randrange(10_000)}.example"
    by_name = {
        "q": keys.fresh(tag, crawl, "http", host, 3),
        "w": keys.returned(tag, crawl, "http", host),
        "x": keys.suspects(tag, crawl, "http", host),
        "li": keys.schedule(tag, crawl, "http", suspect=False),
        "xli": keys.schedule(tag, crawl, "http", suspect=True),
        "sp": keys.chunks(tag, crawl, "http", host),
        "l": keys.batch(tag, str(10**15 + rng.randrange(10**6))),
        "s": keys.seen(tag, crawl, 0),
        "ca": f"{tag}:ca:{host}",
        "r": f"{tag}:r:http://{host}",
        "ht": f"{tag}:ht:{host}",
    }
    plain = family.pattern.pattern.replace(r"(?P<crawl>\d+)", str(crawl))
    end = plain.replace(".*", host)
    return by_name.get(family.name) or f"{tag}:{end}"


def planted(
    family: Family, key: str, value: bytes, rng: random.Random
) -> list[tuple[str | bytes | int, ...]]:
    """Return the commands that add one entry to a key of a family."""
    match family.type:
        case "hash":
            fields = [rng.randbytes(8), b"junk", rng.randbytes(12)]
            return [("HSET", key, rng.choice(fields), value)]
        case "list":
            return [("LPUSH", key, value)]
        case "zset":
            return [("ZADD", key, rng.choice([0, 1]), value)]
        case "set":
            return [("SADD", key, value)]
        case "stream":
            names = rng.choice([(b"junk",), (b"crawl", b"fp", b"request", b"page"), (b"fp", b"items")])
            return [("XADD", key, "*", *(part for name in names for part in (name, value)))]
        case _:
            return [("SET", key, value, "PX", 60_000)]


async def put(store: RedisClient, tag: str, *command: str | bytes | int) -> None:
    with suppress(ScriptFault):  # the key has the wrong type, from this test
        await store.do(tag, *command)


async def plant(store: RedisClient, rng: random.Random, hosts: Sequence[str]) -> AsyncIterator[str]:
    """Plant every kind of junk in every kind of key, one after the other.

    Keys get another type in shards that have no host of the crawl: what such a key held is lost by itself.
    """
    idle = [tag for tag in store.tags() if tag not in set(map(store.tag_of, hosts))]
    tags = store.tags()
    for family in rng.sample(FAMILIES, len(FAMILIES)):
        for value in rng.sample(junk(rng), sized(3, full=8)):
            tag = store.fleet_tag if family.fleet else rng.choice(tags)
            key = name_of(family, tag, rng)
            if family.name.startswith("F:worker") and family.type == "string":
                await put(store, tag, "SADD", key_names.workers(tag), key.rpartition(":")[2])
            if not await store.do(tag, "EXISTS", key) or family.type != "string":
                for command in planted(family, key, value, rng):
                    await put(store, tag, *command)
            if family.name in ("q", "w", "x"):  # and a host that is due there
                schedule = keys.schedule(tag, 1, "http", suspect=family.name == "x")
                await put(store, tag, "ZADD", schedule, 0, key.rpartition(":")[2])
            yield family.name
        tag = store.fleet_tag if family.fleet else rng.choice(idle)
        key = name_of(family, tag, rng)
        if family.name in REBUILT or not await store.do(tag, "EXISTS", key):
            await store.do(tag, "DEL", key)
            wrong = ("RPUSH", key, b"junk") if family.type == "string" else ("SET", key, b"junk")
            await put(store, tag, *wrong)
            yield family.name


@pytest.mark.timeout(1800)
async def test_junk_in_every_key_of_a_store_costs_only_itself(tmp_path: Path) -> None:
    shape = Shape(seed=SEED, pages=sized(150, full=2_000), hosts=sized(6, full=10))
    rng = random.Random(SEED)
    async with (
        valkey(tmp_path / "server", *SYNCED) as server,
        serving_graph(shape) as (site, graph),
        RedisClient.open(server.dsn, advise=False) as store,
    ):
        with Fleet(server.dsn, tmp_path) as fleet:
            rate = ("--rate", str(sized(5, full=20)))
            assert fleet.submit(graph.start, *rate).code == 0
            workers = [fleet.start(), fleet.start("--roles", "fetch"), fleet.start("--roles", "parse,sink")]
            await fleet.until_served(site, 5)
            started = time.monotonic()
            families = set()
            async for family in plant(store, rng, site.authorities):
                families.add(family)
                await asyncio.sleep(0.02)
            assert families == {family.name for family in FAMILIES}
            pages = len(graph.expected().pages)
            counts: dict[str, int] = {}
            while not counts or sum(counts[state] for state in judge.OPEN) != 0:
                assert time.monotonic() < started + LONGEST_S, f"{counts}\n{fleet.logs()[-8000:]}"
                await asyncio.sleep(0.5)
                with suppress(
                    ValueError
                ):  # status names what it cannot read, until a worker has set it aside
                    counts = dict(fleet.counts())
            await finished_items(tmp_path / "items.jsonl", len(graph.expected().items), LONGEST_S)

            assert [worker.poll() for worker in workers] == [None] * len(workers), fleet.logs()
            [crawl] = fleet.status()["crawls"]
            counts = crawl["counts"]
            # Junk that has the head of a request may have been taken for one, and is given up then.
            assert crawl["dead_by_class"].keys() <= {"unreadable"}
            # Junk in the counters themselves costs exact numbers, and the status names that loss.
            exact = (counts["done"], crawl["accepted"] - counts["dead"]) == (pages, pages)
            # A counter that was made again while a request ended may have it as unreadable: none is missing.
            accounted = counts["done"] + counts["dead"] == crawl["accepted"] >= pages
            assert exact or accounted or crawl["lost"], crawl
            assert sum(counts[state] for state in judge.OPEN) == 0, crawl
            judge.assert_items("JSONL", records(tmp_path / "items.jsonl"), graph.expected().items)
            asked = fetches(await site.hits())
            assert set(asked) == graph.expected().fetched

            status = fleet.status()
            [crawl] = status["crawls"]
            set_aside = [*status["unreadable"], *crawl["unreadable"]]
            assert len(set_aside) > len(FAMILIES)
            named = [entry for entry in set_aside if entry["place"]]  # the others are junk of this test there
            assert len(named) > len(FAMILIES)
            assert all(entry["place"].startswith("{") and entry["reason"] for entry in named)
            assert "entry.quarantined" in fleet.logs()
            places = {known[0].name for entry in set_aside if (known := _family(entry["place"], store))}
            assert {"h", "li", "pages", "items", "dl", "lx", "F:news"} <= places

            last = fleet.start("--until-done")
            assert await fleet.ended(last) == 1
            assert "its record in the store cannot be used" in fleet.logs()


def _family(key: str, store: RedisClient) -> tuple[Family, int] | None:
    return family_of(key, fleet=key.startswith(store.fleet_tag))


async def finished_items(path: Path, number: int, within: float) -> None:
    until = time.monotonic() + within
    while (lines := await asyncio.to_thread(lambda: path.read_bytes().count(b"\n"))) < number:
        assert time.monotonic() < until, lines
        await asyncio.sleep(0.2)


def test_every_key_that_is_named_has_a_family() -> None:
    """The test above plants in every family; this one fails if a key has none."""
    tag, fleet = key_names.shard_tag("shoal", 3), key_names.fleet_tag("shoal")
    named = []
    for module in (key_names, keys):
        for function in vars(module).values():
            if not callable(function) or not getattr(function, "__module__", "").endswith(module.__name__):
                continue
            wanted = list(function.__annotations__)
            if wanted[:1] not in (["tag"], ["fleet"]) or function in (key_names.keys_with,):
                continue
            values = {"tag": tag, "fleet": fleet, "crawl": 1, "pool": "http", "host": "a.example", "band": 3}
            values |= {"bucket": 0, "token": "17", "suspect": True, "worker": "w"}
            named.append(function(**{name: values[name] for name in wanted if name != "return"}))
    assert len(named) > 25
    assert [key for key in named if family_of(key, fleet=key.startswith(fleet)) is None] == []
    documented = [line.split()[0] for line in _documented() if line.strip()]
    ends = {family.name.split(":")[-1] for family in FAMILIES}
    assert {name.split(":")[1] for name in documented} <= ends


def _documented() -> list[str]:
    lines = [*(key_names.__doc__ or "").splitlines(), *(keys.__doc__ or "").splitlines()]
    return [line for line in lines if line.startswith(("    T:", "    F:"))]


# --- a folder ----------------------------------------------------------------------------------------------

DAMAGE = {
    "request": "UPDATE request SET request = ? WHERE id IN (SELECT id FROM request ORDER BY id DESC LIMIT 1 OFFSET ?)",
    "lane": "UPDATE request SET lane = ? WHERE id IN (SELECT id FROM request ORDER BY id DESC LIMIT 1 OFFSET ?)",
    "attempts": "UPDATE request SET attempts = ? WHERE id IN (SELECT id FROM request ORDER BY id DESC LIMIT 1 OFFSET ?)",
    "lease": "INSERT OR REPLACE INTO lease VALUES (99, 'x', 1.0, ?1 || ?2)",
    "host": "UPDATE host SET slow = ? WHERE id = 1 + ?",
}


async def test_an_unreadable_row_of_a_folder_costs_one_request(tmp_path: Path) -> None:
    shape = Shape(seed=SEED, pages=sized(60, full=1_000), hosts=3)
    async with serving_graph(shape) as (_, graph):
        command = (
            "crawl",
            str(SPIDER),
            graph.start,
            "--any-host",
            "--allow-private",
            "--rate",
            "0",
            "--json",
        )
        begun = shoal(*command, "--max-pages", "20", "--out", "items.jsonl", cwd=tmp_path)
        assert begun.code == 0, begun.err
        lost = 0
        with sqlite3.connect(tmp_path / "shoal-data" / "store.db") as database:
            waiting = database.execute("SELECT count(*) FROM request").fetchone()[0]
            assert waiting >= 4, "nothing waits to be damaged"
            for number, (what, statement) in enumerate(DAMAGE.items()):
                value = os.urandom(9) if what in ("request", "lease") else "junk"
                database.execute(statement, (value, number))
                lost += what in ("request", "lane", "attempts")
        database.close()
        resumed = shoal(*command, "--max-pages", "0", "--out", "items.jsonl", cwd=tmp_path)
        assert resumed.code in (0, 2), resumed.err
        [crawl] = shoal("status", "--json", cwd=tmp_path).json["crawls"]
        assert crawl["dead_by_class"] == {"unreadable": lost}
        assert len(crawl["unreadable"]) == lost
        assert sum(crawl["counts"][state] for state in ("waiting", "delayed", "leased", "parsing")) == 0
        verified = shoal("verify", cwd=tmp_path)
        assert "accepted but in no place" not in verified.out, verified.out
