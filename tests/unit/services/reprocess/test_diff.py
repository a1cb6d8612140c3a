"""What counts as added, removed and changed."""

import json

from shoal.services.reprocess.diff import EXAMPLES, Differences

URL = "https://a.test/"


def lines(*items: dict[str, object]) -> list[bytes]:
    return [json.dumps(item).encode() for item in items]


def test_items_without_a_key_are_matched_by_their_order() -> None:
    found = Differences()
    found.note(URL, lines({"a": 1}, {"a": 2}), lines({"a": 1}, {"a": 3}, {"a": 4}), ())

    assert (found.items_changed, found.items_added, found.items_removed) == (1, 1, 0)
    assert found.fields["a"].changed == 1


def test_items_with_a_key_are_matched_by_it_wherever_they_are() -> None:
    found = Differences()
    before = lines({"id": 1, "a": 1}, {"id": 2, "a": 2})
    found.note(URL, before, lines({"id": 2, "a": 2}, {"id": 3, "a": 1}), ["id"])

    assert (found.items_changed, found.items_added, found.items_removed) == (0, 1, 1)
    assert not found.fields


def test_a_key_that_not_every_item_has_is_no_help() -> None:
    found = Differences()
    found.note(URL, lines({"id": 1, "a": 1}), lines({"a": 1}), ["id"])
    assert found.fields["id"].removed == found.items_changed == 1


def test_the_order_of_fields_and_the_spelling_of_json_are_no_difference() -> None:
    found = Differences()
    found.note(URL, [b'{"a":1,"b":2}'], [b'{ "b": 2, "a": 1 }'], ())
    assert not found
    assert (found.items_before, found.items_after) == (1, 1)


def test_a_field_that_becomes_null_is_changed_and_not_removed() -> None:
    found = Differences()
    found.note(URL, lines({"a": 1}), lines({"a": None}), ())
    assert (found.fields["a"].changed, found.fields["a"].removed) == (1, 0)


def test_examples_are_a_few_however_many_pages_differ() -> None:
    found = Differences()
    for n in range(10):
        found.note(f"{URL}{n}", lines({"a": n}), lines({"a": -n - 1}), ())
    assert found.pages_changed == found.fields["a"].changed == 10
    assert [example.url for example in found.fields["a"].examples] == [f"{URL}{n}" for n in range(EXAMPLES)]
