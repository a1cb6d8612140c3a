"""Text of others in printable form."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model.errors import Misconfigured
from shoal.model.printable import (
    MAX_NAME_CHARS,
    check_name,
    escape_json,
    name_fault,
    printable,
    printable_block,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ünïcode, 漢字, 🙂", "plain, ünïcode, 漢字, 🙂"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x9b31m\x7f\x00", "\\x9b31m\\x7f\\x00"),
        ("\u202etxt.exe\u2066\u200b\ufeff", "\\u202etxt.exe\\u2066\\u200b\\ufeff"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("a\u00a0b\u3000c", "a b c"),
    ],
)
def test_what_is_not_printable_becomes_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_every_text_is_printable_afterwards_and_stays_so(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown
    assert printable_block(text).replace("\n", "").replace("\t", "").isprintable()


def test_long_text_is_cut_and_says_so() -> None:
    assert printable("x" * 100, limit=10) == "xxxxxxxxxx... (90 more characters)"
    assert printable_block("x" * 1_000_000) == "x" * 1_000_000


@given(st.dictionaries(st.text(), st.text()))
def test_json_for_a_terminal_is_the_same_value(value: dict[str, str]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    escaped = escape_json(text)
    assert json.loads(escaped) == json.loads(text)
    assert not set("\x7f\x9b\u202e\u200b\ufeff\u2028") & set(escaped)


@pytest.mark.parametrize(
    "name", ["", " ", "a\nb", "\x1b[2J", "a\u202eb", "\ud800", "x" * (MAX_NAME_CHARS + 1), 5, None]
)
def test_a_name_that_cannot_be_shown_is_refused_without_showing_it(name: object) -> None:
    assert name_fault(name)
    if isinstance(name, str) and name.strip():
        with pytest.raises(Misconfigured) as caught:
            check_name(name, "the name")
        assert name not in str(caught.value)
