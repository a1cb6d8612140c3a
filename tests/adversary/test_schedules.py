"""Schedules that an attacker with access to the store has written: a scheduler runs, reads and stores nothing for them."""

import sqlite3
import time
from pathlib import Path

import msgspec
import pytest
from tests.e2e.command import HASTY, shoal
from tests.servers.redis import valkey

from shoal.redis_client import RedisClient
from shoal.stores.open import open_store

SPIDER = """
import pathlib, shoal
try:
    pathlib.Path({mark!r}).write_text("ran outside of the sandbox")
except OSError:
    pass
spider = shoal.Spider("evil", start="https://stolen.example/")
@spider.page()
def page(page): yield {{}}
"""


@pytest.mark.slow("a command starts a crawl for each of twelve schedules")
async def test_a_schedule_in_the_store_reads_and_runs_nothing_outside_of_its_schedulers_folder(
    tmp_path: Path,
) -> None:
    own, outside, mark = tmp_path / "own", tmp_path / "outside", tmp_path / "outside" / "mark"
    own.mkdir()
    outside.mkdir()
    outside.joinpath("evil.py").write_text(SPIDER.format(mark=str(mark)))
    outside.joinpath("shoal.toml").write_text("[crawl]\nuser_agent = 's3cret'\n")
    own.joinpath("evil.csv").write_text("[parse]\nsandbox = 'off'\n")
    outside.joinpath("urls.txt").write_text("https://s3cret.example/\n")
    with sqlite3.connect(outside / "customers.db") as database:
        database.execute("CREATE TABLE urls AS SELECT 'https://s3cret.example/' AS url")
    commands = {
        "swallowed": ["--follow", "--out", f"{outside}/evil.py"],
        "settings": ["--config=evil.csv", "--follow", "--out", f"{outside}/evil.py"],
        "other-settings": [f"--config={outside}/shoal.toml", "https://a.example/"],
        "database": ["--user-agent", "--out", f"--seeds={outside}/customers.db", "--query=SELECT url FROM urls"],
        "list": ["--user-agent", "--out", f"--seeds={outside}/urls.txt"],
        "folder": ["https://a.example/"],
    }  # fmt: skip
    async with valkey(tmp_path / "server") as server:
        where = ("--store", server.dsn)
        async with open_store(server.dsn, create=True) as store:
            for name, arguments in commands.items():
                folder = outside if name == "folder" else own
                # As an earlier version stored it, and with a command line where fields are.
                stored_as: list[dict[str, object]] = [
                    {"arguments": arguments},
                    {"crawl": {"spider": f"{outside}/evil.py", "arguments": arguments}},
                ]
                for number, fields in enumerate(stored_as):
                    record = {"name": f"{name}-{number}", "folder": str(folder), "every_s": 1.0, **fields}
                    packed = msgspec.msgpack.encode({**record, "created_at": time.time() - 10})
                    assert await store.schedules.swap(f"s/{name}-{number}", None, packed)

        ran = shoal("schedule", "run", "--once", *where, cwd=own, env=HASTY)

        assert ran.code == 0, ran.err
        assert not mark.exists()
        async with RedisClient.open(server.dsn) as client:
            keys = await client.do(client.fleet_tag, "KEYS", "*")
            stored = [await client.do(client.fleet_tag, "DUMP", key) for key in keys]
        assert not [one for one in stored if b"s3cret.example" in one or b"stolen.example" in one]
        listed = shoal("schedule", "list", "--json", *where, cwd=own).json["schedules"]
        states = {run["state"] for one in listed for run in one["runs"]}
        assert len(listed) == 2 * len(commands)
        assert states <= {"failed", "skipped"}
