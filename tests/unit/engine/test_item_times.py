"""When items were first and last seen, and when they changed."""

import json

import pytest

from shoal.engine.generations.earlier import PageResult
from shoal.engine.generations.item_times import Times, next_times, with_times
from shoal.model.page import Item, PageRef

A, B, EDITED = Item("a", b'{"n":1}'), Item("b", b'{"n":2}'), Item("a", b'{"n":9}')


def earlier(*items: Item, times: Times) -> PageResult:
    ref = PageRef("segment", 0, 1)
    return PageResult("http://a.test/", 200, "", "", "sha1:x", ref, 0.0, b"", items, item_times=times)


@pytest.mark.parametrize(
    ("items", "known", "times"),
    [
        ([A], None, ((50, 50),)),
        ([A], earlier(A, times=((10, 20),)), ((10, 20),)),
        ([EDITED], earlier(A, times=((10, 20),)), ((10, 50),)),
        ([B, A], earlier(A, times=((10, 20),)), ((50, 50), (10, 20))),
        ([], earlier(A, times=((10, 20),)), ()),
        ([A], earlier(A, B, times=()), ((50, 50),)),  # stored without times: first seen now
    ],
)
def test_times_follow_an_item_by_its_key(items: list[Item], known: PageResult | None, times: Times) -> None:
    found = next_times(items, 50.9, known)
    assert [first for first, _ in found] == [first for first, _ in times]
    if known is None or known.item_times:
        assert found == times


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        ('{"n":1}', {"n": 1, "first_seen": "1970-01-01T00:00:10Z", "last_seen": "1970-01-01T00:00:50Z"}),
        ("{}", {"first_seen": "1970-01-01T00:00:10Z", "last_seen": "1970-01-01T00:00:50Z"}),
        ('{"first_seen":"mine"} ', {"first_seen": "mine", "last_seen": "1970-01-01T00:00:50Z"}),
    ],
)
def test_items_get_times_as_fields_unless_they_have_them(record: str, fields: dict[str, object]) -> None:
    [item] = with_times([Item("a", record.encode())], ((10, 20),), 50.9)
    assert json.loads(item.json) == {**fields, "changed_at": "1970-01-01T00:00:20Z"}
    assert item.key == "a"


def test_items_of_a_result_without_times_were_first_seen_when_it_was_checked() -> None:
    [item] = with_times([A], (), 50.0)
    assert set(json.loads(item.json).values()) == {1, "1970-01-01T00:00:50Z"}
