import pytest

from shoal.sinks.csv_rows import encode_row, is_complete, pad, split_rows, stripped, width


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        (b"\r\n", 1),
        (b'""\r\n', 1),
        (b"a\r\n", 1),
        (b",\r\n", 2),
        (b'a,"b,c",d\r\n', 3),
        (b'"a ""b, c"" d",,"x\r\ny",\r\n', 4),
    ],
)
def test_commas_in_quotes_end_no_cell(row: bytes, cells: int) -> None:
    assert width(row) == cells


@pytest.mark.parametrize(
    "cells", [[], [""], ["", ""], ["a"], ["a", "", ""], ["a,", ""], ['"', "", '",'], ["x\r\n", "", "\n"]]
)
def test_a_padded_row_is_the_same_row_with_more_empty_cells(cells: list[str]) -> None:
    row = encode_row(cells)
    wide = pad(row, 3)

    assert width(wide) == width(row) + 3
    assert stripped(wide) == stripped(row)
    assert wide == encode_row([*(cells or [""]), "", "", ""]) or row == b'""\r\n'
    assert pad(row, 0) == row


def test_line_breaks_in_quotes_end_no_row() -> None:
    rows = [encode_row(cells) for cells in (["a", "b"], ["x\ny", "\r\n"], ['"\n"'], ["", ""])]
    lines = b"".join(rows).splitlines(keepends=True)

    assert list(split_rows(lines)) == rows
    assert all(map(is_complete, rows))


@pytest.mark.parametrize("torn", [b"a", b"a\r", b'"a\r\n', b'a,"b'])
def test_a_row_that_was_cut_is_not_complete(torn: bytes) -> None:
    assert list(split_rows(torn.splitlines(keepends=True))) == [torn]
    assert not is_complete(torn)
