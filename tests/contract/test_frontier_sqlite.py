"""Guarantees of the SQLite frontier only: full disks, damage, concurrent readers, and size."""

import json
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.sqlite.hosts import MAX_ROBOTS, ROBOTS_SWEEP_WRITES
from shoal.model.errors import Lost, Misconfigured, Unavailable
from shoal.model.failure import FailureClass
from shoal.model.generations.page_history import PageHistory, pack_history
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Filtered,
    Gone,
    Outcome,
    Retry,
    Settlement,
)
from shoal.sqlite_database import CHECKPOINT_EVERY_ROWS, open_database
from shoal.testing.contracts.frontier import TIMEOUT, UNLIMITED, link, page, paths, states, take


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def crawled(path: Path) -> None:
    """Create a store that has requests in every state."""
    outcomes: list[Outcome] = [
        Done(page(1)),
        Fetched(page(2)),
        Gone(404),
        Dead(TIMEOUT),
        Filtered(FailureClass.ROBOTS),
    ]
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c", pace=UNLIMITED)
        await frontier.add("c", [link(str(number)) for number in range(10)])
        leases = await take(frontier, 6)
        settlements = zip(leases, outcomes, strict=False)
        await frontier.settle([Settlement(lease, outcome) for lease, outcome in settlements])


def meddle(path: Path, *statements: str) -> None:
    """Change a store behind its owner's back."""
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


def overwrite(path: Path, *, beyond: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:beyond] + b"\xff" * (len(whole) - beyond))


# --- failing disks -------------------------------------------------------------------------------


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """Make every write beyond `size` bytes fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_after_a_failed_write_every_call_fails_and_nothing_is_lost(path: Path) -> None:
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c", pace=UNLIMITED)
        await frontier.add("c", [link("1"), link("2")])
        [lease] = await take(frontier, 1)
        with files_at_most(path.with_name("store.db-wal").stat().st_size + 4096):
            with pytest.raises(Unavailable, match=r"store\.db"):
                await frontier.add("c", [link(f"too-many-{number}") for number in range(1000)])
        for call in (
            frontier.add("c", [link("3")]),
            frontier.lease(holder="w", limit=1, ttl=60.0),
            frontier.settle([Settlement(lease, Done(page()))]),
            frontier.crawls.open("d"),
        ):
            with pytest.raises(Unavailable, match=r"store\.db"):
                await call

    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c")
        assert (await frontier.reader.audit("c")).problems == []
        assert await states(frontier) == {"waiting": 2}
        assert paths(await take(frontier)) == ["a.test/2", "a.test/1"]
        assert (await frontier.add("c", [link("too-many-0")])).new == 1


async def test_an_invalid_call_does_not_stop_the_frontier(path: Path) -> None:
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c", pace=UNLIMITED)
        with pytest.raises(Misconfigured):
            await frontier.commit(crawl_state={"nope": {"key": b"value"}})
        with pytest.raises(Misconfigured):
            await frontier.lease(holder="w", limit=1, ttl=60.0, crawls=["nope"])
        assert (await frontier.add("c", [link("1")])).new == 1


async def test_the_error_names_a_damaged_store(path: Path) -> None:
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c")
        await frontier.add("c", [link(str(number)) for number in range(2000)])
    overwrite(path, beyond=40 * 4096)

    with pytest.raises(Lost, match=r"store\.db is damaged"):
        async with SqliteFrontier.open(path) as frontier:
            await frontier.crawls.open("c")


async def test_a_request_without_a_row_is_reported_as_damage(path: Path) -> None:
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c", pace=UNLIMITED)
        await frontier.add("c", [link("1"), link("2")])
        meddle(path, "DELETE FROM request WHERE id IN (SELECT min(id) FROM request)")
        with pytest.raises(Misconfigured, match="damaged: 1 queued request"):
            await take(frontier)


async def test_a_store_of_a_newer_version_is_rejected(path: Path) -> None:
    await crawled(path)
    meddle(path, "PRAGMA user_version = 99")
    with pytest.raises(Misconfigured, match="newer Shoal"):
        async with SqliteFrontier.open(path):
            pass
    with pytest.raises(Misconfigured, match="newer Shoal"):
        async with SqliteFrontier.peek(path):
            pass


# --- concurrent readers --------------------------------------------------------------------------


async def test_the_next_owner_migrates_a_store_of_an_older_version(path: Path) -> None:
    first = files("shoal.frontier.sqlite").joinpath("schema.sql").read_text()
    with closing(open_database(path, [first], fsync=False)) as database:
        database.execute("INSERT INTO crawl(name, settings, counts) VALUES ('c', '{}', '{}')")
        database.execute(
            "INSERT INTO ended(crawl, fp, state, ended_at, status, segment, offset, length, fetched_at,"
            " items, links, etag, modified, digest, elapsed, wire_bytes)"
            " VALUES (1, 7, 'done', 1.0, 200, 's', 0, 9, 1.0, 2, 3, '', '', '', 0.1, 5)"
        )
    with pytest.raises(Misconfigured, match="written by an older Shoal: shoal crawl brings it up to date"):
        async with SqliteFrontier.peek(path):
            pass
    async with SqliteFrontier.open(path) as frontier:
        [(fingerprint, kept)] = [found async for found in frontier.reader.pages("c")]
    assert (fingerprint, kept.items, kept.wire_bytes, kept.version) == (7, 2, 5, 0)


async def test_a_reader_sees_the_last_transaction_while_the_owner_keeps_writing(path: Path) -> None:
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c", pace=UNLIMITED, state={"version": b"1"})
        await frontier.add("c", [link(str(number)) for number in range(4)])
        first, second, _ = await take(frontier, 3)
        await frontier.commit([Settlement(first, Done(page(1)))], checkpoints={"out": b"7"})
        async with SqliteFrontier.peek(path) as reader:
            assert await reader.crawls() == ["c"]
            assert await reader.counts("c") == await frontier.reader.counts("c")
            await frontier.settle([Settlement(second, Dead(TIMEOUT))])
            assert await reader.counts("c") == await frontier.reader.counts("c")
            assert (await reader.audit("c")).problems == []
            assert [letter.kind async for letter in reader.dead_letters("c")] == [FailureClass.TIMEOUT]
            assert [record async for _, record in reader.pages("c")] == [page(1)]
            assert await reader.checkpoint("out") == b"7"
            assert await reader.value("c", "version") == b"1"
            with pytest.raises(Misconfigured, match="nope"):
                await reader.counts("nope")


async def test_reading_a_store_that_does_not_exist_raises_misconfigured(path: Path) -> None:
    with pytest.raises(Misconfigured, match="no store"):
        async with SqliteFrontier.peek(path):
            pass


async def test_crawls_that_are_not_open_can_be_read(path: Path) -> None:
    await crawled(path)
    async with SqliteFrontier.open(path) as frontier:
        counts = await frontier.reader.counts("c")
        assert (counts.accepted, counts.waiting, counts.leased, counts.crashes) == (10, 5, 0, 2)
        assert (await frontier.reader.audit("c")).problems == []
        assert len([letter async for letter in frontier.reader.dead_letters("c")]) == 1


# --- audits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        ("DELETE FROM request WHERE id IN (SELECT max(id) FROM request)", "accepted but in no place: "),
        ("DELETE FROM ended WHERE state = 'gone'", "accepted but in no place: "),
        ("DELETE FROM dead", "counter of dead as timeout says 1, the data 0"),
        ("DELETE FROM parsing", "counter of parsing says 1, the data 0"),
        ("INSERT INTO ended(crawl, fp, state, ended_at) SELECT 1, fp, 'gone', 0 FROM dead", "in two places"),
        ("INSERT INTO ended(crawl, fp, state, ended_at) VALUES (1, 5, 'gone', 0)", "never accepted"),
        ("INSERT INTO seen(crawl, fps) SELECT crawl, fps FROM seen", "repeats 10"),
        ("UPDATE ended SET rule = 'scope' WHERE state = 'filtered'", "filtered as robots says 1, the data 0"),
        ("UPDATE lease SET ids = CAST(ids || ids AS BLOB)", "leased twice"),
        ("UPDATE lease SET ids = x'FFFF000000010000'", "leased but not there"),
        (
            """UPDATE crawl SET counts = json_set(counts, '$.accepted', 11)""",
            "counter of accepted says 11, the data 10",
        ),
    ],
)
async def test_an_audit_finds_damage(path: Path, damage: str, finding: str) -> None:
    await crawled(path)
    meddle(path, damage)
    async with SqliteFrontier.peek(path) as reader:
        problems = (await reader.audit("c")).problems
    assert any(finding in problem for problem in problems), problems


async def test_an_audit_lists_a_few_problems_of_each_kind(path: Path) -> None:
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c")
        await frontier.add("c", [link(str(number)) for number in range(100)])
    meddle(path, "INSERT INTO ended(crawl, fp, state, ended_at) SELECT 1, fp, 'gone', 0 FROM request")
    async with SqliteFrontier.peek(path) as reader:
        problems = (await reader.audit("c")).problems
    assert len(problems) < 30
    assert "in two places, one of them gone: and more" in problems


# --- size ----------------------------------------------------------------------------------------


async def test_rows_of_ended_requests_are_deleted_eventually(path: Path) -> None:
    async with SqliteFrontier.open(path, sweep_every=50) as frontier:
        await frontier.crawls.open("c", pace=UNLIMITED)
        await frontier.add("c", [link(str(number)) for number in range(60)])
        for _ in range(6):
            await frontier.settle([Settlement(lease, Done(page())) for lease in await take(frontier, 9)])
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("SELECT count(*) FROM request").fetchone() == (6,)
            assert database.execute("SELECT count(*) FROM spent").fetchone() == (0,)
        await frontier.settle([Settlement(lease, Gone(404)) for lease in await take(frontier, 2)])
        assert (await frontier.reader.audit("c")).problems == []
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c")
        assert await states(frontier) == {"waiting": 4, "done": 54, "gone": 2}
        assert (await frontier.reader.audit("c")).problems == []


async def test_the_number_of_stored_robots_txt_is_bounded(path: Path) -> None:
    async with SqliteFrontier.open(path) as frontier:
        for number in range(MAX_ROBOTS + ROBOTS_SWEEP_WRITES):
            await frontier.hosts.set_robots(f"{number}.test", expires=1e12 + number, status=200, body=b"")
        assert await frontier.hosts.get_robots("0.test") is None
        assert await frontier.hosts.get_robots(f"{MAX_ROBOTS}.test") is not None
    with closing(sqlite3.connect(path)) as database:
        [rows] = database.execute("SELECT count(*) FROM robots").fetchone()
        assert rows <= MAX_ROBOTS + ROBOTS_SWEEP_WRITES


async def test_the_write_ahead_log_is_written_back_during_a_crawl(path: Path) -> None:
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c")
        log = path.with_name("store.db-wal")
        written = 0
        for batch in range(6 * CHECKPOINT_EVERY_ROWS // 1000):
            await frontier.add("c", [link(f"{batch}-{number}") for number in range(1000)])
            written += 130_000
        assert log.stat().st_size < written  # the log restarts after it was written back


MEASURE = """
import asyncio, json, sys
from pathlib import Path
from bench.frontier import UNLIMITED, links, rss_mib, some
from shoal.frontier.sqlite import SqliteFrontier

async def main(path, urls, hosts):
    source = links(hosts)
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c", pace=UNLIMITED)
        await frontier.add("c", some(source, 1000))
        before = rss_mib()
        for _ in range(urls // 1000):
            await frontier.add("c", some(source, 1000))
        grown = rss_mib() - before
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c")
        counts = await frontier.reader.counts("c")
        print(json.dumps({"bytes": grown * 2**20 / urls, "waiting": counts.waiting}))

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
"""


@pytest.mark.slow
@pytest.mark.parametrize("hosts", [1, 1000])
def test_a_queued_url_costs_few_bytes_of_memory(path: Path, hosts: int) -> None:
    """Two million URLs have to fit into 300 MB with everything else: at most 100 bytes each."""
    urls = 150_000
    answer = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), str(urls), str(hosts)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=True,
    )
    measured = json.loads(answer.stdout)
    assert measured["waiting"] == urls + 1000
    assert measured["bytes"] < 150  # includes SQLite's cache of 16 MB


async def test_a_deleted_crawl_leaves_no_rows(path: Path) -> None:
    """Its id can be given to another crawl, which would find them."""
    history = pack_history(PageHistory(status=200))
    known = Done(msgspec.structs.replace(page(), history=history))
    outcomes: list[Outcome] = [known, Gone(404), Dead(TIMEOUT), Retry(TIMEOUT, delay=9.0), Fetched(page())]
    for entirely in (False, True):
        async with SqliteFrontier.open(path) as frontier:
            await frontier.crawls.open("c", pace=UNLIMITED, state={"key": b"value"})
            await frontier.add("c", [link(str(number), host=f"{number}.test") for number in range(9)])
            ended = zip(await take(frontier, 6), outcomes, strict=False)
            await frontier.settle([Settlement(lease, outcome, history=history) for lease, outcome in ended])
        async with SqliteFrontier.open(path) as frontier:
            assert await frontier.crawls.delete("c", entirely=entirely)

    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        of_crawls = [
            name
            for name in tables
            if any(row[1] == "crawl" for row in database.execute(f"PRAGMA table_info({name})"))
        ]
        assert "page_history" in of_crawls
        left = {name: database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in of_crawls}
    assert left == dict.fromkeys(of_crawls, 0)


@pytest.mark.parametrize("table", ["request", "parsing"])
async def test_a_damaged_row_is_dead_and_costs_no_other_request(path: Path, table: str) -> None:
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c", pace=UNLIMITED)
        await frontier.add("c", [link(str(number)) for number in range(3)])
        if table == "parsing":
            await frontier.commit([Settlement(lease, Fetched(page())) for lease in await take(frontier)])
    with closing(sqlite3.connect(path)) as database, database:
        first = f"(SELECT min(id) FROM {table})"
        database.execute(f"UPDATE {table} SET request = x'c1ff00' WHERE id = {first}")
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c")
        if table == "parsing":
            async for one in frontier.parsing("c"):
                await frontier.acknowledge([Acknowledgement("c", one.fingerprint, Done(one.page))])
            assert (await states(frontier))["done"] == 2
        else:
            assert len(await take(frontier)) == 2
        await frontier.commit()
        assert (await states(frontier))["dead"] == 1
