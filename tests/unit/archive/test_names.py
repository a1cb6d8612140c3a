from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.archive.names import SegmentName, file_name
from shoal.model.errors import Rejected

NAME = SegmentName(date(2025, 11, 15), 7, "books")


def test_a_name_contains_crawl_day_and_number() -> None:
    assert str(NAME) == "books-20251115-00007.warc.gz"
    assert SegmentName.parse("books-20251115-00007.warc.gz") == NAME


def test_numbers_restart_each_day_and_never_decrease() -> None:
    assert str(NAME.following(date(2025, 11, 15))) == "books-20251115-00008.warc.gz"
    assert str(NAME.following(date(2025, 11, 16))) == "books-20251116-00001.warc.gz"
    assert str(NAME.following(date(2025, 11, 14))) == "books-20251115-00008.warc.gz"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "books.warc.gz",
        "../books-20251115-00007.warc.gz",
        "/etc/books-20251115-00007.warc.gz",
        "books-20251315-00007.warc.gz",
        "books-20251115-00007.warc.gz\n",
        "books-２０251115-00007.warc.gz",
    ],
)
def test_other_strings_are_rejected(name: str) -> None:
    with pytest.raises(Rejected):
        SegmentName.parse(name)


@given(st.text(), st.dates(), st.integers(1, 99_999))
def test_any_crawl_can_be_part_of_a_file_name(crawl: str, day: date, number: int) -> None:
    try:
        crawl.encode()
    except UnicodeEncodeError:
        return
    name = SegmentName(day, number, file_name(crawl))

    spelled = str(name)

    if day.year >= 1000:
        assert SegmentName.parse(spelled) == name
    assert len(spelled) <= 255
    assert "/" not in spelled
    assert not spelled.startswith(".")


def test_different_crawls_have_different_file_names() -> None:
    crawls = ["a", "A", "a/b", "a%2Fb", "", "x" * 200, "x" * 201, "ä", ".", ".."]

    assert len({file_name(crawl) for crawl in crawls}) == len(crawls)
