"""Reading outputs again: every format yields the items that were written to it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.sinks.items import item

from shoal.model.errors import Misconfigured
from shoal.sinks.columns import MAX_COLUMNS
from shoal.sinks.registry import open_sink, resolve

RECORDS: list[dict[str, Any]] = [
    {"n": 1, "text": 'a\n"b", c'},
    {"text": "=sum", "late": 2.5, "n": 2},
    {"n": 3, "list": [1, {"a": None}], "yes": True},
    {},
]
TEXT = [{"n": "1", "text": 'a\n"b", c'}, {"text": "'=sum", "late": "2.5", "n": "2"}]
NAMES = ["x.jsonl", "x.csv", "x.db", "x.parquet", "x.parquet/"]


def write(path: str, records: list[dict[str, Any]], *, finish: bool = True) -> None:
    sink = open_sink(path)
    sink.restore(None)
    for number, record in enumerate(records):
        sink.write([item(record, f"key-{number}")])
        sink.flush()
    if finish:
        sink.finish()
    sink.close()


def read(path: str) -> list[dict[str, Any]]:
    found = resolve(path).factory.read
    assert found is not None
    return [msgspec.json.decode(one.json) for one in found(path)]


@pytest.mark.parametrize("finish", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_what_was_written_is_read(name: str, finish: bool, tmp_path: Path) -> None:
    write(path := f"{tmp_path}/{name}", RECORDS, finish=finish)

    found = read(path)

    match name:
        case "x.jsonl":
            assert found == RECORDS
        case "x.csv":  # everything is text
            assert found == [*TEXT, {"n": "3", "list": '[1,{"a":null}]', "yes": "true"}, {}]
        case "x.db":  # SQLite has no truth values
            assert found == [*RECORDS[:2], {"n": 3, "list": '[1,{"a":null}]', "yes": 1}, {}]
        case _:
            lists = '[1,{"a":null}]' if finish else [1, {"a": None}]
            assert found == [*RECORDS[:2], {"n": 3, "list": lists, "yes": True}, {}]


@pytest.mark.parametrize("name", NAMES)
def test_fields_beyond_the_limit_of_columns_are_read(name: str, tmp_path: Path) -> None:
    record = {f"f{n}": "x" for n in range(MAX_COLUMNS + 5)}
    write(path := f"{tmp_path}/{name}", [record, {"another": "y"}])

    assert read(path) == [record, {"another": "y"}]


def test_a_database_keeps_the_keys(tmp_path: Path) -> None:
    write(path := f"{tmp_path}/x.db", [{"n": 1}, {"n": 2}])

    found = resolve(path).factory.read
    assert found is not None
    assert [one.key for one in found(path)] == ["key-0", "key-1"]


def test_files_of_other_programs_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b'\xef\xbb\xbfa,b\n1,\n2,"x\ny"')
    pq.write_table(pa.table({"a": [1, None], "d": [[1], [2]]}), tmp_path / "x.parquet")
    with closing(sqlite3.connect(tmp_path / "x.db")) as database:
        database.execute("CREATE TABLE items (a, b)")
        database.execute("INSERT INTO items VALUES (1, NULL), ('x', 2)")
        database.commit()

    assert read(f"{tmp_path}/x.csv") == [{"a": "1"}, {"a": "2", "b": "x\ny"}]
    assert read(f"{tmp_path}/x.parquet") == [{"a": 1, "d": [1]}, {"d": [2]}]
    assert read(f"{tmp_path}/x.db") == [{"a": 1}, {"a": "x", "b": 2}]


@pytest.mark.parametrize("name", NAMES)
def test_an_output_that_cannot_be_read_is_an_error_that_names_it(name: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=rf"output .*{name.rstrip('/')}.* cannot be read: No such file"):
        read(f"{tmp_path}/{name}")
    if name in ("x.csv", "x.db", "x.parquet"):
        (tmp_path / name).write_bytes(b"\xff\xfe neither text nor a table" * 100)
        with pytest.raises(Misconfigured, match=rf"output .*{name} cannot be read: "):
            read(f"{tmp_path}/{name}")


def test_a_large_cell_is_read(tmp_path: Path) -> None:
    write(path := f"{tmp_path}/x.csv", [{"a": "x" * 1_000_000}])

    assert read(path) == [{"a": "x" * 1_000_000}]
