"""Which store an address names, and what opening it does."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from shoal.model.errors import Misconfigured
from shoal.model.request import Link, Request
from shoal.model.settings import Settings
from shoal.services.crawl import CrawlPlan, Stop, run_crawl
from shoal.services.inspect.status import status
from shoal.services.submit import submit_plan
from shoal.spider.source import PlainSpider
from shoal.stores.contract.store import Store
from shoal.stores.folder.directory import StoreFolder
from shoal.stores.open import (
    MEMORY,
    check_address,
    open_shared_store,
    open_store,
    public_address,
    store_exists,
)


@pytest.mark.parametrize(
    "address",
    ["shoal-data", "/data/shop", "redis://queue.example", "rediss://:pw@h:1/2?tls=1", "", "a:b", MEMORY],
)
def test_folders_servers_and_memory_are_accepted(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("redsi://:hunter2@queue.example", "no backend for 'redsi'; did you mean redis://? known: a folder"),
        ("amqp://:hunter2@queue.example", "no backend for 'amqp'; known: a folder, memory:, redis"),
        ("redis:queue.example", "redis: is followed by two slashes, as in redis://HOST"),
        ("queue.example:6379", "there is no folder queue.example:6379; a server is named redis://queue"),
        ("memory:shop", "nothing follows memory:"),
    ],
)
def test_a_misspelled_address_is_not_taken_for_a_folder(address: str, complaint: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        check_address(address)
    assert complaint in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_an_existing_folder_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop:8080").mkdir()
    check_address("shop:8080")


def test_a_public_address_has_no_password() -> None:
    assert public_address("redis://:hunter2@queue.example") == "redis://queue.example:6379"
    assert public_address("shoal-data") == "shoal-data"


def plan(address: str) -> CrawlPlan:
    return CrawlPlan(PlainSpider("shop", ("http://127.0.0.1:9/",)), Settings(store=address))


async def names(store: Store) -> list[str]:
    return await store.crawls.names()


def test_an_empty_folder_is_not_a_store(tmp_path: Path) -> None:
    assert not store_exists(str(tmp_path))
    assert store_exists("redis://queue.example")


async def test_opening_a_folder_does_not_create_a_store(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="there is no store at"):
        async with open_store(str(tmp_path / "nowhere")):
            pass
    assert not (tmp_path / "nowhere").exists()


async def test_a_memory_store_works_while_it_is_open_and_leaves_nothing() -> None:
    async with open_store(MEMORY, create=True) as store:
        assert (store.address, store.capabilities.durable) == (MEMORY, False)
        async with store.work() as owned:
            folder = owned.items.parent
            await owned.frontier.crawls.open("shop")
            await owned.frontier.add("shop", [Link.to(Request(url="http://a.test/"))])
            assert await names(store) == ["shop"]
            assert (await store.frontier.counts("shop")).waiting == 1
    assert not folder.exists()


async def test_commands_that_need_an_existing_store_refuse_memory() -> None:
    with pytest.raises(Misconfigured, match="memory: is deleted when its crawl ends"):
        await status(MEMORY)
    with pytest.raises(Misconfigured, match="workers cannot share memory:"):
        async with open_shared_store(MEMORY):
            pass


async def test_a_crawl_on_a_memory_store_needs_an_output() -> None:
    with pytest.raises(Misconfigured, match="memory: keeps no items: name an output with --out"):
        await run_crawl(plan(MEMORY), stop=Stop())


@pytest.mark.parametrize("address", ["shoal-data", MEMORY])
async def test_a_crawl_is_not_submitted_to_a_store_that_is_not_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Misconfigured, match="a fleet needs a server"):
        await submit_plan(plan(address), Stop(), full=print, during=nullcontext())
    assert os.listdir(tmp_path) == []


async def test_a_store_of_another_format_is_refused_with_one_line(tmp_path: Path) -> None:
    async with open_store(str(tmp_path), create=True) as store, store.work():
        pass
    for version, complaint in ((99, "was written by a newer Shoal"), (1, "was written by an older Shoal")):
        with closing(sqlite3.connect(StoreFolder(tmp_path).database)) as database, database:
            database.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(Misconfigured, match=complaint) as caught:
            async with open_store(str(tmp_path)):
                pass
        assert "\n" not in str(caught.value)


def test_a_folder_is_opened_without_the_packages_that_redis_needs(tmp_path: Path) -> None:
    program = """
import asyncio, sys
sys.modules["hiredis"] = None
import shoal.services.control.dead_letters, shoal.services.inspect.verify, shoal.services.reprocess.export
from shoal.services.inspect.status import status
from shoal.stores.open import open_store
async def main():
    async with open_store(sys.argv[1], create=True) as store, store.work() as owned:
        await owned.frontier.crawls.open("shop")
    print([crawl.name for crawl in (await status(sys.argv[1])).crawls])
asyncio.run(main())
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "store")], capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("['shop']\n", "")


@pytest.mark.parametrize("dsn", ["{" * 5_000, "data/" + "\u00e9" * 130])
def test_a_name_that_no_folder_can_have_is_refused(dsn: str) -> None:
    with pytest.raises(Misconfigured, match="no folder can have a name"):
        check_address(dsn)
    with pytest.raises(Misconfigured, match="no folder can have a name"):
        store_exists(dsn)
