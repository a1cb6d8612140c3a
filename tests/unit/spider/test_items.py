"""Items: everything a handler may yield becomes one line of JSON, or is refused by the name of its field."""

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model.errors import Rejected
from shoal.model.scope import KeyScheme
from shoal.spider.html.lexbor import LexborDocument
from shoal.spider.items import encode_item


def as_json(value: object) -> Any:
    line = encode_item(value, (), "k").json
    assert b"\n" not in line
    return json.loads(line)


@dataclass
class Dimensions:
    width: float
    tags: list[str] = field(default_factory=list)


class Struct(msgspec.Struct):
    name: str
    size: Dimensions


class Model(pydantic.BaseModel):
    name: str
    when: datetime


class Colour(Enum):
    RED = "red"


def test_dicts_dataclasses_structs_and_pydantic_models_are_items() -> None:
    assert as_json({"a": 1}) == {"a": 1}
    assert as_json(Dimensions(1.5, ["x"])) == {"width": 1.5, "tags": ["x"]}
    assert as_json(Struct("n", Dimensions(2.0))) == {"name": "n", "size": {"width": 2.0, "tags": []}}
    assert as_json(Model(name="n", when=datetime(2026, 1, 2, tzinfo=UTC))) == {
        "name": "n",
        "when": "2026-01-02T00:00:00+00:00",
    }


def test_fields_keep_their_order() -> None:
    assert list(as_json({"z": 1, "a": 2, "m": 3})) == ["z", "a", "m"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime.max, "9999-12-31T23:59:59.999999"),
        (date(2026, 2, 3), "2026-02-03"),
        (timedelta(minutes=1), 60.0),
        (Decimal("1.50"), "1.50"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"\x00\xff", "AP8="),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        ((1, 2), [1, 2]),
        (Colour.RED, "red"),
        (-(2**63), -(2**63)),
        ("\u2028\x00", "\u2028\x00"),
        ([{"a": [None, True]}], [{"a": [None, True]}]),
    ],
)
def test_types_that_json_lacks_are_converted(value: object, expected: object) -> None:
    assert as_json({"field": value}) == {"field": expected}


def cyclic() -> dict[str, Any]:
    item: dict[str, Any] = {"a": {}}
    item["a"]["b"] = item
    return item


@pytest.mark.parametrize(
    ("item", "complaint"),
    [
        ({"price": float("nan")}, "field price: nan"),
        ({"a": {"b": [1, float("inf")]}}, r"field a.b\[1\]: inf"),
        ({"n": Decimal("NaN")}, "field n: NaN"),
        ({"big": 2**70}, "field big: .* 64 bits"),
        ({"big": 1 << 100_000}, "field big: an integer does not fit"),
        ({1: "x"}, "1 is not a field name"),
        ({"a": {None: "x"}}, "in field a: None is not a field name"),
        ({"": "x"}, "has no name"),
        ({}, "no fields"),
        ({f"f{n}": n for n in range(1001)}, "1001 fields"),
        (cyclic(), "in a cycle"),
        ({"f": object()}, "field f: a object cannot be written"),
        ({"f": print}, "field f"),
        ({"title": LexborDocument("<h1>x").css("h1")}, r"field title: .* add .get\(\) or .getall\(\)"),
        ({"title": LexborDocument("<h1>x").css("h1")[0]}, r"field title: .* add .get\(\)"),
    ],
)
def test_values_that_json_would_lose_are_refused_with_the_field(item: dict[Any, Any], complaint: str) -> None:
    with pytest.raises(Rejected, match=complaint):
        encode_item(item, (), "k")


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert as_json({"a\udc00": ["x\ud800y", {"b": "\udfff"}], "n": 1}) == {"a?": ["x?y", {"b": "?"}], "n": 1}


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(min_size=1), values, min_size=1, max_size=5))
def test_values_that_json_can_hold_are_unchanged(item: dict[str, Any]) -> None:
    assert as_json(item) == item


def test_an_item_without_key_fields_takes_the_key_it_is_given() -> None:
    assert encode_item({"a": 1}, (), "00abc-3").key == "00abc-3"


@pytest.mark.parametrize(
    ("fields", "key", "plain"),
    [
        (("sku",), "B-7", "B-7"),
        (("sku", "size"), '=["B-7",2]', '["B-7",2]'),
        (("size",), "=[2]", "2"),
        (("shop", "sku"), '=["a","B-7"]', '["a","B-7"]'),
    ],
)
def test_key_fields_identify_an_item(fields: tuple[str, ...], key: str, plain: str) -> None:
    item = {"sku": "B-7", "size": 2, "shop": "a"}
    assert encode_item(item, fields, "unused").key == key
    assert encode_item(item, fields, "unused", KeyScheme.PLAIN).key == plain


# In the scheme of older crawls, some of these have one key.
DISTINCT = [
    *(
        1,
        "1",
        "=1",
        "=[1]",
        '=["1"]',
        [1],
        "[1]",
        ["1"],
        '["1"]',
        1.0,
        "1.0",
        True,
        "true",
        {"a": 1},
        '{"a":1}',
    ),
    *(
        "\ud800",
        "\ud801",
        "?",
        "\udfff\ud800",
        "a\0",
        "a\\0",
        "\\ud800",
        '=["\\ud800"]',
        [["\ud800"]],
        "=",
        "==",
    ),
    *("0123456789abcdef-0", "0123456789ABCDEF-0", '=["0123456789abcdef-0"]', "é", "e\u0301"),
]


def test_different_values_have_different_keys() -> None:
    keys = [encode_item({"k": value}, ("k",), "unused").key for value in DISTINCT]
    keys += [encode_item({"k": value, "l": 1}, ("k", "l"), "unused").key for value in DISTINCT]
    keys.append("0123456789abcdef-0")  # of an item without key fields
    assert len(set(keys)) == len(keys)
    for key in keys:
        assert "\0" not in key.encode().decode()


def test_the_order_of_an_objects_fields_does_not_change_its_key() -> None:
    one, other = ({"k": {"a": 1, "b": 2}}, {"k": {"b": 2, "a": 1}})
    assert encode_item(one, ("k",), "").key == encode_item(other, ("k",), "").key == '=[{"a":1,"b":2}]'


@given(st.lists(values.filter(lambda value: value not in (None, "")), min_size=2, max_size=2))
def test_keys_are_equal_only_for_equal_values(pair: list[Any]) -> None:
    one, other = (encode_item({"k": value}, ("k",), "") for value in pair)
    same_value = msgspec.json.encode(pair[0], order="sorted") == msgspec.json.encode(pair[1], order="sorted")
    assert (one.key == other.key) == same_value


@pytest.mark.parametrize("item", [{"title": "x"}, {"sku": None}, {"sku": ""}])
def test_an_item_without_its_key_is_refused(item: dict[str, Any]) -> None:
    with pytest.raises(Rejected, match=r"key field sku is (missing|empty)"):
        encode_item({"title": "x", **item}, ("sku",), "k")
