"""Deleting a crawl: nothing of it stays in its store, and no process that works on it is disturbed."""

from pathlib import Path

import pytest
from tests.unit.services.stores import four_letters

from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.errors import Misconfigured
from shoal.services.control.delete import open_deletion
from shoal.services.inspect.status import status
from shoal.stores.contract.checkpoints import archive_key, sinks_key
from shoal.stores.contract.heartbeat import CrawlActivity, Heartbeat, OutputActivity
from shoal.stores.contract.store import StoreBusy
from shoal.stores.folder.directory import StoreFolder
from shoal.stores.redis.store import busy_workers, serves


@pytest.fixture
async def folder(tmp_path: Path) -> StoreFolder:
    folder = StoreFolder(tmp_path / "store")
    await four_letters(folder)
    return folder


async def test_a_crawl_of_a_folder_is_deleted_and_the_others_stay(folder: StoreFolder) -> None:
    with folder.owned():
        async with SqliteFrontier.open(folder.database) as frontier:
            await frontier.commit(
                checkpoints={archive_key("one"): b"1", sinks_key("two"): b"2", "one/other": b"3"}
            )
    folder.rejects_file("one").write_text("{}\n")

    async with open_deletion(str(folder.path), "one") as found:
        goes = found.footprint
        await found.delete()

    assert (goes.accepted, goes.open, goes.dead) == (3, 0, 3)
    assert goes.outputs == (str(folder.rejects_file("one")),)
    assert folder.rejects_file("one").exists()
    assert goes.archive == str(folder.archive / "one")
    [left] = (await status(str(folder.path))).crawls
    assert (left.name, left.counts["dead"]) == ("two", 1)
    async with SqliteFrontier.peek(folder.database) as reader:
        assert await reader.checkpoint(archive_key("one")) is None
        assert await reader.checkpoint(sinks_key("two")) == b"2"
        assert (await reader.audit("two")).problems == []


async def test_a_missing_crawl_is_not_deleted(folder: StoreFolder) -> None:
    with pytest.raises(Misconfigured, match="no crawl named 'oen'; did you mean one"):
        async with open_deletion(str(folder.path), "oen"):
            pass
    with pytest.raises(Misconfigured, match="no crawl named 'shop'; shoal status lists"):
        async with open_deletion(str(folder.path), "shop"):
            pass
    nowhere = folder.path / "nowhere"
    with pytest.raises(Misconfigured):
        async with open_deletion(str(nowhere), "one"):
            pass
    assert not nowhere.exists()


async def test_a_folder_that_another_process_owns_is_not_changed(folder: StoreFolder) -> None:
    with folder.owned(), pytest.raises(StoreBusy, match="in use by process"):
        async with open_deletion(str(folder.path), "one"):
            pass
    async with open_deletion(str(folder.path), "one") as found:
        with folder.owned(), pytest.raises(StoreBusy, match="in use by process"):  # after the lookup
            await found.delete()
    assert len((await status(str(folder.path))).crawls) == 2


def beat(worker: str, *crawls: CrawlActivity, outputs: tuple[OutputActivity, ...] = ()) -> Heartbeat:
    return Heartbeat(
        worker=worker,
        host="node",
        pid=1,
        roles=("fetch",),
        shoal="1",
        started_at=0.0,
        beaten_at=0.0,
        doing="working",
        crawls=crawls,
        outputs=outputs,
    )


def test_workers_of_a_paused_crawl_are_busy_only_with_pages_in_progress() -> None:
    waiting = beat("waiting", CrawlActivity("shop", "", 0, 9, 0.0))
    fetching = beat("fetching", CrawlActivity("shop", "", 1, 9, 0.0))
    parsing = beat("parsing", CrawlActivity("shop", "", 0, 9, 0.0, parsing=2))
    elsewhere = beat("elsewhere", CrawlActivity("other", "", 5, 9, 1.0))
    writing = beat("writing", outputs=(OutputActivity("shop", "shop.jsonl", "writing"),))
    standby = beat("standby", outputs=(OutputActivity("shop", "shop.jsonl", "standby"),))  # vocabulary: ok
    fleet = [waiting, fetching, parsing, elsewhere, writing, standby]

    assert busy_workers("shop", fleet, paused=False) == ["waiting", "fetching", "parsing", "writing"]
    assert busy_workers("shop", fleet, paused=True) == ["fetching", "parsing", "writing"]
    assert [serves("shop", [one]) for one in fleet] == [True, True, True, False, True, True]
