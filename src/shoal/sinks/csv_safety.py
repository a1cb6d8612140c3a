"""CSV cells that a spreadsheet shows and never executes.

Spreadsheets execute a cell whose text starts like a formula. Such text gets an apostrophe in front. Not every
reader ends a cell where the file says: spreadsheets in many countries split lines at semicolons and not at
commas, LibreOffice splits at tabs and semicolons too, and some readers take a quoted line break for the end
of a row. So a formula also gets an apostrophe after each of these, quotes in front of it included. A comma
needs none: a reader that splits there honours the quotes around the cell.

Numbers stay unchanged; the text "-2" becomes "'-2". In cells of JSON, the separator before a formula is
written as an escape sequence, which leaves the value unchanged.
"""

import re
from typing import Any

from shoal.sinks.columns import encode_json

_SEPARATORS = r";\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
# Characters that start a formula: ASCII, full-width and small forms.
_SIGNS = r"=+\-@＝＋－＠﹦﹢﹣﹫"
# Characters that a reader may skip or not show: spaces, control characters, zero-width marks.
_UNSEEN = r"\x00-\x20\x7f-\xa0\xad\u061c\u1680\u180e\u2000-\u200f\u202a-\u202f\u205f-\u206f\u3000\ufeff"
# A run of such characters stops at a separator: otherwise a text of n separators takes n² steps.
_START = rf"(?:(?![{_SEPARATORS}])[{_UNSEEN}])*+[{_SIGNS}]"
_QUOTED_START = rf"""(?:(?![{_SEPARATORS}])["{_UNSEEN}])*+[{_SIGNS}]"""
_FORMULA = re.compile(rf"\A(?=[\t\r\n])|\A(?={_START})|(?<=[{_SEPARATORS}])(?={_QUOTED_START})")
_SEPARATED_FORMULA = re.compile(rf"""[{_SEPARATORS}](?=(?:(?![{_SEPARATORS}])\\?["{_UNSEEN}])*+[{_SIGNS}])""")


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
    json = encode_json(value)  # only a number can start like a formula, and numbers are safe
    return _SEPARATED_FORMULA.sub(_escape_separator, json) if isinstance(value, list | dict) else json


def _escape_separator(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
