"""Packing integers and page records into BLOBs."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from shoal.frontier.sqlite.packing import pack_ints, pack_page, unpack_ints, unpack_page
from shoal.model.page import PageRecord, PageRef


@given(st.lists(st.integers(0, 2**63 - 1)))
def test_integers_survive_a_round_trip(numbers: list[int]) -> None:
    assert list(unpack_ints(pack_ints(numbers))) == numbers
    assert len(pack_ints(numbers)) == 8 * len(numbers)


def test_integers_are_little_endian() -> None:
    assert pack_ints([1, 258]) == b"\x01" + 7 * b"\0" + b"\x02\x01" + 6 * b"\0"


@given(st.text(), st.integers(0, 2**62), st.floats(0, 1e10))
def test_a_page_record_survives_a_round_trip(text: str, number: int, instant: float) -> None:
    page = PageRecord(PageRef(text, number, 7), 200, instant, 3, 4, text, text, text)
    assert unpack_page(pack_page(page)) == page


def test_a_page_record_without_a_version_can_be_read() -> None:
    page = PageRecord(PageRef("s", 1, 2), 200, 3.0, 4, 5, "e", "m", "d", 0.5, 6)
    earlier = msgspec.msgpack.encode(msgspec.structs.astuple(page)[:-1])
    assert unpack_page(earlier) == page
    later = msgspec.structs.replace(page, version=7)
    assert unpack_page(pack_page(later)).version == 7
