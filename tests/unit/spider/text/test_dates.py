"""Dates of pages, feeds and sitemaps."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.spider.text.dates import parse_date


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024", datetime(2024, 1, 1)),
        ("2024-05", datetime(2024, 5, 1)),
        ("2024-05-06", datetime(2024, 5, 6)),
        ("2024-05-06T07:08Z", datetime(2024, 5, 6, 7, 8)),
        ("2024-05-06T07:08:09.1234567+02:00", datetime(2024, 5, 6, 5, 8, 9, 123456)),
        (" 2024-05-06 07:08:09 +0200\n", datetime(2024, 5, 6, 5, 8, 9)),
        ("2024-05-06 07:08:09 UTC", datetime(2024, 5, 6, 7, 8, 9)),
        ("Mon, 06 May 2024 07:08:09 GMT", datetime(2024, 5, 6, 7, 8, 9)),
        ("06 May 24 07:08 -0500", datetime(2024, 5, 6, 12, 8)),
    ],
)
def test_dates_are_read_in_utc(text: str, expected: datetime) -> None:
    assert parse_date(text) == expected.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "soon", "9999", "9999-12-31", "0001-01-01", "2024-13-01", "1" * 70, "Mon, 99 Foo", "٢٠٢٤"]
)
def test_a_date_outside_the_web_era_is_none(text: str) -> None:
    assert parse_date(text) is None


@given(st.text(max_size=70))
def test_nothing_raises(text: str) -> None:
    parse_date(text)
    parse_date(f"2024-{text}")
    parse_date(f"Mon, 06 {text}")
