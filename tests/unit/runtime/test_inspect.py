"""Looking into a store from outside."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Settlement
from shoal.model.pace import Pace
from shoal.model.request import Link, Request
from shoal.runtime.inspect import dead_letters, replay, status
from shoal.stores.folder import StoreFolder

NO_LIMIT = Pace(interval=0.0, burst=100, concurrency=100)


async def store_with_dead(folder: StoreFolder, crawls: dict[str, Sequence[tuple[str, FailureClass]]]) -> None:
    """Make a store in which every request has been given up."""
    with folder.owned():
        async with SqliteFrontier.open(folder.database) as frontier:
            for crawl, letters in crawls.items():
                await frontier.open_crawl(crawl, pace=NO_LIMIT)
                for url, kind in letters:
                    await frontier.add(crawl, [Link.to(Request(url=url))])
                    grant = await frontier.lease(holder="test", limit=1, ttl=60.0)
                    [lease] = grant.leases
                    await frontier.settle([Settlement(lease, Dead(Failure(kind, "because")))])


@pytest.fixture
async def folder(tmp_path: Path) -> StoreFolder:
    folder = StoreFolder(tmp_path / "store")
    dns, timeout = FailureClass.DNS, FailureClass.TIMEOUT
    await store_with_dead(
        folder,
        {
            "one": [("http://a.test/1", dns), ("http://a.test/2", timeout), ("http://b.test/", timeout)],
            "two": [("http://a.test/1", timeout)],
        },
    )
    return folder


async def test_status_counts_every_crawl_and_knows_whether_the_store_is_in_use(folder: StoreFolder) -> None:
    found = await status(str(folder.path))

    assert [(crawl.name, crawl.accepted, crawl.counts["dead"]) for crawl in found.crawls] == [
        ("one", 3, 3),
        ("two", 1, 1),
    ]
    assert found.crawls[0].dead_by_class == {"dns": 1, "timeout": 2}
    assert found.owner is None
    with folder.owned():
        owner = (await status(str(folder.path))).owner
    assert owner is not None
    assert owner.startswith("process ")


async def test_dead_letters_are_filtered_and_the_latest_comes_first(folder: StoreFolder) -> None:
    store = str(folder.path)

    latest = await dead_letters(store, None, limit=2)
    assert [(letter.crawl, letter.request.url) for letter in latest] == [
        ("two", "http://a.test/1"),
        ("one", "http://b.test/"),
    ]
    of_host = await dead_letters(store, "one", kind=FailureClass.TIMEOUT, host="a.test", limit=10)
    assert [letter.request.url for letter in of_host] == ["http://a.test/2"]


async def test_replay_puts_back_what_was_chosen_and_no_more_than_the_limit(folder: StoreFolder) -> None:
    store = str(folder.path)

    assert await replay(store, None, kind=FailureClass.TIMEOUT, limit=2) == 2
    assert await replay(store, "two") == 1
    assert {crawl.name: crawl.counts["waiting"] for crawl in (await status(store)).crawls} == {
        "one": 2,
        "two": 1,
    }


async def test_replay_is_refused_while_somebody_has_the_store(folder: StoreFolder) -> None:
    with folder.owned(), pytest.raises(Unavailable, match="in use by process"):
        await replay(str(folder.path), None)


async def test_a_store_or_crawl_that_is_not_there_is_not_made(folder: StoreFolder, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="no store"):
        await replay(str(tmp_path / "nowhere"), None)
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(Misconfigured, match="no crawl named 'three'"):
        await replay(str(folder.path), "three")
