"""Counting the items of outputs again."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.model.errors import Rejected
from shoal.model.page import Item
from shoal.sinks import MultiSink
from shoal.sinks.recount import outputs, recount

ITEMS = [
    Item(f"{number}", msgspec.json.encode({"n": number, "text": 'a "quoted"\nline, with comma'}))
    for number in range(7)
]
WIDER = [Item("w", msgspec.json.encode({"n": 7, "more": 1}))]


def written(path: Path | str) -> bytes:
    sinks = MultiSink([str(path)])
    sinks.restore(None)
    sinks.write(ITEMS)
    sinks.flush()
    sinks.write(WIDER)
    checkpoint = outputs(sinks.finish())[str(path)]
    sinks.close()
    return checkpoint


@pytest.mark.parametrize("name", ["items.jsonl", "items.ndjson", "items.csv"])
def test_items_are_counted_up_to_the_checkpoint(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    checkpoint = written(path)
    assert recount(path, checkpoint) == 8

    with path.open("ab") as file:
        file.write(b'torn,"or {half')
    assert recount(path, checkpoint) == 8


@pytest.mark.parametrize("name", ["items.jsonl", "items.csv"])
def test_an_empty_output_has_no_items(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    sinks = MultiSink([str(path)])
    sinks.restore(None)
    checkpoint = outputs(sinks.finish())[str(path)]
    sinks.close()
    assert recount(path, checkpoint) == 0


@pytest.mark.parametrize("name", ["items.jsonl", "items.csv"])
def test_a_shortened_output_is_rejected(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    checkpoint = written(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Rejected, match="shorter than this crawl has left it"):
        recount(path, checkpoint)


@pytest.mark.parametrize("name", ["items.jsonl", "items.csv", "items.sqlite"])
def test_a_missing_output_is_rejected(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    checkpoint = written(path)
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(Rejected, match=r"missing|cannot be read: No such file"):
        recount(path, checkpoint)


def test_an_incomplete_last_line_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    checkpoint = written(path)
    path.write_bytes(path.read_bytes().replace(b"\n", b" "))
    with pytest.raises(Rejected, match="ends within an item"):
        recount(path, checkpoint)


@pytest.mark.parametrize("name", ["items.sqlite", "items.db", "items.parquet"])
def test_rows_are_counted_up_to_the_checkpoint(tmp_path: Path, name: str) -> None:
    sinks = MultiSink([str(path := tmp_path / name)])
    sinks.restore(None)
    assert recount(path, outputs(sinks.flush())[str(path)]) == 0
    sinks.write(ITEMS)
    early = outputs(sinks.flush())[str(path)]
    sinks.write(WIDER)
    late = outputs(sinks.flush())[str(path)]

    assert (recount(path, early), recount(path, late)) == (7, 8)
    done = outputs(sinks.finish())[str(path)]
    sinks.close()
    assert (recount(path, early), recount(path, late), recount(path, done)) == (7, 8, 8)


def test_an_item_that_replaces_another_one_is_counted_and_adds_no_row(tmp_path: Path) -> None:
    sinks = MultiSink([str(path := tmp_path / "items.sqlite")])
    sinks.restore(None)
    sinks.write([*ITEMS, ITEMS[0]])
    sinks.flush()
    sinks.write(ITEMS[:2])
    checkpoint = outputs(sinks.finish())[str(path)]
    sinks.close()
    assert recount(path, checkpoint) == 10


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DELETE FROM items WHERE _id = 3", "holds 7 rows, but 8 were written there"),
        ("INSERT INTO items (_key) VALUES ('another')", "holds 9 rows, but 8 were written there"),
        ("DELETE FROM _shoal_flushes WHERE number > 1", "is older than this crawl has left it"),
        ("DROP TABLE items", "cannot be read: no such table"),
    ],
)
def test_a_changed_database_is_rejected(tmp_path: Path, statement: str, told: str) -> None:
    path = tmp_path / "items.sqlite"
    checkpoint = written(path)
    change(path, statement)
    with pytest.raises(Rejected, match=told):
        recount(path, checkpoint)


def test_a_key_with_two_rows_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "items.sqlite"
    checkpoint = written(path)
    change(path, "CREATE TABLE copy AS SELECT * FROM items")
    change(path, "DROP TABLE items")
    change(path, "ALTER TABLE copy RENAME TO items")
    change(path, "UPDATE items SET _key = '1' WHERE _key = '2'")
    with pytest.raises(Rejected, match="holds 8 rows for 7 keys"):
        recount(path, checkpoint)


def test_a_changed_folder_of_parts_is_rejected(tmp_path: Path) -> None:
    path = f"{tmp_path}/items.parquet/"
    checkpoint = written(path)
    [part] = Path(path).iterdir()
    whole = pq.read_table(part, partitioning=None)
    for table in (whole.slice(1), pa.concat_tables([whole, whole.slice(7)])):
        pq.write_table(table, part)
        with pytest.raises(Rejected, match=rf"holds {table.num_rows} rows .* but 8 were written there"):
            recount(path, checkpoint)
    part.write_bytes(b"no table")
    with pytest.raises(Rejected, match=r"part-00000.parquet cannot be read as Parquet"):
        recount(path, checkpoint)
    part.unlink()
    with pytest.raises(Rejected, match=r"part-00000.parquet is missing"):
        recount(path, checkpoint)


def test_standard_output_is_not_counted() -> None:
    assert outputs(msgspec.msgpack.encode({"-": b"", "/a.jsonl": b"\x00"})) == {"/a.jsonl": b"\x00"}
    assert outputs(None) == {}
