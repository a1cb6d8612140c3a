import csv
import json
from pathlib import Path

import pytest
from tests.unit.sinks.items import item, write_all

from shoal.model.errors import Misconfigured
from shoal.sinks.columns import MAX_COLUMNS
from shoal.sinks.csv import MAX_FILES, CsvSink


def open_csv(path: Path, *, overwrite: bool = False) -> CsvSink:
    return CsvSink(path, fsync=False, overwrite=overwrite)


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file, strict=True))


def test_lines_end_as_in_rfc_4180(tmp_path: Path) -> None:
    write_all(open_csv(path := tmp_path / "x.csv"), {"a": 1, "b": 'say "hi"'}, {"a": -2, "b": "x,y\nz"})

    assert path.read_bytes() == b'a,b\r\n1,"say ""hi"""\r\n-2,"x,y\nz"\r\n'


def test_a_field_that_is_missing_or_out_of_order_shifts_nothing(tmp_path: Path) -> None:
    write_all(open_csv(path := tmp_path / "x.csv"), {"a": 1, "b": 2, "c": 3}, {"c": 6, "a": 4}, {"b": 8})

    assert rows(path) == [["a", "b", "c"], ["1", "2", "3"], ["4", "", "6"], ["", "8", ""]]


def test_a_new_field_starts_a_file_with_a_wider_header(tmp_path: Path) -> None:
    write_all(open_csv(tmp_path / "x.csv"), {"a": 1}, {"a": 2, "b": 3}, {"a": 4}, {"c": 5})

    assert rows(tmp_path / "x.csv") == [["a"], ["1"]]
    assert rows(tmp_path / "x-2.csv") == [["a", "b"], ["2", "3"], ["4", ""]]
    assert rows(tmp_path / "x-3.csv") == [["a", "b", "c"], ["", "", "5"]]


def test_a_file_started_after_the_checkpoint_is_deleted(tmp_path: Path) -> None:
    sink = open_csv(tmp_path / "x.csv")
    sink.restore(None)
    sink.write([item({"a": 1})])
    checkpoint = sink.flush()
    sink.write([item({"a": 2, "b": 3}), item({"c": 3})])
    sink.flush()
    sink.close()

    again = open_csv(tmp_path / "x.csv")
    again.restore(checkpoint)
    again.write([item({"a": 2})])
    again.finish()
    again.close()

    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
    assert rows(tmp_path / "x.csv") == [["a"], ["1"], ["2"]]


def test_a_resumed_crawl_knows_the_columns_of_the_last_file(tmp_path: Path) -> None:
    sink = open_csv(tmp_path / "x.csv")
    sink.restore(None)
    sink.write([item({"a": 1}), item({"b": 2})])
    checkpoint = sink.flush()
    sink.close()

    again = open_csv(tmp_path / "x.csv")
    again.restore(checkpoint)
    again.write([item({"b": 4, "a": 3})])
    again.finish()
    again.close()

    assert rows(tmp_path / "x-2.csv") == [["a", "b"], ["", "2"], ["3", "4"]]


def test_the_number_of_files_is_limited(tmp_path: Path) -> None:
    records = [{"id": n, f"field-{n}": n} for n in range(MAX_FILES + 20)]

    write_all(open_csv(tmp_path / "x.csv"), *records)

    assert len(list(tmp_path.iterdir())) == MAX_FILES
    last = rows(tmp_path / f"x-{MAX_FILES}.csv")
    assert last[0][-1] == "_more"
    assert [json.loads(row[-1]) for row in last[1:]] == [
        {f"field-{n}": n} for n in range(MAX_FILES - 1, MAX_FILES + 20)
    ]


def test_the_number_of_columns_is_limited(tmp_path: Path) -> None:
    write_all(open_csv(path := tmp_path / "x.csv"), {f"f{n}": n for n in range(MAX_COLUMNS + 10)}, {"f0": 1})

    header, first, second = rows(path)
    assert len(header) == len(first) == len(second) == MAX_COLUMNS + 1
    assert len(json.loads(first[-1])) == 10


def test_formulas_in_field_names_are_escaped(tmp_path: Path) -> None:
    write_all(open_csv(path := tmp_path / "x.csv"), {"=cmd": 1, "'=cmd": 2, "a\0b": 3, "": 4, "x\n=y": 5})

    assert rows(path)[0] == ["'=cmd", "'=cmd_2", "a\\0b", "", "x\n'=y"]


def test_items_without_fields_are_rows(tmp_path: Path) -> None:
    write_all(open_csv(path := tmp_path / "x.csv"), {}, {})

    assert rows(path) == [[""], [""], [""]]


def test_a_lone_column_without_a_value_is_still_a_row(tmp_path: Path) -> None:
    write_all(open_csv(path := tmp_path / "x.csv"), {"a": None}, {"a": ""})

    assert rows(path) == [["a"], [""], [""]]


def test_a_later_file_of_another_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x-2.csv").write_text("mine")

    with pytest.raises(Misconfigured, match=r"x-2\.csv"):
        open_csv(tmp_path / "x.csv").restore(None)

    assert [path.name for path in tmp_path.iterdir()] == ["x-2.csv"]


def test_overwriting_deletes_the_later_files(tmp_path: Path) -> None:
    write_all(open_csv(tmp_path / "x.csv"), {"a": 1}, {"b": 1})

    write_all(open_csv(tmp_path / "x.csv", overwrite=True), {"c": 1})

    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
    assert rows(tmp_path / "x.csv") == [["c"], ["1"]]
