import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.unit.sinks.items import item, write_all

from shoal.model.errors import Misconfigured, Rejected
from shoal.sinks.columns import MAX_COLUMNS
from shoal.sinks.parquet import FACTORY, ParquetSink
from shoal.sinks.tables import kind_of, type_for


def open_parquet(path: Path, *, part_rows: int = 2, overwrite: bool = False) -> ParquetSink:
    """Open a folder of parts."""
    return ParquetSink(f"{path}/", fsync=False, overwrite=overwrite, part_rows=part_rows)


def open_file(path: Path, *, part_rows: int = 2, overwrite: bool = False) -> ParquetSink:
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
    path = tmp_path / "x.parquet"
    sink = ParquetSink(f"{path}/", fsync=True, overwrite=False, part_bytes=1000)
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


@pytest.mark.parametrize("more", [1, 17])
def test_a_part_completed_after_the_checkpoint_is_shortened(tmp_path: Path, more: int) -> None:
    sink = open_parquet(path := tmp_path / "x.parquet", part_rows=4)
    sink.restore(None)
    sink.write([item({"n": n}) for n in range(3)])
    checkpoint = sink.flush()
    sink.write([item({"n": n}) for n in range(3, 3 + more)])
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


# One file


def written(path: Path, checkpoint: bytes | None, *batches: list[dict[str, Any]]) -> list[bytes]:
    """Write a run with a flush for each batch; return the checkpoints of the flushes and of the end."""
    sink = open_file(path)
    sink.restore(checkpoint)
    checkpoints = [sink.flush()]
    for batch in batches:
        sink.write([item(record) for record in batch])
        checkpoints.append(sink.flush())
    checkpoints.append(sink.finish())
    sink.close()
    return checkpoints


def column(path: Path, name: str = "n") -> list[Any]:
    return list(pq.read_table(path)[name].to_pylist()) if pq.read_metadata(path).num_rows else []


def test_a_path_without_a_slash_is_one_file_with_the_columns_of_all_items(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    [*_, committed] = written(path, None, [{"n": 0}, {"n": 1, "a": 1}], [{"n": 2, "a": "x"}, {"n": 3.5}])
    written(path, committed, [{"n": 4, "late": True}])

    assert names(tmp_path) == ["x.parquet"]
    assert pq.read_table(path).to_pylist() == [
        {"n": 0.0, "a": None, "late": None},
        {"n": 1.0, "a": "1", "late": None},
        {"n": 2.0, "a": "x", "late": None},
        {"n": 3.5, "a": None, "late": None},
        {"n": 4.0, "a": None, "late": True},
    ]


def test_during_a_run_the_file_has_the_items_of_the_runs_before(tmp_path: Path) -> None:
    sink = open_file(path := tmp_path / "x.parquet")
    sink.restore(None)
    sink.write([item({"n": n}) for n in range(3)])
    sink.flush()
    assert path.read_bytes() == b""
    assert names(tmp_path) == ["x.parquet", "x.parquet.parts"]
    sink.finish()
    assert column(path) == [0, 1, 2]

    sink.write([item({"n": 3})])
    sink.flush()
    assert column(path) == [0, 1, 2]
    sink.finish()
    sink.close()
    assert column(path) == [0, 1, 2, 3]
    assert names(tmp_path) == ["x.parquet"]


def test_a_run_without_items_makes_a_file_without_rows(tmp_path: Path) -> None:
    written(path := tmp_path / "x.parquet", None)

    assert pq.read_table(path).num_rows == 0
    assert names(tmp_path) == ["x.parquet"]


def test_every_earlier_checkpoint_of_a_file_can_be_restored(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    batches = [[{"n": n, f"f{n}": n}] for n in range(7)]
    first = written(path, None, *batches[:4])
    second = written(path, first[-1], *batches[4:])
    # After 7, 6, 4 (two checkpoints), 3, 1 and no items.
    for checkpoint, count in zip(
        [second[-1], second[-3], second[0], first[-1], first[3], first[1], first[0]],
        [7, 6, 4, 4, 3, 1, 0],
        strict=True,
    ):
        assert FACTORY.recount is not None
        assert FACTORY.recount(str(path), checkpoint) == count
        for _ in range(2):
            sink = open_file(path)
            sink.restore(checkpoint)
            sink.close()
        [*_, done] = written(path, checkpoint)
        assert column(path) == list(range(count))
        assert FACTORY.recount(str(path), done) == count
        assert names(tmp_path) == ["x.parquet"]


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("step", range(1, 12))
def test_a_kill_while_the_file_is_completed_loses_nothing(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step that changes a file: renames, and deletions."""
    path = tmp_path / "x.parquet"
    [*_, committed] = written(path, None, [{"n": 0}], [{"n": 1}])
    sink = open_file(path)
    sink.restore(committed)
    sink.write([item({"n": n, "late": n}) for n in range(2, 5)])
    committed = sink.flush()
    sink.write([item({"n": 5})])
    steps = 0

    def dying(genuine: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == step:
                raise _Killed
            return genuine(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", dying(Path.replace))
        patch.setattr(Path, "unlink", dying(Path.unlink))
        with suppress(_Killed):
            sink.finish()
            sink.flush()
    os.close(sink._sink._parts._folder)  # type: ignore[union-attr]  # as the end of the process does
    sink._sink._parts._folder = -1  # type: ignore[union-attr]

    written(path, committed, [{"n": 5}])
    assert column(path) == list(range(6))
    assert column(path, "late") == [None, None, 2, 3, 4, None]
    assert names(tmp_path) == ["x.parquet"]


def test_a_folder_of_an_earlier_version_is_continued_as_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    sink = open_parquet(path)
    sink.restore(None)
    sink.write([item({"n": 0})])
    committed = sink.finish()
    sink.close()

    written(path, committed, [{"n": 1}])
    assert pq.read_table(path)["n"].to_pylist() == [0, 1]
    assert path.is_dir()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_is_never_replaced_by_a_file(tmp_path: Path, overwrite: bool) -> None:
    path = tmp_path / "x.parquet"
    path.mkdir()

    with pytest.raises(Misconfigured, match=r"there is a folder; name it as .*x\.parquet/ to write parts"):
        open_file(path, overwrite=overwrite).restore(None)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_pipe_is_never_replaced_by_a_file(tmp_path: Path, overwrite: bool) -> None:
    os.mkfifo(path := tmp_path / "x.parquet")

    with pytest.raises(Misconfigured, match="not a regular file"):
        open_file(path, overwrite=overwrite).restore(None)
    assert path.is_fifo()


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    for content in (b"not Parquet", None):
        if content is None:
            pq.write_table(pa.table({"x": [1]}), path)
        else:
            path.write_bytes(content)
        before = path.read_bytes()
        with pytest.raises(Misconfigured, match="was not written by this crawl"):
            open_file(path).restore(None)
        assert path.read_bytes() == before
    assert names(tmp_path) == ["x.parquet"]


@pytest.mark.parametrize("damage", ["missing", "foreign", "garbage", "shorter"])
def test_a_changed_file_is_an_error(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "x.parquet"
    [*_, committed] = written(path, None, [{"n": 1}, {"n": 2}])
    match damage:
        case "missing":
            path.unlink()
        case "foreign":
            pq.write_table(pa.table({"x": [1, 2, 3]}), path)
        case "garbage":
            path.write_bytes(b"garbage")
        case "shorter":
            pq.write_table(pq.read_table(path).slice(1), path)

    with pytest.raises(Misconfigured, match="not as this crawl has left it"):
        open_file(path).restore(committed)
    assert FACTORY.recount is not None
    with pytest.raises(Rejected):
        FACTORY.recount(str(path), committed)


@pytest.mark.parametrize("values", [[1, 2], [1.25, 1.5]], ids=["integers", "fractions"])
def test_changed_values_of_a_file_are_noticed(tmp_path: Path, values: list[float]) -> None:
    path = tmp_path / "x.parquet"
    [*_, committed] = written(path, None, [{"n": value} for value in values])
    pq.write_table(pq.read_table(path).take([1, 0]), path)

    assert FACTORY.recount is not None
    with pytest.raises(Rejected, match="was changed"):
        FACTORY.recount(str(path), committed)
