"""Values inside one BLOB."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from shoal.frontier.sqlite.packing import pack_ints, pack_page, unpack_ints, unpack_page
from shoal.model.page import PageRecord, PageRef


@given(st.lists(st.integers(0, 2**63 - 1)))
def test_numbers_come_back_as_they_were(numbers: list[int]) -> None:
    assert list(unpack_ints(pack_ints(numbers))) == numbers
    assert len(pack_ints(numbers)) == 8 * len(numbers)


def test_numbers_lie_little_end_first() -> None:
    assert pack_ints([1, 258]) == b"\x01" + 7 * b"\0" + b"\x02\x01" + 6 * b"\0"


@given(st.text(), st.integers(0, 2**62), st.floats(0, 1e10))
def test_a_page_comes_back_as_it_was(text: str, number: int, instant: float) -> None:
    page = PageRecord(PageRef(text, number, 7), 200, instant, 3, 4, text, text, text)
    assert unpack_page(pack_page(page)) == page


def test_a_page_that_was_packed_before_there_were_versions_is_read() -> None:
    page = PageRecord(PageRef("s", 1, 2), 200, 3.0, 4, 5, "e", "m", "d", 0.5, 6)
    earlier = msgspec.msgpack.encode(msgspec.structs.astuple(page)[:-1])
    assert unpack_page(earlier) == page
    later = msgspec.structs.replace(page, version=7)
    assert unpack_page(pack_page(later)).version == 7
