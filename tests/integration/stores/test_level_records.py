"""The records about levels, in a folder and in Redis: what one process writes, all others see."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.servers.redis import valkey

from shoal.fetch.escalation.browser_budget import BrowserBudget, delete_spent
from shoal.fetch.escalation.learned_levels import SYNC_S, LearnedLevels, change_host, read_host
from shoal.model.levels.ladder import BROWSER, LADDER, PLAIN, Cause
from shoal.model.levels.learned import HostLevels, LevelOutcome
from shoal.stores.contract import levels
from shoal.stores.contract.levels import StoredLevels
from shoal.stores.folder import levels as folder_levels
from shoal.stores.folder.levels import FolderLevels
from shoal.stores.open import open_store
from shoal.stores.redis import levels as redis_levels


@asynccontextmanager
async def in_folder(folder: Path) -> AsyncIterator[list[StoredLevels]]:
    yield [FolderLevels(folder / "levels.db") for _ in range(2)]


@asynccontextmanager
async def in_redis(folder: Path) -> AsyncIterator[list[StoredLevels]]:
    async with (
        valkey(folder) as server,
        open_store(server.dsn, create=True) as one,
        open_store(server.dsn) as two,
    ):
        yield [one.levels, two.levels]


@pytest.fixture(params=[in_folder, in_redis], ids=["folder", "redis"])
async def records(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[StoredLevels]]:
    """The same records, as two processes have them open."""
    async with request.param(tmp_path) as opened:
        yield opened


async def test_a_record_is_replaced_only_by_a_process_that_has_seen_the_latest(
    records: list[StoredLevels],
) -> None:
    one, two = records
    assert await one.get("a.test") is None
    assert await one.swap("a.test", None, b"1")
    assert not await two.swap("a.test", None, b"2")
    assert not await two.swap("a.test", b"0", b"2")
    assert await two.get("a.test") == b"1"
    assert await two.swap("a.test", b"1", b"2")
    assert not await one.swap("a.test", b"1", None)
    assert await one.swap("a.test", b"2", None)
    assert await two.get("a.test") is None
    assert await two.swap("a.test", None, b"3")


async def test_a_reader_is_given_what_has_changed_since_it_last_asked(records: list[StoredLevels]) -> None:
    one, two = records
    assert await two.changed() == (0, {})
    await one.swap("a.test", None, b"1")
    await one.swap("b.test", None, b"1")
    first, found = await two.changed()
    assert found == {"a.test": b"1", "b.test": b"1"}
    assert await two.changed(first) == (first, {})
    await one.swap("b.test", b"1", b"2")
    second, found = await two.changed(first)
    assert (second > first, found) == (True, {"b.test": b"2"})
    await one.swap("a.test", b"1", None)
    third, found = await two.changed(second)
    assert found == {"a.test": None}
    assert (await two.changed(third))[1] == {}
    assert {key: value for key, value in (await two.changed())[1].items() if value} == {"b.test": b"2"}


async def test_a_reader_of_a_store_that_was_restored_is_told_a_smaller_number(
    records: list[StoredLevels],
) -> None:
    await records[0].swap("a.test", None, b"1")
    latest, _ = await records[1].changed(1_000_000)
    assert latest < 1_000_000


async def test_the_records_that_have_not_changed_for_longest_are_dropped(
    records: list[StoredLevels], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (levels, folder_levels, redis_levels):
        monkeypatch.setattr(module, "MAX_LEVEL_RECORDS", 3)
    for host in "abcd":
        assert await records[0].swap(host, None, b"1")
    assert await records[0].swap("b", b"1", b"2")
    assert await records[0].swap("e", None, b"1")
    _, found = await records[1].changed()
    assert found == {"d": b"1", "b": b"2", "e": b"1"}
    assert await records[0].get("c") is None


def shell() -> LevelOutcome:
    return LevelOutcome(PLAIN, Cause.EMPTY_SHELL, "an empty page")


async def test_what_one_process_learns_all_others_know(records: list[StoredLevels]) -> None:
    one, two = map(LearnedLevels, records)
    await two.sync()
    assert one.observe("a.test", "/fish/*", shell(), LADDER).level == BROWSER
    await one.sync()
    two._synced_at = -SYNC_S
    await two.sync()
    assert two.at("a.test", "/fish/*").level == BROWSER
    two.observe("a.test", "/birds/*", shell(), LADDER)
    two.observe("a.test", "/fish/*", LevelOutcome(BROWSER, count=3), LADDER)
    await two.sync(force=True)
    # A process that starts later, as the next run does, knows both.
    later = LearnedLevels(records[0])
    await later.sync()
    assert [later.at("a.test", pattern).level for pattern in ("/fish/*", "/birds/*")] == [BROWSER, BROWSER]
    assert later.at("a.test", "/fish/*").good == 3


async def test_what_many_see_at_once_adds_up(records: list[StoredLevels]) -> None:
    async def see(number: int) -> None:
        learned = LearnedLevels(records[number % 2])
        learned.observe("a.test", "/fish/*", shell(), LADDER)
        for _ in range(5):
            learned.observe("a.test", "/fish/*", LevelOutcome(BROWSER, count=2), LADDER)
            for _ in range(100):
                await learned.sync(force=True)
                if not learned._pending:
                    break

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(see(number))
    assert read_host("a.test", await records[0].get("a.test")).patterns["/fish/*"].good == 40


async def test_an_operator_sets_a_level_for_all_and_resets_what_was_learned(
    records: list[StoredLevels],
) -> None:
    learned = LearnedLevels(records[0])
    learned.observe("a.test", "/fish/*", shell(), LADDER)
    await learned.sync(force=True)
    await change_host(records[1], "a.test", lambda known: msgspec.structs.replace(known, pin=PLAIN))
    learned._synced_at = -SYNC_S
    await learned.sync()
    assert (learned.pin("a.test"), learned.at("a.test", "/fish/*").level) == (PLAIN, BROWSER)
    await change_host(records[1], "a.test", lambda _: HostLevels())
    learned._synced_at = -SYNC_S
    await learned.sync()
    assert (learned.pin("a.test"), learned.at("a.test", "/fish/*").level) == ("", PLAIN)
    assert await records[0].get("a.test") is None


async def test_the_pages_of_all_workers_count_towards_the_budget(records: list[StoredLevels]) -> None:
    budgets = [BrowserBudget("c", one, per_crawl=5, per_host=4) for one in records]
    for number, budget in enumerate(budgets):
        for _ in range(2):
            budget.count("a.test")
        assert not budget.spent("b.test")
        await budget.sync(force=True)
        assert bool(budget.spent("a.test")) is (number == 1)
    budgets[1].count("b.test")
    assert budgets[1].spent("b.test") == "crawl.browser_pages"
    await delete_spent(records[0], "c")
    fresh = BrowserBudget("c", records[0], per_crawl=5)
    await fresh.sync()
    assert not fresh.spent("a.test")


async def test_damaged_records_count_as_unknown(records: list[StoredLevels]) -> None:
    await records[0].swap("a.test", None, b"\xff junk")
    await records[0].swap("c/crawl", None, b"\xff junk")
    learned, budget = LearnedLevels(records[1]), BrowserBudget("crawl", records[1], per_crawl=1)
    await learned.sync()
    await budget.sync()
    assert learned.at("a.test", "/").level == PLAIN
    assert not budget.spent("a.test")
    learned.observe("a.test", "/", shell(), LADDER)
    budget.count("a.test")
    await learned.sync(force=True)
    await budget.sync(force=True)
    assert read_host("a.test", await records[0].get("a.test")).at("/").level == BROWSER
