"""Damage of every kind in a store, an archive or an output: `shoal verify` finds it and names it.

Each row of a table is one deletion or change, as a disk, another program or a person may cause it. `found` is
what `verify` has to say, with exit code 5; None means that the damage is harmless, for the reason beside it.
After `--repair` a store that has lost something never verifies as "nothing lost".
"""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.adversary.size import sized
from tests.e2e.command import HASTY, QUICK, shoal
from tests.servers.postgres import PASSWORD, ask
from tests.servers.redis import RedisServer, valkey
from tests.servers.shared import shared_database

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop
from shoal.cli.main import run

SPIDER = """
import shoal

spider = shoal.Spider("shop", follow=r".*")

@spider.page()
def page(page):
    yield {"url": page.url, "title": page.css("title::text").get(), "n": len(page.url)}
    yield from page.links("a")
"""


@pytest.fixture
def shop() -> Any:
    with open_shop(Shop(categories=1), latency=0.001) as address:
        yield address


# --- outputs and archive, in a folder --------------------------------------------------------------------


def _rewrite(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def _sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def _parquet(folder: Path, change: Callable[[Any], Any]) -> None:
    path = folder / "items.parquet"
    pq.write_table(change(pq.read_table(path)), path)


def _alter_a_title(table: Any) -> Any:
    titles = pc.replace_substring(table["title"], "a", "e")
    return table.set_column(table.column_names.index("title"), table.schema.field("title"), titles)


def _segment(folder: Path) -> Path:
    [segment] = (folder / "shoal-data").rglob("*.warc.gz")
    return segment


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(byte ^ 4 for byte in content[middle : middle + 64])
    path.write_bytes(content)


def _swap(first: int, second: int) -> Callable[[list[bytes]], list[bytes]]:
    """Replace one line by another one of any length, so that the number of lines stays."""

    def change(lines: list[bytes]) -> list[bytes]:
        lines[first] = lines[second]
        return lines

    return change


@dataclass(frozen=True)
class Case:
    damage: Callable[[Path], object]
    found: str | None
    deep: bool = False
    repairs: bool | None = False  # `--repair` restores it completely; None: that depends on what was hit


FILES = {
    "jsonl: a line deleted": Case(
        lambda at: _rewrite(at / "items.jsonl", lambda lines: lines[1:]), "items.jsonl is shorter"
    ),
    "jsonl: a line repeated": Case(
        lambda at: _rewrite(at / "items.jsonl", lambda lines: [lines[0], *lines]), "items.jsonl"
    ),
    "jsonl: a line replaced by another": Case(
        lambda at: _rewrite(at / "items.jsonl", _swap(3, 4)), "items.jsonl"
    ),
    "jsonl: a value altered": Case(
        lambda at: _rewrite(
            at / "items.jsonl", lambda lines: [lines[0].replace(b"http", b"HTTP"), *lines[1:]]
        ),
        "items.jsonl was changed",
    ),
    "jsonl: deleted": Case(lambda at: (at / "items.jsonl").unlink(), "items.jsonl cannot be read"),
    "csv: a line deleted": Case(
        lambda at: _rewrite(at / "items.csv", lambda lines: lines[:-1]), "items.csv is shorter"
    ),
    "csv: a line replaced by another": Case(lambda at: _rewrite(at / "items.csv", _swap(3, 4)), "items.csv"),
    "csv: a value altered": Case(
        lambda at: _rewrite(
            at / "items.csv", lambda lines: [lines[0], lines[1].replace(b"http", b"HTTP"), *lines[2:]]
        ),
        "items.csv was changed",
    ),
    "sqlite: a row deleted": Case(
        lambda at: _sql(at / "items.sqlite", "DELETE FROM items WHERE _id = 5"), "items.sqlite holds"
    ),
    "sqlite: a row replaced by another": Case(
        lambda at: _sql(
            at / "items.sqlite",
            "UPDATE items SET url = 'x' WHERE _id = 5",
        ),
        "items.sqlite was changed",
    ),
    "sqlite: a key altered": Case(
        lambda at: _sql(at / "items.sqlite", "UPDATE items SET _key = 'x' WHERE _id = 5"),
        "items.sqlite was changed",
    ),
    "sqlite: a row added": Case(
        lambda at: _sql(at / "items.sqlite", "INSERT INTO items(_key) VALUES ('x')"), "items.sqlite holds"
    ),
    "parquet: a row deleted": Case(lambda at: _parquet(at, lambda table: table.slice(1)), "items.parquet"),
    "parquet: a row replaced by another": Case(
        lambda at: _parquet(at, lambda table: table.take([1, 1, *range(2, table.num_rows)])), "items.parquet"
    ),
    "parquet: values altered": Case(lambda at: _parquet(at, _alter_a_title), "items.parquet"),
    "parquet: bits flipped": Case(lambda at: _flip(at / "items.parquet"), "items.parquet"),
    "archive: truncated": Case(
        lambda at: _segment(at).write_bytes(_segment(at).read_bytes()[:3000]),
        "beyond the end of archive segment",
    ),
    "archive: deleted": Case(lambda at: _segment(at).unlink(), "beyond the end of archive segment"),
    "archive: bits flipped": Case(lambda at: _flip(_segment(at)), "archive: ", deep=True),
}


def _db(*statements: str) -> Callable[[Path], None]:
    return lambda folder: _sql(folder / "shoal-data" / "store.db", *statements)


STORE = {
    "seen": Case(_db("DELETE FROM seen WHERE number = 1"), "never accepted", repairs=True),
    "request": Case(_db("DELETE FROM request"), "requests are lost"),
    "ended, done": Case(_db("DELETE FROM ended WHERE number = 3"), "1 requests are lost"),
    "ended, gone": Case(_db("DELETE FROM ended WHERE state = 'gone'"), "requests are lost"),
    "dead": Case(_db("DELETE FROM dead"), "1 requests are lost"),
    "ended twice": Case(
        _db(
            "INSERT INTO ended(crawl, fp, state, ended_at)"
            " SELECT crawl, fp, 'gone', 0 FROM ended WHERE number = 3"
        ),
        "in two places",
        repairs=True,
    ),
    "counters": Case(_db("UPDATE crawl SET counts = '{}'"), "the counter of accepted says 0", repairs=True),
    "one counter": Case(
        _db("UPDATE crawl SET counts = json_set(counts, '$.accepted', 999)"),
        "the counter of accepted says 999",
        repairs=True,
    ),
    "host": Case(_db("DELETE FROM host"), "in a lane that does not exist", repairs=True),
    "lane": Case(_db("DELETE FROM lane"), "in a lane that does not exist", repairs=True),
    "request unreadable": Case(_db("UPDATE request SET request = x'00ff'"), "cannot be read"),
    "checkpoint of outputs": Case(
        _db("DELETE FROM checkpoint WHERE name LIKE '%/sinks'"), "the checkpoint of its outputs is lost"
    ),
    "checkpoint of the archive": Case(
        _db("DELETE FROM checkpoint WHERE name LIKE '%/archive'"), "the checkpoint of its archive is lost"
    ),
    "crawl": Case(_db("DELETE FROM crawl"), "whose own record is lost"),
    "crawl_state": Case(_db("DELETE FROM crawl_state"), "its totals are lost"),
    "file: bits flipped": Case(
        lambda at: (at / "shoal-data" / "store.db").write_bytes(
            (at / "shoal-data" / "store.db").read_bytes()[:8192]
        ),
        "damaged",
    ),
    # Harmless: the number of starts, which only keeps tokens of leases apart while a process lives.
    "meta": Case(_db("DELETE FROM meta"), None),
    # Harmless: the history of attempts that brought no page, for `trace` alone.
    "attempt": Case(_db("DELETE FROM attempt"), None),
    # Harmless: a cache, which is filled again; and what is kept of earlier generations, without which the next one
    # fetches every page in full.
    "robots, generations": Case(
        _db("DELETE FROM robots", "DELETE FROM page_history", "DELETE FROM generation"), None
    ),
}


def _crawl_into(folder: Path, start: str) -> None:
    """Crawl a shop into every kind of file, and leave requests that wait, and one that is dead."""
    (folder / "spider.py").write_text(SPIDER)
    outs = [f"--out=items.{ending}" for ending in ("jsonl", "csv", "sqlite", "parquet")]
    retries = {"SHOAL_RETRY_MAX_RETRIES": "0"}
    ran = shoal(
        *("crawl", "spider.py", start, *QUICK, *outs, "--quiet", "--max-pages", "40"),
        cwd=folder,
        env=retries,
    )
    assert ran.code == 0, ran.err


@pytest.fixture
def whole(shop: str, tmp_path: Path) -> Path:
    folder = tmp_path / "whole"
    folder.mkdir()
    _crawl_into(folder, shop)
    database = folder / "shoal-data" / "store.db"
    with closing(sqlite3.connect(database)) as store:
        [waiting] = store.execute("SELECT count(*) FROM request").fetchone()
        [dead] = store.execute("SELECT count(*) FROM dead").fetchone()
        assert waiting > 0
        assert dead > 0
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder


def _restored(folder: Path, copy: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)


class Verify:
    """Runs `shoal verify` in this process: it is called a hundred times."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, folder: Path, *options: str) -> tuple[int, str]:
        self._monkeypatch.chdir(folder)
        self._capsys.readouterr()
        code = run(["verify", *options])
        printed = self._capsys.readouterr()
        return code, printed.out + printed.err

    def judge(self, name: str, case: "Case | StoreCase", folder: Path, *options: str) -> None:
        """Check that a damage is found, and that a repair does not hide it."""
        code, printed = self(folder, *options)
        if case.found is None:
            assert code == 0, (name, printed)
            return
        assert code == 5, (name, printed)
        assert case.found in printed, (name, printed)
        if name in FILES and not sized(cut=False, full=True):
            return  # no repair changes a file
        code, printed = self(folder, "--repair", *options)
        assert code in ((0, 5) if case.repairs is None else (0,) if case.repairs else (5,)), (name, printed)
        assert ("nothing lost" in printed) == (code == 0), (name, printed)
        if sized(cut=False, full=True):
            again, printed = self(folder, "--repair", *options)
            assert again == code, (name, printed)


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Verify:
    return Verify(capsys, monkeypatch)


def test_damage_in_a_folder_is_found(whole: Path, tmp_path: Path, verify: Verify) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    code, printed = verify(whole, "--deep", "--repair")
    assert (code, printed.splitlines()[0]) == (0, "nothing to repair"), printed
    for name, case in {**FILES, **STORE}.items():
        case.damage(whole)
        verify.judge(name, case, whole, *(["--deep"] if case.deep else []))
        _restored(whole, copy)


def test_rows_of_a_database_that_were_changed_are_found(shop: str, tmp_path: Path) -> None:
    with shared_database() as dsn:
        output = f"{dsn}?table=shop"
        ran = shoal("crawl", shop, *QUICK, "--quiet", "--out", output, cwd=tmp_path, env=HASTY)
        assert ran.code == 0, ran.err
        assert shoal("verify", cwd=tmp_path, env={"PGPASSWORD": PASSWORD}).code == 0
        ask(dsn, "CREATE TABLE kept AS SELECT * FROM shop")
        for damage in (
            "DELETE FROM shop WHERE _id = 4",
            "UPDATE shop SET _key = 'x' WHERE _id = 4",
            "UPDATE shop SET item = jsonb_set(item, '{title}', '\"x\"') WHERE _id = 4",
            "UPDATE shop SET item = (SELECT item FROM kept WHERE _id = 5) WHERE _id = 4",
            "INSERT INTO shop(_key, item) VALUES ('x', '{}')",
        ):
            ask(dsn, damage)
            found = shoal("verify", cwd=tmp_path, env={"PGPASSWORD": PASSWORD})
            assert found.code == 5, (damage, found.out)
            assert "table=shop" in found.out
            ask(dsn, "DELETE FROM shop")
            ask(dsn, "INSERT INTO shop OVERRIDING SYSTEM VALUE SELECT * FROM kept")
        assert shoal("verify", cwd=tmp_path, env={"PGPASSWORD": PASSWORD}).code == 0


# --- a fleet ---------------------------------------------------------------------------------------------


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with valkey(tmp_path / "server") as running:
        yield running


async def _key(server: RedisServer, pattern: str) -> bytes:
    """Return the largest key that fits a pattern."""
    keys = await server.ask("KEYS", pattern)
    assert keys, pattern
    sizes = [(await server.ask("MEMORY", "USAGE", key), key) for key in keys]
    return bytes(max(sizes)[1])


def _delete(pattern: str) -> Callable[[RedisServer], Awaitable[object]]:
    async def damage(server: RedisServer) -> object:
        return await server.ask("DEL", await _key(server, pattern))

    return damage


def _delete_field(pattern: str) -> Callable[[RedisServer], Awaitable[object]]:
    async def damage(server: RedisServer) -> object:
        key = await _key(server, pattern)
        fields = [field for field in await server.ask("HKEYS", key) if field != b"_"]
        return await server.ask("HDEL", key, fields[0])

    return damage


def _spoil_field(pattern: str) -> Callable[[RedisServer], Awaitable[object]]:
    async def damage(server: RedisServer) -> object:
        key = await _key(server, pattern)
        fields = [field for field in await server.ask("HKEYS", key) if field != b"_"]
        return await server.ask("HSET", key, fields[0], b"\xff\x00junk")

    return damage


async def _spoil_a_lane(server: RedisServer) -> object:
    return await server.ask("LSET", await _key(server, "*:q:1:*"), 0, b"\xff")


async def _delete_meta(server: RedisServer) -> object:
    """Delete the meta of the shard that has leases."""
    return await server.ask("DEL", (await _key(server, "*:lx")).replace(b":lx", b":m"))


async def _count_wrongly(server: RedisServer) -> object:
    return await server.ask("HINCRBY", await _key(server, "*:n:1"), "done", -1)


async def _forget_two(server: RedisServer) -> object:
    return await server.ask("SPOP", await _key(server, "*:s:1:0"), 2)


@dataclass(frozen=True)
class StoreCase:
    damage: Callable[[RedisServer], Awaitable[object]]
    found: str | None
    repairs: bool | None = False


FLEET = {
    "seen bucket": StoreCase(_delete("*:s:1:0"), "the seen-set has lost", repairs=None),
    "members of a seen bucket": StoreCase(_forget_two, "the seen-set has lost", repairs=None),
    # Harmless: with one bucket, nothing but a size that only decides when to split it.
    "size of the seen set": StoreCase(_delete("*:sm:1"), None),
    "lane": StoreCase(_delete("*:q:1:*"), "requests are lost"),
    "entry of a lane unreadable": StoreCase(_spoil_a_lane, "cannot be read"),
    "lease batch": StoreCase(_delete("*:l:[0-9]*"), "requests are lost"),
    "lease entry": StoreCase(_delete_field("*:l:[0-9]*"), "1 requests are lost"),
    "lease entry unreadable": StoreCase(_spoil_field("*:l:[0-9]*"), "cannot be read"),
    "lease deadlines": StoreCase(_delete("*:lx"), "leased", repairs=True),
    "schedule": StoreCase(_delete("*:li:1:http"), "should be scheduled", repairs=True),
    "page to be parsed": StoreCase(_delete_field("*:pg:1"), "1 requests are lost"),
    "page to be parsed, unreadable": StoreCase(_spoil_field("*:pg:1"), "cannot be read"),
    "page stream": StoreCase(_delete("*:pages"), "announced to no parser", repairs=True),
    "item stream": StoreCase(_delete("*:items:1"), "items were committed"),
    "host": StoreCase(_delete_field("*:h"), "waiting", repairs=True),
    "hosts": StoreCase(_delete("*:h"), "waiting", repairs=True),
    "counters": StoreCase(_delete("*:n:1"), "the counter of"),
    "one counter": StoreCase(_count_wrongly, "1 requests are lost"),
    "dead letter": StoreCase(_delete_field("*:d:1"), "1 requests are lost"),
    "dead letter unreadable": StoreCase(_spoil_field("*:d:1"), "cannot be read"),
    "dates of dead letters": StoreCase(_delete("*:dz:1"), "dead letter without a date", repairs=True),
    "options of the crawl": StoreCase(_delete("*}:c"), "without the options of the crawl"),
    "meta of a shard": StoreCase(_delete_meta, "give out", repairs=True),
    "names of crawls": StoreCase(_delete("*:00}:crawls"), "its queue is lost"),
    "records of crawls": StoreCase(_delete("*:fleet}:crawls"), "it has no record"),
    # Harmless: positions that are also stored with the output.
    "positions of the outputs": StoreCase(_delete("*:written:1"), None),
    # Harmless: caches and requests in progress, which are counted again or asked for again.
    "robots.txt": StoreCase(_delete("*:r:*"), None),
}
PREPARE = """
import asyncio, sys
from shoal.engine.plan import Stop
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Acknowledgement, Dead, Done, Fetched, Settlement
from shoal.model.page import Item, PageRecord, PageRef
from shoal.stores.open import open_store

async def main(dsn):
    async with open_store(dsn) as store:
        frontier = store.fleet.frontier
        await frontier.crawls.open("shop")
        grant = await frontier.lease(holder="w", limit=8, ttl=3600.0)
        page = PageRecord(PageRef("shop-20200101-00001.warc.gz", 0, 10), 200, 1.0)
        first, second, third, fourth, *held = grant.leases
        items = [Item("a", b"{}"), Item("b", b"{}")]
        await frontier.settle([
            Settlement(first, Fetched(page)),
            Settlement(second, Dead(Failure(FailureClass.TIMEOUT, "it took too long"))),
            Settlement(third, Done(page), items=items),
            Settlement(fourth, Fetched(page)),
        ])
        assert len(held) >= 2

asyncio.run(main(sys.argv[1]))
"""


async def _dump(server: RedisServer) -> dict[bytes, bytes]:
    return {key: await server.ask("DUMP", key) for key in await server.ask("KEYS", "*")}


async def _restore(server: RedisServer, dump: dict[bytes, bytes]) -> None:
    await server.ask("FLUSHALL")
    for key, value in dump.items():
        await server.ask("RESTORE", key, 0, value)


async def test_damage_in_a_shared_store_is_found(
    server: RedisServer, shop: str, tmp_path: Path, verify: Verify
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "spider.py").write_text(SPIDER)
    (folder / "prepare.py").write_text(PREPARE)
    env = {"SHOAL_STORE": server.dsn, "SHOAL_ARCHIVE_LOCATION": str(folder / "archive")}
    ran = shoal(
        *("crawl", "spider.py", shop, *QUICK, "--out", "items.jsonl", "--quiet", "--max-pages", "20"),
        cwd=folder,
        env=env,
    )
    assert ran.code == 0, ran.err
    subprocess.run([sys.executable, "prepare.py", server.dsn], cwd=folder, check=True)  # noqa: ASYNC221
    store = ("--store", server.dsn)
    code, printed = await asyncio.to_thread(verify, folder, *store, "--repair")
    assert (code, printed.splitlines()[0]) == (0, "nothing to repair"), printed
    dump = await _dump(server)

    for name, case in FLEET.items():
        await _restore(server, dump)
        await case.damage(server)
        await asyncio.to_thread(verify.judge, name, case, folder, *store)


async def test_an_empty_store_has_no_crawl(server: RedisServer, shop: str, tmp_path: Path) -> None:
    env = {"SHOAL_STORE": server.dsn}
    quiet = (*QUICK, "--quiet", "--out", "x.jsonl")
    assert shoal("crawl", shop, *quiet, cwd=tmp_path, env={**env, **HASTY}).code == 0
    assert shoal("verify", cwd=tmp_path, env=env).code == 0
    await server.ask("FLUSHALL")
    ran = shoal("verify", cwd=tmp_path, env=env)
    assert ran.code == 7
    assert "no crawl here" in ran.out
    assert "nothing lost" not in ran.out
    assert shoal("verify", "--json", cwd=tmp_path, env=env).json["ok"] is False
