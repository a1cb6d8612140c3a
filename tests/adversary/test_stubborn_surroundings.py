"""Databases that refuse for a while, containers that are stopped, outputs that two crawls want, and variables
that an orchestrator sets."""

import asyncio
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import msgspec
import pytest
from tests.adversary.size import sized
from tests.crash.fleet import judge
from tests.e2e.command import SHOAL, shoal, surroundings
from tests.fleet_crawl import Fleet
from tests.graph_crawl import SPIDER, serving_graph
from tests.servers.redis import SYNCED, valkey
from tests.servers.s3 import BUCKET
from tests.servers.shared import shared_database, shared_s3
from tests.site.graph import Shape

from shoal.archive.names import SegmentName
from shoal.archive.registry import open_segments
from shoal.model.configuration.configure import from_environment, is_service_variable
from shoal.model.settings import CrawlSettings
from shoal.stores.contract.places import pattern_for
from shoal.stores.open import open_store
from shoal.worker.retention import expire_archive

CONTAINER_GRACE_S = 10.0  # after which container runtimes kill, by default


# --- an output that refuses for a while --------------------------------------------------------------------


async def set_read_only(database: str, *, read_only: bool) -> None:
    connection = await asyncpg.connect(database)
    try:
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute("SET default_transaction_read_only = off")
        await connection.execute(
            f"ALTER DATABASE {name} SET default_transaction_read_only = {'on' if read_only else 'off'}"
        )
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    finally:
        await connection.close()


@pytest.mark.timeout(300)
async def test_an_output_that_is_read_only_for_a_while_is_tried_again(tmp_path: Path) -> None:
    shape = Shape(seed=2, pages=sized(40, full=600), hosts=4)
    with shared_database() as database:
        table = f"{database}?table=books"
        async with (
            valkey(tmp_path / "server", *SYNCED) as server,
            serving_graph(shape) as (site, graph),
        ):
            allowed = {"SHOAL_WORKER_ALLOW_OUTPUTS": f".\n{pattern_for(database)}"}
            with Fleet(server.dsn, tmp_path, settings=allowed) as fleet:
                assert fleet.submit(graph.start, "--rate", "20", "--out", table).code == 0
                worker = fleet.start("--until-done")
                await fleet.until_served(site, shape.pages // 4)
                await set_read_only(database, read_only=True)
                await fleet.until_served(site, shape.pages)
                until = time.monotonic() + 30
                while "read-only" not in str(fleet.status()["workers"]):
                    assert time.monotonic() < until, fleet.status()["workers"]
                    await asyncio.sleep(0.2)
                await set_read_only(database, read_only=False)
                assert await fleet.ended(worker) == 0, fleet.logs()
                judge.assert_items("PostgreSQL", await judge.rows(table), graph.expected().items)


@pytest.mark.timeout(300)
async def test_a_crawl_in_a_folder_resumes_after_its_database_was_read_only(tmp_path: Path) -> None:
    """The process exits with 4 and names the output; the same command, typed again, loses and doubles nothing."""
    shape = Shape(seed=2, pages=sized(40, full=600), hosts=4)
    options = ("--any-host", "--allow-private", "--rate", "20", "--per-host", "8", "--json")
    with shared_database() as database:
        table = f"{database}?table=books"
        async with serving_graph(shape) as (site, graph):
            command = [*SHOAL, "crawl", str(SPIDER), graph.start, *options, "--out", table]
            process = await asyncio.create_subprocess_exec(
                *command, cwd=tmp_path, env=surroundings({}), stdout=asyncio.subprocess.DEVNULL, stderr=-1
            )
            until = time.monotonic() + 60
            while await site.served() < shape.pages // 4:
                assert time.monotonic() < until
                await asyncio.sleep(0.05)
            await set_read_only(database, read_only=True)
            async with asyncio.timeout(120):
                _, errors = await process.communicate()
            assert process.returncode == 4, errors
            assert b"read-only" in errors
            await set_read_only(database, read_only=False)
            resumed = await asyncio.to_thread(shoal, *command[len(SHOAL) :], cwd=tmp_path)
            assert resumed.code == 0, resumed
            judge.assert_items("PostgreSQL", await judge.rows(table), graph.expected().items)
            assert (await asyncio.to_thread(shoal, "verify", cwd=tmp_path)).code == 0


# --- stopping within the grace of a container --------------------------------------------------------------


async def test_a_stop_releases_what_cannot_finish_in_the_grace_of_a_container(tmp_path: Path) -> None:
    assert CrawlSettings().grace < CONTAINER_GRACE_S - 2
    shape = Shape(seed=4, pages=30, hosts=2, latency_s={0: 0.0, 1: 8.0})
    settings = {"SHOAL_CRAWL_GRACE": "1"}
    async with (
        valkey(tmp_path / "server", *SYNCED) as server,
        serving_graph(shape) as (site, graph),
    ):
        (tmp_path / "folder").mkdir()
        with Fleet(server.dsn, tmp_path, lease=120.0, settings=settings) as fleet:
            assert fleet.submit(graph.start).code == 0
            embedded = await asyncio.create_subprocess_exec(
                *SHOAL, "crawl", str(SPIDER), graph.start, "--any-host", "--allow-private", "--rate", "0", "--quiet",
                cwd=tmp_path / "folder", env=surroundings(settings), start_new_session=True,
            )  # fmt: skip
            worker = fleet.start()
            await fleet.until_served(site, 5)
            await asyncio.sleep(1.0)  # slow downloads are in progress
            embedded.send_signal(signal.SIGTERM)
            worker.send_signal(signal.SIGTERM)
            async with asyncio.timeout(CONTAINER_GRACE_S):
                await fleet.ended(worker)
                await embedded.wait()
            for store in (server.dsn, str(tmp_path / "folder" / "shoal-data")):
                async with open_store(store) as opened:
                    counts = await opened.frontier.counts("graph")
                    assert counts.open, "nothing was cut off"
                    assert (counts.leased, counts.crashes, counts.dead) == (0, 0, 0), store


# --- two crawls, one output --------------------------------------------------------------------------------


async def test_submit_refuses_an_output_of_another_crawl(tmp_path: Path) -> None:
    async with valkey(tmp_path / "server", *SYNCED) as server:

        def submit(name: str, *outputs: str) -> tuple[int, str]:
            named = [part for output in outputs for part in ("--out", output)]
            ran = shoal(
                "submit", "http://127.0.0.1:9/", "--allow-private", "--crawl", name, *named,
                cwd=tmp_path, env={"SHOAL_STORE": server.dsn},
            )  # fmt: skip
            return ran.code, ran.err

        table = "postgresql://u:secret@db.example/shop?table=books"
        assert submit("one", "items.jsonl", table)[0] == 0
        assert submit("one", "items.jsonl", table)[0] == 0  # its own
        for output in ("items.jsonl", "./items.jsonl", "postgresql://u:other@db.example/shop?table=books"):
            code, said = submit("two", output)
            assert code == 1
            assert "'one'" in said
            assert "'two'" in said
            assert "secret" not in said
        assert submit("two", "others.jsonl")[0] == 0


# --- archived pages that are too old -----------------------------------------------------------------------


async def test_a_worker_deletes_archived_pages_that_are_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = datetime.now(UTC).date()
    old, young = ((today - timedelta(days=days)).strftime("%Y%m%d") for days in (9, 2))
    folder = tmp_path / "shoal-data" / "archive" / "graph"
    folder.mkdir(parents=True)
    for day in (old, young):
        (folder / f"graph-{day}-00001.warc.gz").write_bytes(b"")
    async with (
        valkey(tmp_path / "server", *SYNCED) as server,
        serving_graph(Shape(seed=2, pages=5, hosts=1)) as (_, graph),
    ):
        with Fleet(server.dsn, tmp_path, settings={"SHOAL_ARCHIVE_KEEP_DAYS": "3"}) as fleet:
            assert fleet.submit(graph.start).code == 0
            assert await fleet.ended(fleet.start("--until-done")) == 0
        async with open_store(server.dsn) as store:
            [record] = await store.fleet.crawls.all()
    names = {path.name for path in folder.iterdir()}
    assert f"graph-{old}-00001.warc.gz" not in names
    assert f"graph-{young}-00001.warc.gz" in names

    with shared_s3() as bucket:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        location = f"s3://{BUCKET}/pages"
        archive = {**record.settings["archive"], "location": location}
        far = msgspec.structs.replace(record, settings={**record.settings, "archive": archive})
        segments = open_segments(location, far.name)
        for day in (old, young):
            segments.write(SegmentName.parse(f"graph-{day}-00001.warc.gz"), 0, b"x", sync=True)
        assert expire_archive(far, tmp_path, today) == [f"graph-{old}-00001.warc.gz"]
        assert [str(name) for name in segments.segments()] == [f"graph-{young}-00001.warc.gz"]


# --- variables that an orchestrator sets -------------------------------------------------------------------

INJECTED = {
    "SHOAL_SERVICE_HOST": "10.0.0.7",
    "SHOAL_SERVICE_PORT": "80",
    "SHOAL_SERVICE_PORT_HTTP": "80",
    "SHOAL_PORT": "tcp://10.0.0.7:80",
    "SHOAL_PORT_80_TCP": "tcp://10.0.0.7:80",
    "SHOAL_PORT_80_TCP_PROTO": "tcp",
    "SHOAL_PORT_80_TCP_PORT": "80",
    "SHOAL_PORT_80_TCP_ADDR": "10.0.0.7",
    "SHOAL_REDIS_SERVICE_HOST": "10.0.0.8",
    "SHOAL_REDIS_PORT_6379_TCP_ADDR": "10.0.0.8",
}


def test_variables_of_an_orchestrator_are_ignored_and_others_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert all(is_service_variable(*pair) for pair in INJECTED.items())
    assert list(from_environment(INJECTED)) == []
    assert not caplog.records
    [value] = from_environment({"SHOAL_CRAWL_RATE": "3", "SHOAL_CRAWL_RAET": "4"})
    assert (value.key, value.value) == ("crawl.rate", 3.0)
    [warning] = caplog.records
    assert vars(warning)["variable"] == "SHOAL_CRAWL_RAET; did you mean SHOAL_CRAWL_RATE?"
    ran = shoal("doctor", "--json", cwd=tmp_path, env={**INJECTED, "SHOAL_CRAWL_RAET": "4"})
    assert ran.code == 0, ran.err
    assert "SHOAL_CRAWL_RAET" in ran.err
    assert "SHOAL_SERVICE_HOST" not in ran.err
