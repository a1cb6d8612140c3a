"""What changed between two generations: tables of what there was and what there is."""

import json

import pytest

from shoal.frontier.generations import Generation, split_generations
from shoal.model.errors import Misconfigured
from shoal.model.generations.page_history import PageFate, PageHistory
from shoal.model.page import Item, PageRef
from shoal.services.reprocess.compare import ItemComparison, UrlChange, compare_url
from shoal.services.reprocess.generations import choose_generations, kind_of

REF = PageRef("segment", 0, 1)
DONE = PageHistory(status=200, result=REF, checks=1, changes=0)
CHECKED = PageHistory(status=200, result=REF, checks=2, changes=0)
EDITED = PageHistory(status=200, result=REF, checks=2, changes=1)
GONE = PageHistory(PageFate.GONE, 404)
DEAD = PageHistory(PageFate.DEAD, 500)


@pytest.mark.parametrize(
    ("before", "after", "finished", "change"),
    [
        (None, DONE, True, UrlChange.APPEARED),
        (GONE, DONE, True, UrlChange.APPEARED),
        (DEAD, DONE, True, None),
        (DONE, CHECKED, True, None),
        (DONE, EDITED, True, UrlChange.CHANGED),
        (DONE, GONE, True, UrlChange.GONE),
        (DONE, None, True, UrlChange.UNLINKED),
        (DONE, None, False, UrlChange.OPEN),
        (DONE, DEAD, True, UrlChange.FAILED),
        (GONE, GONE, True, None),
        (GONE, None, True, None),
        (DEAD, GONE, True, None),
        (None, GONE, True, None),
    ],
)
def test_what_has_become_of_a_url(
    before: PageHistory | None, after: PageHistory | None, finished: bool, change: UrlChange | None
) -> None:
    assert compare_url(before, after, finished=finished) is change


def items(**records: dict[str, object]) -> list[Item]:
    return [Item(key, json.dumps(record).encode()) for key, record in records.items()]


def places(*texts: str) -> list[Item]:
    """Return items without key fields, as a page has them."""
    return [Item(f"00000000000000aa-{n}", json.dumps({"t": text}).encode()) for n, text in enumerate(texts)]


def compared(comparison: ItemComparison) -> list[tuple[str, str]]:
    return [(kind_of(one), one.key) for one in comparison.changes()]


def test_items_are_compared_by_key_and_field() -> None:
    comparison = ItemComparison()
    before = items(a={"price": 1, "name": "x"}, b={"price": 2}, c={"price": 3})
    after = items(a={"price": 9, "stock": 1}, b={"price": 2}, d={"price": 4})
    comparison.add_page("http://a.test/", before, after)

    assert compared(comparison) == [("changed", "a"), ("vanished", "c"), ("appeared", "d")]
    [changed, *_] = comparison.changes()
    assert changed.fields == {"price": (1, 9), "name": ("x", None), "stock": (None, 1)}


def test_an_item_that_moves_to_another_page_has_not_vanished() -> None:
    comparison = ItemComparison()
    comparison.add_page("http://a.test/1", items(a={"n": 1}, b={"n": 2}), items(a={"n": 1}))
    comparison.add_page("http://a.test/2", [], items(b={"n": 3}))

    assert compared(comparison) == [("changed", "b")]


def test_an_item_that_another_page_still_has_has_not_vanished() -> None:
    comparison = ItemComparison()
    comparison.add_page("http://a.test/1", items(a={"n": 1}, b={"n": 2}), items(c={"n": 3}))
    assert comparison.doubtful == {"a", "b", "c"}
    comparison.add_unchanged("http://a.test/2", items(a={"n": 1}, z={"n": 9}), comparison.doubtful)

    assert compared(comparison) == [("vanished", "b"), ("appeared", "c")]


def test_an_item_without_a_key_that_is_inserted_changes_no_other() -> None:
    comparison = ItemComparison()
    comparison.add_page("http://a.test/", places("one", "two", "two"), places("new", "one", "two", "two"))
    assert [(one.before, one.after) for one in comparison.changes()] == [(None, {"t": "new"})]
    assert comparison.doubtful == set()

    removed = ItemComparison()
    removed.add_page("http://a.test/", places("one", "two", "two"), places("one", "two"))
    assert [(one.before, one.after) for one in removed.changes()] == [({"t": "two"}, None)]


KNOWN = [Generation(3), Generation(4), Generation(6, finished=False)]


@pytest.mark.parametrize(
    ("before", "after", "chosen"),
    [(None, None, (4, 6)), (3, None, (3, 6)), (None, 4, (3, 4)), (3, 4, (3, 4))],
)
def test_which_generations_are_compared(
    before: int | None, after: int | None, chosen: tuple[int, int]
) -> None:
    first, second = choose_generations("c", KNOWN, before, after)
    assert (first.number, second.number) == chosen


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [(None, 3, "nothing to compare"), (5, None, "no generation 5"), (4, 3, "the earlier one")],
)
def test_generations_that_cannot_be_compared(before: int | None, after: int | None, reason: str) -> None:
    with pytest.raises(Misconfigured, match=reason):
        choose_generations("c", KNOWN, before, after)


@pytest.mark.parametrize(
    ("finished", "keep", "kept"),
    [
        ([True, True, True], 1, [3]),
        ([True, True, True], 2, [2, 3]),
        ([True, True, False], 1, [2, 3]),
        ([True, False, False], 1, [2, 3]),
        ([True, False, True, False], 2, [1, 2, 3, 4]),
        ([True, True], 0, []),
        ([], 3, []),
    ],
)
def test_which_generations_are_kept(finished: list[bool], keep: int, kept: list[int]) -> None:
    earlier = [Generation(number, finished=one) for number, one in enumerate(finished, start=1)]
    stay, dropped = split_generations(earlier, keep)
    assert [one.number for one in stay] == kept
    assert [*dropped, *stay] == earlier
