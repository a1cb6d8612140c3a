"""An archive on an object store, from the command line."""

import re
import sys
from pathlib import Path
from urllib.request import urlopen

from tests.e2e import spilling_worker
from tests.e2e.command import DONE, HASTY, PAGES, QUICK, Ran, records, shoal
from tests.fleet_crawl import Fleet
from tests.servers.redis import SYNCED, RedisServer, valkey
from tests.servers.s3 import BUCKET, SECRET, S3Server
from tests.servers.shared import shared_s3

from shoal.frontier.redis.keys import chunk_bodies
from shoal.redis_client import RedisClient


def test_pages_on_an_object_store_can_be_verified_and_exported(shop: str, tmp_path: Path) -> None:
    with shared_s3() as server:
        crawling = {**HASTY, **server.environment, "SHOAL_ARCHIVE_LOCATION": f"s3://{BUCKET}/archive"}
        ran = shoal("crawl", shop, *QUICK, "--out", "x.jsonl", "--crawl", "shop", cwd=tmp_path, env=crawling)
        assert ran.code == 0, ran.err
        assert f"s3://{BUCKET}/archive/shop" in ran.out + ran.err
        assert list((tmp_path / "shoal-data").rglob("*.warc.gz")) == []

        proved = shoal("verify", "--deep", cwd=tmp_path, env=server.environment)
        assert proved.code == 0, proved.out + proved.err
        exported = shoal("export", "--out", "pages.warc.gz", cwd=tmp_path, env=server.environment)
        assert exported.code == 0, exported.err
        assert (tmp_path / "pages.warc.gz").stat().st_size > 10_000
        assert len(records(tmp_path / "x.jsonl")) == PAGES
        query = "SELECT count(*) FROM attempts WHERE outcome = 'done'"
        logged = shoal("sql", query, "--json", cwd=tmp_path, env=server.environment)
        assert logged.json["rows"] == [[DONE]], logged.err
        [trace] = shoal("trace", shop, "--json", cwd=tmp_path, env=server.environment).json["traces"]
        assert [one["status"] for one in trace["attempts"]] == [200]

    assert SECRET not in "".join([ran.out, ran.err, proved.out, proved.err, exported.out, exported.err])


async def test_a_machine_parses_pages_that_another_one_has_fetched(shop: str, tmp_path: Path) -> None:
    with shared_s3() as server:
        async with valkey(tmp_path / "valkey") as store:
            settings = {**HASTY, **server.environment, "SHOAL_ARCHIVE_LOCATION": f"s3://{BUCKET}/fleet"}
            folders = [tmp_path / "fetching", tmp_path / "parsing"]
            allowed = {"SHOAL_WORKER_ALLOW_OUTPUTS": str(tmp_path)}
            for folder in folders:
                folder.mkdir()
            with (
                Fleet(store.dsn, folders[0], settings=settings) as fetching,
                Fleet(store.dsn, folders[1], settings={**settings, **allowed}) as parsing,
            ):
                assert fetching.submit(shop, "--crawl", "shop", spider=None).code == 0
                workers = [
                    (fetching, fetching.start("--roles", "fetch", "--until-done")),
                    (parsing, parsing.start("--roles", "parse,sink", "--until-done")),
                ]
                codes = [await machine.ended(worker) for machine, worker in workers]
                assert codes == [0, 0], fetching.logs() + parsing.logs()

    assert len(records(folders[0] / "items.jsonl")) == PAGES
    assert [path for folder in folders for path in folder.rglob("*.warc.gz")] == []


async def test_the_tail_of_a_queue_goes_to_the_object_store_and_comes_back(shop: str, tmp_path: Path) -> None:
    program = (sys.executable, spilling_worker.__file__)
    with shared_s3() as server:
        async with valkey(tmp_path / "valkey") as store:
            settings = {**HASTY, **server.environment, "SHOAL_ARCHIVE_LOCATION": f"s3://{BUCKET}/fleet"}
            with Fleet(store.dsn, tmp_path, settings=settings) as fleet:
                assert fleet.submit(shop, "--crawl", "shop", "--per-host", "2", spider=None).code == 0
                workers = [fleet.start("--until-done", program=program) for _ in range(2)]
                codes = [await fleet.ended(worker) for worker in workers]
                chunks = objects(server, "fleet/spilled/")

                assert codes == [0, 0], fleet.logs()
                assert fleet.verify().code == 0
                assert "spill_failed" not in fleet.logs()
                assert len(chunks) >= 3  # of four requests each; they are deleted by age

    assert len(records(tmp_path / "items.jsonl")) == PAGES


LISTED = 30_000  # more than the queue of one host keeps in the server


def submitted(dsn: str, folder: Path, settings: dict[str, str]) -> Ran:
    """Submit a long list of one host's URLs."""
    with (folder / "seeds.txt").open("w") as file:
        file.writelines(f"http://long.test/{n}\n" for n in range(LISTED))
    env = {"SHOAL_STORE": dsn, "SHOAL_ARCHIVE_LOCATION": f"s3://{BUCKET}/fleet", **settings}
    return shoal("submit", "--seeds", "seeds.txt", "--crawl", "long", "--json", cwd=folder, env=env)


async def test_a_list_that_is_submitted_goes_to_the_object_store_as_what_workers_add_does(
    tmp_path: Path,
) -> None:
    with shared_s3() as server:
        async with valkey(tmp_path / "valkey", *SYNCED) as store:
            ran = submitted(store.dsn, tmp_path, server.environment)
            bodies = await in_server(store)
            chunks = objects(server, "fleet/spilled/")

    assert (ran.code, ran.json["added"], "warning" in ran.err) == (0, LISTED, False), ran.err
    assert len(chunks) == len(bodies) > 3
    assert all(body.startswith(b"@") for body in bodies)  # only their location


async def test_a_list_stays_in_the_store_where_the_object_store_cannot_be_reached(tmp_path: Path) -> None:
    gone = S3Server(tmp_path / "never started").environment
    async with valkey(tmp_path / "valkey", *SYNCED) as store:
        ran = submitted(store.dsn, tmp_path, gone)
        bodies = await in_server(store)

    assert (ran.code, ran.json["added"], ran.err.count("spilled_in_store")) == (0, LISTED, 1), ran.err
    assert SECRET not in ran.err
    assert len(bodies) > 3
    assert all(body.startswith(b"=") for body in bodies)


async def in_server(server: RedisServer) -> list[bytes]:
    """Read what is registered of the chunks of the one crawl there is."""
    async with RedisClient.open(server.dsn) as store:
        parts = [await store.do(tag, "HVALS", chunk_bodies(tag, 1)) for tag in store.tags()]
    return [body for part in parts for body in part]


def objects(server: S3Server, prefix: str) -> list[str]:
    """Return the names of the objects in the bucket."""
    with urlopen(f"{server.endpoint}/{BUCKET}?list-type=2&prefix={prefix}", timeout=30) as answer:
        return re.findall(r"<Key>(.*?)</Key>", answer.read().decode())
