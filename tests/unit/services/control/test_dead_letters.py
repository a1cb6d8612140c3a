"""Dead letters from outside a crawl: chosen, replayed, purged."""

import re
from dataclasses import replace as changed
from pathlib import Path

import pytest
from tests.unit.services.stores import four_letters

from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.failure import FailureClass
from shoal.services.control.dead_letters import (
    DeadLetter,
    DeadLetterFilter,
    dead_letters,
    find_letters,
    page_of_letters,
    purge,
    replay,
)
from shoal.services.inspect.status import status
from shoal.stores.folder.directory import StoreFolder

TIMEOUT = FailureClass.TIMEOUT


@pytest.fixture
async def store(tmp_path: Path) -> str:
    folder = StoreFolder(tmp_path / "store")
    await four_letters(folder)
    return str(folder.path)


async def listed(store: str, choice: DeadLetterFilter) -> list[tuple[str, str]]:
    return [(letter.crawl, letter.request.url) for letter in await dead_letters(store, choice)]


async def test_letters_are_filtered_and_the_latest_comes_first(store: str) -> None:
    assert await listed(store, DeadLetterFilter(limit=2)) == [
        ("two", "http://a.test/1"),
        ("one", "http://b.test/"),
    ]
    of_host = DeadLetterFilter("one", kind=TIMEOUT, host="a.test")
    assert await listed(store, of_host) == [("one", "http://a.test/2")]
    assert await listed(store, DeadLetterFilter(match=re.compile(r"/\d$"), limit=2)) == [
        ("two", "http://a.test/1"),
        ("one", "http://a.test/2"),
    ]


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
async def test_pages_of_letters_join_to_the_whole_list(store: str, limit: int) -> None:
    whole = await dead_letters(store, DeadLetterFilter())
    assert await joined(store, DeadLetterFilter(), limit) == whole
    assert await joined(store, DeadLetterFilter(), limit, max_s=-1.0) == whole  # each call looks at one
    chosen = DeadLetterFilter(kind=TIMEOUT, host="a.test")
    assert await joined(store, chosen, limit, max_s=-1.0) == await dead_letters(store, chosen)
    assert await joined(store, DeadLetterFilter(older=3600.0), limit) == []
    assert await joined(store, DeadLetterFilter(newer=3600.0), limit) == whole


async def joined(store: str, choice: DeadLetterFilter, limit: int, max_s: float = 10.0) -> list[DeadLetter]:
    found: list[DeadLetter] = []
    after, calls = None, 0
    while calls == 0 or after is not None:
        page = await page_of_letters(store, choice, after=after, limit=limit, max_s=max_s)
        assert len(page.letters) <= limit
        assert page.searched <= 1 or max_s > 0
        found += page.letters
        after, calls = page.after, calls + 1
    return found


async def test_letters_are_chosen_by_age(store: str) -> None:
    assert len(await listed(store, DeadLetterFilter(newer=3600.0))) == 4
    assert await listed(store, DeadLetterFilter(older=3600.0)) == []
    [letter, *_] = await dead_letters(store, DeadLetterFilter())
    choice = DeadLetterFilter(older=10.0, newer=20.0)
    assert [choice.takes(letter, letter.died_at + age) for age in (9.0, 10.0, 20.0, 21.0)] == [
        False,
        True,
        True,
        False,
    ]


async def test_a_letter_is_found_by_trace_and_by_url_however_it_is_written(store: str) -> None:
    [letter] = await dead_letters(store, DeadLetterFilter("one", host="b.test"))

    assert await find_letters(store, None, letter.trace) == [letter]
    assert await find_letters(store, None, "HTTP://B.test") == [letter]
    assert [found.crawl for found in await find_letters(store, None, "http://a.test/1")] == ["one", "two"]
    assert await find_letters(store, "two", letter.trace) == []


@pytest.mark.parametrize("apply", [replay, purge])
async def test_chosen_letters_are_removed_up_to_the_limit(apply: object, store: str) -> None:
    assert callable(apply)
    assert await apply(store, DeadLetterFilter(kind=TIMEOUT, limit=2)) == 2
    assert await apply(store, DeadLetterFilter(older=3600.0)) == 0
    assert await apply(store, DeadLetterFilter(match=re.compile("a[.]test/1$"), limit=1)) == 1
    assert await listed(store, DeadLetterFilter()) == [("two", "http://a.test/1")]
    assert await apply(store, DeadLetterFilter("two")) == 1
    assert await listed(store, DeadLetterFilter()) == []


async def test_replayed_letters_wait_and_purged_ones_stay_counted(store: str) -> None:
    await replay(store, DeadLetterFilter("one"))
    await purge(store, DeadLetterFilter("two"))

    one, two = (await status(store)).crawls
    assert (one.counts["waiting"], one.counts["dead"]) == (3, 0)
    assert (two.counts["waiting"], two.counts["dead"], two.dead_by_class) == (0, 1, {"timeout": 1})


@pytest.mark.parametrize("apply", [replay, purge])
async def test_nothing_changes_while_another_process_owns_the_store(apply: object, store: str) -> None:
    assert callable(apply)
    with StoreFolder(Path(store)).owned(), pytest.raises(Unavailable, match="in use by process"):
        await apply(store, DeadLetterFilter())


async def test_a_missing_store_or_crawl_is_not_created(store: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="no store"):
        await replay(str(tmp_path / "nowhere"), DeadLetterFilter())
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(Misconfigured, match="no crawl named 'three'"):
        await replay(store, DeadLetterFilter("three"))


def test_a_filter_without_conditions_takes_everything() -> None:
    assert DeadLetterFilter() == DeadLetterFilter(limit=None)
    assert changed(DeadLetterFilter(), host="a.test") != DeadLetterFilter()
