"""Looking at a fleet and steering it: the commands of a folder, on a store that many share."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from tests.e2e.command import (
    DONE,
    HASTY,
    NO_RETRIES,
    PAGES,
    PRIVATE,
    QUICK,
    TIMEOUT,
    shoal,
    start_logged,
)
from tests.e2e.command_server import StartedCommand
from tests.servers.process import free_port, refusing_port
from tests.servers.redis import SYNCED, RedisServer, valkey

HALF = PAGES // 2


class Store:
    """A fleet's store, and a folder to work in."""

    def __init__(self, server: RedisServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.allowed: list[str] = []  # outputs outside of the folder that workers may write

    def shoal(self, *arguments: str, code: int = 0) -> Any:
        """Type a command and read its JSON."""
        env = {"SHOAL_STORE": self.server.dsn, **PRIVATE, **HASTY, **NO_RETRIES}
        ran = shoal(*arguments, "--json", cwd=self.folder, env=env)
        assert ran.code == code, ran.err
        return ran.json

    def worker(self) -> StartedCommand:
        allowed = "\n".join([str(self.folder), *self.allowed])
        env = {"SHOAL_STORE": self.server.dsn, **PRIVATE, **HASTY, "SHOAL_WORKER_ALLOW_OUTPUTS": allowed}
        return start_logged("worker", "--quiet", cwd=self.folder, log=self.folder / "worker.log", env=env)

    def says(self, *arguments: str, code: int = 0) -> str:
        ran = shoal(*arguments, cwd=self.folder, env={"SHOAL_STORE": self.server.dsn})
        assert ran.code == code, ran.err
        return ran.out + ran.err


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    folder = tmp_path / "work"
    folder.mkdir()
    async with valkey(tmp_path / "server", *SYNCED, "--maxmemory", "1gb") as server:
        yield Store(server, folder)


@pytest.mark.timeout(240)
async def test_commands_control_a_fleet_as_they_control_a_folder(store: Store, shop: str) -> None:
    host = shop.split("/")[2]
    submit = ("submit", shop, *QUICK, "--crawl", "shop", "--out", "items.jsonl")
    crawl = ("crawl", shop, *QUICK, "--crawl", "shop", "--out", "items.jsonl")
    store.shoal(*submit)

    assert store.shoal("pause")["crawls"] == ["shop"]
    assert store.shoal("status")["crawls"][0]["paused"] is True
    assert "no crawl named 'other'" in store.says("pause", "other", code=1)
    assert store.shoal("resume", "shop")["paused"] is False
    assert store.shoal("host", "set-rate", host, "0.001")["host"]["interval"] == 1000.0
    blocked = store.shoal("host", "block", shop)["host"]
    assert (blocked["paused"], blocked["waiting"]) == (True, 1)
    assert "paused: shoal host resume" in store.says("host", "show", host)
    assert "knows no host elsewhere.test" in store.says("host", "show", "elsewhere.test", code=1)
    assert store.shoal("plan")["hosts"] == 1
    [waiting] = store.shoal("trace", shop)["traces"]
    assert (waiting["state"], waiting["url"]) == ("waiting", shop)
    store.shoal("host", "resume", host)
    assert store.shoal("host", "set-rate", host, "default")["host"]["interval"] == 0.0

    assert store.shoal(*crawl)["counts"]["dead"] == 1
    [letter] = store.shoal("dlq", "list")["dead_letters"]
    assert (letter["crawl"], letter["status"]) == ("shop", 503)
    assert store.shoal("dlq", "show", letter["trace"])["dead_letters"] == [letter]
    [dead] = store.shoal("trace", letter["url"])["traces"]
    assert (dead["state"], dead["class"]) == ("dead", letter["class"])
    assert store.shoal("dlq", "replay", "--yes")["replayed"] == 1
    assert store.shoal(*crawl)["counts"]["dead"] == 0
    assert store.shoal("dlq", "purge", "--yes")["purged"] == 0
    [ended] = store.shoal("trace", letter["url"])["traces"]
    assert ended["state"] == "done"
    assert [(one["class"], one["status"]) for one in ended["attempts"]] == [
        ("target_error", 503),
        (None, 200),
    ]
    assert "never accepted" in store.says("trace", f"{shop}no-such-page", code=1)


@pytest.mark.timeout(240)
async def test_verify_proves_that_a_fleet_has_lost_and_duplicated_nothing(store: Store, shop: str) -> None:
    crawl = ("crawl", shop, *QUICK, "--crawl", "shop", "--out")
    found = store.shoal(*crawl, "items.jsonl")["items"]

    sound = store.shoal("verify")
    [report] = sound["crawls"]
    assert (sound["ok"], report["items"], report["pages"], report["waiting"]) == (True, found, None, 0)
    assert list(report["outputs"].values()) == [found]
    store.shoal(*crawl, "more.csv")
    assert "not checked: pages in the archive" in store.says("verify")
    assert store.shoal("verify", "--deep")["crawls"][0]["pages"] == DONE - 1  # one was given up

    items = store.folder / "items.jsonl"
    whole = items.read_bytes()
    items.write_bytes(whole[: len(whole) // 2])
    assert (
        f"output {items} is shorter than this crawl has left it"
        in store.shoal("verify", code=5)["problems"][0]
    )
    items.write_bytes(whole)

    counters = f"{{shoal:{crc32(shop.split('/')[2].encode()) % 16:02}}}:n:1"
    for counter, complaint in (
        ("items", f"{found + 1} items were committed"),
        ("done", "1 requests more than were accepted"),
    ):
        await store.server.ask("HINCRBY", counters, counter, 1)
        assert complaint in store.shoal("verify", code=5)["problems"][0]
        await store.server.ask("HINCRBY", counters, counter, -1)

    await store.server.ask("HINCRBY", counters, "done", 3)
    told = store.says("verify", "--repair")
    assert "repaired: shop: the counter of done was off by +3" in told
    assert "nothing lost, nothing doubled" in told
    assert store.shoal("verify", "--repair")["repaired"] == []


@pytest.mark.timeout(240)
async def test_items_that_no_worker_would_write_are_a_problem(store: Store, shop: str) -> None:
    store.shoal("submit", shop, *QUICK, "--crawl", "shop", "--out", "items.jsonl")
    assert shoal_worker(store, "--roles", "fetch,parse") == 0
    top = store.shoal("top")
    assert (top["crawls"][0]["stages"]["sink"]["waiting"] > HALF, top["workers"], top["hosts"]) == (
        True,
        [],
        [],
    )
    assert "0 workers" in store.says("top", "--once")

    report = store.shoal("verify", code=5)
    [crawl] = report["crawls"]
    assert crawl["waiting"] == crawl["items"] > HALF
    assert "shoal worker writes them" in report["problems"][0]

    assert shoal_worker(store, "--roles", "sink") == 0
    assert store.shoal("verify")["crawls"][0]["waiting"] == 0


def shoal_worker(store: Store, *options: str) -> int:
    env = {"SHOAL_STORE": store.server.dsn, **PRIVATE, **HASTY}
    return shoal("worker", "--until-done", *options, cwd=store.folder, env=env).code


@pytest.mark.timeout(240)
async def test_doctor_reports_what_is_wrong_with_a_store_and_how_to_repair_it(store: Store) -> None:
    def checks(code: int = 0) -> dict[str, tuple[str, str]]:
        found = store.shoal("doctor", code=code)["checks"]
        return {check["name"]: (check["grade"], check["fix"]) for check in found}

    fit = checks()
    for name in ("store", "store eviction", "store memory", "store persistence", "store crawls"):
        assert fit[name] == ("ok", ""), name

    await store.server.ask("CONFIG", "SET", "appendonly", "no")
    await store.server.ask("CONFIG", "SET", "maxmemory", "0")
    frail = checks()
    assert frail["store persistence"] == ("warn", "set appendonly yes and appendfsync everysec")
    assert frail["store memory"][0] == "warn"

    await store.server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    grade, fix = checks(code=1)["store eviction"]
    assert grade == "fail"
    assert "CONFIG SET maxmemory-policy noeviction" in fix


def test_no_command_shows_the_password_of_a_store(tmp_path: Path) -> None:
    dsn = f"redis://:secret@127.0.0.1:{free_port()}?patience_s=0.1"
    for command in (("pause",), ("dlq", "list"), ("trace", "https://a.test/"), ("verify",), ("plan",)):
        ran = shoal(*command, cwd=tmp_path, env={"SHOAL_STORE": dsn})
        assert ran.code == 4
        assert "secret" not in ran.out + ran.err
    ran = shoal("doctor", "--json", cwd=tmp_path, env={"SHOAL_STORE": dsn})
    assert ran.code == 1
    assert "secret" not in ran.out
    [broken] = [check for check in ran.json["checks"] if check["grade"] == "fail"]
    assert "cannot be reached" in broken["finding"]


@pytest.mark.timeout(240)
async def test_a_full_store_can_be_inspected_and_drained(store: Store, shop: str) -> None:
    store.shoal("submit", shop, *QUICK, "--crawl", "shop", "--out", "items.jsonl")
    await store.server.ask("CONFIG", "SET", "maxmemory", 1)

    assert store.shoal("status")["crawls"][0]["counts"]["waiting"] == 1
    store.shoal("pause", "shop")
    store.shoal("resume", "shop")
    assert store.shoal("worker", "--until-done")["ending"] == "finished"

    counts = store.shoal("status")["crawls"][0]["counts"]
    assert (counts["done"], counts["dead"]) == (DONE - 1, 1)  # one page fails at first, and is not retried
    assert len((store.folder / "items.jsonl").read_text().splitlines()) == PAGES - 1


async def test_an_output_that_cannot_be_written_is_named_with_the_reason(store: Store, shop: str) -> None:
    with refusing_port() as port:
        secret = f"postgresql://shoal:hunter2@127.0.0.1:{port}/x"
        store.allowed = [f"postgresql://127.0.0.1:{port}"]
        submitted = store.says("submit", shop, *QUICK, "--crawl", "shop", "--out", secret)
        assert "items go to postgresql://shoal@127.0.0.1" in submitted
        assert "hunter2" not in submitted
        assert ".jsonl, .ndjson" in store.says("submit", shop, "--crawl", "other", "--out", "a.xlsx", code=1)
        working = store.worker()
        try:
            while [(one["kind"], one["about"]) for one in store.shoal("status")["bottlenecks"]] != [
                ("output", "shop")
            ]:
                assert working.poll() is None
            [bottleneck] = store.shoal("status")["bottlenecks"]
        finally:
            working.terminate()
            working.wait(TIMEOUT)
    assert bottleneck["text"].endswith("says: the server cannot be reached: Connection refused")
    assert "hunter2" not in bottleneck["text"]
