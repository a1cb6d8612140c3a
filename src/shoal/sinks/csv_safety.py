"""CSV cells that a spreadsheet shows and never executes.

Spreadsheets execute a cell whose text starts like a formula. Such text gets an apostrophe in front, on every
line of the cell, because some readers take a quoted line break for the end of a row. Numbers stay unchanged;
the text "-2" becomes "'-2".
"""

import re
from typing import Any

from shoal.sinks.columns import encode_json

_LINE_BREAKS = r"\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
# Characters that start a formula: ASCII, full-width and small forms.
_SIGNS = r"=+\-@＝＋－＠﹦﹢﹣﹫"
# Characters that a reader may skip or not show: spaces, control characters, zero-width marks.
_UNSEEN = r"\x00-\x20\x7f-\xa0\xad\u061c\u1680\u180e\u2000-\u200f\u202a-\u202f\u205f-\u206f\u3000\ufeff"
# The invisible characters stop at the end of a line: otherwise a text of n line breaks takes n² steps.
_FORMULA = re.compile(
    rf"\A(?=[\t\r\n])|(?:\A|(?<=[{_LINE_BREAKS}]))(?=(?:(?![{_LINE_BREAKS}])[{_UNSEEN}])*[{_SIGNS}])"
)


def escape_formulas(text: str) -> str:
    """Return `text` with formulas escaped, and NUL, which CSV cannot hold, as `\\0`."""
    if "\0" in text:
        text = text.replace("\0", "\\0")
    return _FORMULA.sub("'", text)


def format_cell(value: Any) -> str:
    """Return a JSON value as the text of a cell."""
    if isinstance(value, str):
        return escape_formulas(value)
    if value is None:
        return ""
    return encode_json(value)  # only a number can start like a formula, and numbers are safe
