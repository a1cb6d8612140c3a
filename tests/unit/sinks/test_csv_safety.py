import csv
import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.sinks.csv_safety import escape_formulas, format_cell


@pytest.mark.parametrize(
    "text",
    [
        "=cmd|' /C calc'!A0",
        "+1",
        "-2+3",
        "@x",
        "\tx",
        "\rx",
        "\nx",
        "\u00a0=1",
        "  =1",
        "\u3000\u200b\ufeff=1",
        "\x01=1",
        "＝1",
        "＋1",
        "－1",
        "＠x",
        "﹦1",
        "=",
        "-",
    ],
)
def test_text_that_begins_like_a_formula_gets_an_apostrophe(text: str) -> None:
    assert escape_formulas(text) == "'" + text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n=1", "a\n'=1"),
        ("a\r\n+1", "a\r\n'+1"),
        ("a\r=1", "a\r'=1"),
        ("a\u2028=1", "a\u2028'=1"),
        ("a\n \u00a0-1\nb", "a\n' \u00a0-1\nb"),
        ("=1\n=2", "'=1\n'=2"),
        ("\n=1", "'\n'=1"),
        ("\t=1", "'\t'=1"),
        ("a;=1", "a;'=1"),
        ("a; \u00a0=1;b", "a;' \u00a0=1;b"),
        (";＝1", ";'＝1"),
        ("a\t@x", "a\t'@x"),
        ('a;"=1";b', 'a;\'"=1";b'),
        ('a\n""=1', 'a\n\'""=1'),
        ("a;;-1;\t+2", "a;;'-1;\t'+2"),
    ],
)
def test_every_further_part_that_begins_like_a_formula_gets_an_apostrophe(text: str, expected: str) -> None:
    assert escape_formulas(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a=b",
        "1-2",
        "a@b.example",
        "x\ty",
        "a\n b",
        "'=1",
        '"=1',
        "…",
        "a\tb\n\tc",
        "a, -1",
        "a | +1",
        "a;b",
    ],
)
def test_other_text_is_unchanged(text: str) -> None:
    assert escape_formulas(text) == text


def test_nul_is_escaped() -> None:
    assert escape_formulas("a\0b") == "a\\0b"
    assert escape_formulas("\0=1") == "\\0=1"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        (True, "true"),
        (False, "false"),
        (-2, "-2"),
        (-2.5, "-2.5"),
        (1e30, "1e30"),
        (2**80, str(2**80)),
        ("-2", "'-2"),
        ([1, "=x"], '[1,"=x"]'),
        ({"a": None}, '{"a":null}'),
        (["a;=1;b"], '["a\\u003b=1;b"]'),
        (['a;"=1'], '["a\\u003b\\"=1"]'),
        (["a\u2028 +1"], '["a\\u2028 +1"]'),
    ],
)
def test_values_other_than_text_are_written_as_json(value: Any, expected: str) -> None:
    assert format_cell(value) == expected


texts = st.text() | st.text("a=+-@＝＠;\t\n\r\"' \u00a0,|")


@pytest.mark.parametrize("separators", [";", "\t", "\r\n", ";\t\r\n"])
@given(texts)
def test_no_part_of_a_row_is_a_formula_wherever_a_reader_splits_it(separators: str, text: str) -> None:
    row = io.StringIO(newline="")
    csv.writer(row).writerow(["x", escape_formulas(text), format_cell([text]), "y"])
    for part in re.split(f"[{separators}]", row.getvalue()):
        assert not part.lstrip(' "\u00a0\ufeff\u200b').startswith(
            ("=", "+", "-", "@", "＝", "＋", "－", "＠")
        )


@given(texts)
def test_a_cell_of_json_has_the_same_value(text: str) -> None:
    assert json.loads(format_cell([text])) == [text]


@given(texts)
def test_no_line_of_the_result_is_a_formula(text: str) -> None:
    for line in escape_formulas(text).splitlines():
        seen = line.lstrip(" \t\u00a0\ufeff\u200b")
        assert not seen.startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))


@given(st.text())
def test_only_apostrophes_are_added(text: str) -> None:
    kept = iter(escape_formulas(text))

    for letter in text.replace("\0", "\\0"):
        assert any(letter == other for other in kept)


def test_a_hostile_text_of_megabytes_takes_linear_time() -> None:
    """Time is not measured: with a quadratic rule this would run for hours and into the time limit."""
    for text in (
        "\n" * 500_000,
        " " * 500_000,
        "\n " * 250_000,
        "\u00a0" * 500_000 + "=",
        "\x85" * 500_000,
        ";" * 500_000,
    ):
        assert len(escape_formulas(text)) >= len(text)
        assert len(format_cell([text])) >= len(text)


@given(
    st.lists(st.lists(st.one_of(st.text(), st.integers(), st.booleans(), st.none()), min_size=2, max_size=2))
)
def test_rows_of_cells_survive_a_csv_reader(rows: list[list[Any]]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([format_cell(value) for value in row] for row in rows)

    found = list(csv.reader(io.StringIO(text.getvalue(), newline=""), strict=True))

    expected = [
        [escape_formulas(v) if isinstance(v, str) else "" if v is None else json.dumps(v) for v in row]
        for row in rows
    ]
    assert found == expected
