from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.unit.sinks.items import item, write_all

from shoal.model.errors import Misconfigured
from shoal.sinks.columns import MAX_COLUMNS
from shoal.sinks.parquet import ParquetSink
from shoal.sinks.tables import kind_of, type_for


def open_parquet(path: Path, *, part_rows: int = 2, overwrite: bool = False) -> ParquetSink:
    return ParquetSink(path, fsync=False, overwrite=overwrite, part_rows=part_rows)


def write_parts(path: Path, *parts: list[dict[str, Any]]) -> None:
    """Write one part for each list of records."""
    sink = open_parquet(path, part_rows=1)
    sink.restore(None)
    for records in parts:
        sink.write([item(record) for record in records])
        sink.flush()
    sink.finish()
    sink.close()


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, False], pa.bool_()),
        ([1, -5], pa.int64()),
        ([1, 2**60], pa.int64()),
        ([1, 0.5], pa.float64()),
        ([2**60, 0.5], pa.string()),
        ([2**64], pa.string()),
        (["x"], pa.string()),
        (["x", 1], pa.string()),
        ([True, 1], pa.string()),
        ([[1]], pa.string()),
        ([], pa.string()),
    ],
)
def test_a_column_has_the_narrowest_type_that_changes_no_value(values: list[Any], kind: pa.DataType) -> None:
    assert type_for(frozenset(map(kind_of, values))) == kind


def test_values_are_read_back(tmp_path: Path) -> None:
    record = {"t": "x", "n": 5, "f": 0.5, "yes": True, "no": None, "list": [1], "big": 2**70, "nul": "a\0b"}
    write_all(open_parquet(path := tmp_path / "x.parquet"), record)

    assert pq.read_table(path).to_pylist() == [{**record, "list": "[1]", "big": str(2**70)}]


def test_enough_rows_become_a_part(tmp_path: Path) -> None:
    sink = open_parquet(path := tmp_path / "x.parquet", part_rows=3)
    sink.restore(None)
    for n in range(8):
        sink.write([item({"n": n})])
        sink.flush()
    assert names(path) == [".rows-00002.jsonl", "part-00000.parquet", "part-00001.parquet"]

    sink.finish()
    sink.close()

    assert names(path) == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    assert pq.read_table(path)["n"].to_pylist() == list(range(8))


def test_large_items_make_a_part_sooner(tmp_path: Path) -> None:
    sink = ParquetSink(path := tmp_path / "x.parquet", fsync=True, overwrite=False, part_bytes=1000)
    sink.restore(None)
    sink.write([item({"t": "x" * 2000})])
    sink.flush()
    sink.close()

    assert names(path) == ["part-00000.parquet"]


def test_all_finished_parts_have_the_same_schema(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_parts(
        path,
        [{"a": 1, "b": None}],
        [{"a": 2, "c": "x"}],
        [{"a": 0.5, "b": True}],
        [{"a": 3, "c": 5, "d": [1, 2]}],
    )

    schemas = [pq.read_schema(part) for part in sorted(path.glob("part-*"))]
    assert len(schemas) == 4
    assert all(schema.equals(schemas[0]) for schema in schemas)
    assert ds.dataset(path).to_table().to_pylist() == [
        {"a": 1.0, "b": None, "c": None, "d": None},
        {"a": 2.0, "b": None, "c": "x", "d": None},
        {"a": 0.5, "b": True, "c": None, "d": None},
        {"a": 3.0, "b": None, "c": "5", "d": "[1,2]"},
    ]


def test_a_column_of_mixed_types_is_text_in_every_part(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_parts(
        path, [{"a": 1}], [{"a": True}], [{"a": "text"}], [{"a": {"b": 1.5}}], [{"a": None}], [{"a": 2**60}]
    )

    assert pq.read_table(path)["a"].to_pylist() == ["1", "true", "text", '{"b":1.5}', None, str(2**60)]


def test_types_widen_over_resumed_runs(tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "x.parquet", None
    for value in (1, 0.5, "x"):
        sink = open_parquet(path)
        sink.restore(checkpoint)
        sink.write([item({"a": value, f"only-{value}": 1})])
        checkpoint = sink.finish()
        sink.close()

    table = pq.read_table(path)
    assert table["a"].to_pylist() == ["1.0", "0.5", "x"]
    assert table["only-x"].to_pylist() == [None, None, 1]


def test_a_part_completed_after_the_checkpoint_is_shortened(tmp_path: Path) -> None:
    sink = open_parquet(path := tmp_path / "x.parquet", part_rows=4)
    sink.restore(None)
    sink.write([item({"n": n}) for n in range(3)])
    checkpoint = sink.flush()
    sink.write([item({"n": n}) for n in range(3, 20)])
    sink.flush()
    sink.write([item({"n": 20})])
    sink.flush()
    sink.close()
    assert names(path) == [".rows-00001.jsonl", "part-00000.parquet"]

    for _ in range(2):
        again = open_parquet(path)
        again.restore(checkpoint)
        again.close()

        assert names(path) == ["part-00000.parquet"]
        assert pq.read_table(path)["n"].to_pylist() == [0, 1, 2]


def test_a_draft_that_was_never_renamed_is_deleted(tmp_path: Path) -> None:
    sink = open_parquet(path := tmp_path / "x.parquet")
    sink.restore(None)
    checkpoint = sink.flush()
    sink.close()
    (path / ".draft.parquet").write_bytes(b"half a part")

    again = open_parquet(path)
    again.restore(checkpoint)
    again.close()

    assert names(path) == []


@pytest.mark.parametrize("damage", ["missing", "foreign", "garbage"])
def test_a_changed_part_is_an_error(tmp_path: Path, damage: str) -> None:
    sink = open_parquet(path := tmp_path / "x.parquet")
    sink.restore(None)
    sink.write([item({"n": 1}), item({"n": 2})])
    checkpoint = sink.flush()
    sink.close()
    part = path / "part-00000.parquet"
    match damage:
        case "missing":
            part.unlink()
        case "foreign":
            pq.write_table(pa.table({"x": [1]}), part)
        case "garbage":
            part.write_bytes(b"garbage")

    with pytest.raises(Misconfigured, match=r"part-00000.*not as this crawl has left it"):
        open_parquet(path).restore(checkpoint)


def test_overwriting_refuses_a_folder_with_other_files(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.mkdir()
    (path / "notes.txt").write_text("mine")

    with pytest.raises(Misconfigured, match="not written"):
        open_parquet(path, overwrite=True).restore(None)

    assert names(path) == ["notes.txt"]


def test_a_second_crawl_cannot_open_the_output(tmp_path: Path) -> None:
    sink = open_parquet(tmp_path / "x.parquet")
    sink.restore(None)

    with pytest.raises(Misconfigured, match="another crawl"):
        open_parquet(tmp_path / "x.parquet").restore(None)
    sink.close()


def test_beyond_the_limit_fields_share_a_column(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_parts(path, [{f"f{n}": n for n in range(MAX_COLUMNS + 1)}], [{"f0": 5, "other": 6}])

    table = pq.read_table(path)
    assert table.num_columns == MAX_COLUMNS + 1
    assert table["f0"].to_pylist() == [0, 5]
    assert table["_more"].to_pylist() == [f'{{"f{MAX_COLUMNS}":{MAX_COLUMNS}}}', '{"other":6}']


def test_items_without_fields_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_parts(path, [{}, {}], [{"a": 1}], [{"_": 2}])

    table = pq.read_table(path)
    assert table.num_rows == 4
    assert table["a"].to_pylist() == [None, None, 1, None]
    assert table["_"].to_pylist() == [None, None, None, 2]


def test_odd_field_names_are_column_names(tmp_path: Path) -> None:
    record = {"": 1, "a.b": 2, "a\0b": 3, "ü\n": 4, "_more": 5, "A.B": 6}
    write_all(open_parquet(path := tmp_path / "x.parquet"), record)

    assert pq.read_table(path / "part-00000.parquet").to_pylist() == [record]
