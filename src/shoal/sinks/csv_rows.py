"""Rows of CSV as bytes: found in a file, and padded with empty cells for columns that came later.

Empty cells at the end of a row are commas and nothing else. So a row can be given more of them, or fewer,
without decoding it, and the same row is recognized under any number of columns (`stripped`).
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

END = b"\r\n"


class _Echo:
    """A file whose `write` returns the text, so that `writerow` does."""

    def write(self, text: str, /) -> str:
        return text


_writerow: Any = csv.writer(_Echo()).writerow


def encode_row(cells: Sequence[str]) -> bytes:
    """Return a row; one without cells has an empty cell, because readers skip an empty line."""
    row: str = _writerow(cells or [""])
    return row.encode()


def split_rows(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join the lines of a file to rows: a line break inside of quotes does not end a row.

    The last row may be incomplete; see `is_complete`.
    """
    row: list[bytes] = []
    quoted = False
    for line in lines:
        quoted ^= line.count(b'"') & 1 == 1
        if not quoted and not row:
            yield line
            continue
        row.append(line)
        if not quoted:
            yield b"".join(row)
            row.clear()
    if row:
        yield b"".join(row)


def is_complete(row: bytes) -> bool:
    return row.endswith(END) and row.count(b'"') % 2 == 0


def width(row: bytes) -> int:
    """Return the number of cells of a row."""
    if b'"' not in row:
        return row.count(b",") + 1
    return sum(part.count(b",") for part in row.split(b'"')[::2]) + 1


def pad(row: bytes, missing: int) -> bytes:
    """Return a row with more empty cells at its end."""
    return row[:-2] + b"," * missing + END if missing > 0 else row


def stripped(row: bytes) -> bytes:
    """Return a row without the empty cells at its end."""
    return row[:-2].rstrip(b",") + END
