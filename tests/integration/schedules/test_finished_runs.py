"""When a run in a fleet counts as done: its workers have written its outputs, and found no fault with them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.servers.redis import valkey

from shoal.model.outcome import Dead, Done
from shoal.model.yields.counts import DROPPED, NO_DATA, YieldDrop, dump
from shoal.redis_client import key_names
from shoal.services.schedules.launch import CommandLauncher, LaunchRules
from shoal.sinks.fleet.writer import item_streams
from shoal.spider.source import PlainSpider
from shoal.stores.contract.crawl_record import CrawlRecord
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store
from shoal.testing.contracts.frontier.bench import TIMEOUT, UNLIMITED, link, page, settle, take

OUTPUT = "/data/items-1.jsonl"
DROP = YieldDrop(
    kind="field", handler="product", field="price", before=12, before_of=12, after=0, after_of=12
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with valkey(tmp_path / "server") as server, open_store(server.dsn, create=True) as opened:
        yield opened


async def crawled(store: Store, name: str, *, dead: int = 0) -> int:
    """Crawl a page that is done, and some that are dead; return the number of the crawl."""
    settings = {"crawl": {"max_dead": 1}}
    record = CrawlRecord(name=name, source=PlainSpider(name, ()), settings=settings, outputs=(OUTPUT,))
    frontier = store.fleet.frontier
    await store.fleet.crawls.submit(record)
    await frontier.crawls.open(name, pace=UNLIMITED)
    await frontier.add(name, [link(f"{name}/{number}") for number in range(dead + 1)])
    for number, lease in enumerate(await take(frontier, crawls=[name])):
        await settle(frontier, lease, Dead(TIMEOUT) if number else Done(page()))
    return await frontier.reader.number(name)


async def test_a_run_is_finished_when_its_outputs_are_and_failed_when_its_workers_have_found_a_fault(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, client = CommandLauncher(store, "", LaunchRules()), store.fleet.client
    number = await crawled(store, "shop")
    tag = client.tag(number % client.shards)
    entry = key_names.items(tag, crawl=number)
    await client.do(tag, "XADD", entry, "*", "items", b"")
    assert await item_streams(client, number).length()
    assert not await launcher.is_finished("shop")  # a page is in the store alone
    await client.do(tag, "DEL", entry)
    writer = key_names.writer(tag, number)
    await client.do(tag, "HSET", writer, f"holder {OUTPUT}", "w")
    assert not await launcher.is_finished("shop")  # its writer has not finished it
    await client.do(tag, "HDEL", writer, f"holder {OUTPUT}")
    assert not await launcher.is_finished("shop")  # no worker has judged its items

    crawls = store.fleet.frontier.crawls
    for fault, values in (
        ("", {DROPPED: b"", NO_DATA: b""}),
        (DROP.text, {DROPPED: dump((DROP,)), NO_DATA: b""}),
        ("no item was found", {DROPPED: b"", NO_DATA: b"no item was found"}),
    ):
        await crawls.store_values("shop", number, values)
        assert await launcher.is_finished("shop")
        assert await launcher.failure("shop") == fault

    await crawled(store, "down", dead=2)
    assert await launcher.is_finished("down")  # workers leave its outputs alone, and judge nothing
    assert "more dead letters (2)" in await launcher.failure("down")
    await store.crawls.delete("down")
    assert await launcher.is_finished("down")
    assert await launcher.failure("down") == ""

    await crawled(store, "unjudged")
    assert not await launcher.is_finished("unjudged")
    monkeypatch.setattr("shoal.services.schedules.launch.VERDICT_S", 0.0)
    assert await launcher.is_finished("unjudged")  # there is no worker that would judge it
