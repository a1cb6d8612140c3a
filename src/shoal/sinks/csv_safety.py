"""CSV cells that a spreadsheet shows and never runs.

A cell whose text begins like a formula is executed by the programs people open CSV files with. Such text
gets an apostrophe in front, on every line of the cell, since not every reader knows that a quoted line
break is not the end of a row. Numbers are numbers and stay as they are; the text "-2" becomes "'-2".
"""

import re
from typing import Any

from shoal.sinks.columns import spell_json

_LINE_BREAKS = r"\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
# Signs that begin a formula, in the forms in which they reach a spreadsheet: ASCII, full width, small.
_SIGNS = r"=+\-@＝＋－＠﹦﹢﹣﹫"
# What a reader may skip or not show: spaces of all kinds, controls, marks without a width.
_UNSEEN = r"\x00-\x20\x7f-\xa0\xad\u061c\u1680\u180e\u2000-\u200f\u202a-\u202f\u205f-\u206f\u3000\ufeff"
# The unseen stop at the end of a line: a text of a million line breaks must not take a million squared steps.
_FORMULA = re.compile(
    rf"\A(?=[\t\r\n])|(?:\A|(?<=[{_LINE_BREAKS}]))(?=(?:(?![{_LINE_BREAKS}])[{_UNSEEN}])*[{_SIGNS}])"
)


def harmless(text: str) -> str:
    """Return `text` with nothing in it that a spreadsheet would run; NUL, which CSV cannot hold, as `\\0`."""
    if "\0" in text:
        text = text.replace("\0", "\\0")
    return _FORMULA.sub("'", text)


def cell(value: Any) -> str:
    """Spell a JSON value as the text of a cell."""
    if isinstance(value, str):
        return harmless(value)
    if value is None:
        return ""
    return spell_json(value)  # of these none can begin like a formula but a number, which is none
