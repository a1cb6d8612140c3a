import csv
import errno
import json
import os
import random
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.sinks.items import item, write_all

from shoal.model.errors import Misconfigured, Unavailable
from shoal.sinks.columns import MAX_COLUMNS
from shoal.sinks.csv import FACTORY, CsvSink


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


def test_the_header_has_the_fields_of_all_items(tmp_path: Path) -> None:
    write_all(open_csv(path := tmp_path / "x.csv"), {"a": 1}, {"a": 2, "b": 3}, {"a": 4}, {"c": 5})

    assert rows(path) == [["a", "b", "c"], ["1", "", ""], ["2", "3", ""], ["4", "", ""], ["", "", "5"]]
    assert os.listdir(tmp_path) == ["x.csv"]


def flushed(sink: CsvSink, *records: dict[str, Any]) -> bytes:
    """Write each record with a separate flush."""
    checkpoint = sink.flush()
    for record in records:
        sink.write([item(record)])
        checkpoint = sink.flush()
    return checkpoint


def test_a_new_field_rewrites_the_file_at_once(tmp_path: Path) -> None:
    sink = open_csv(path := tmp_path / "x.csv")
    sink.restore(None)

    flushed(sink, {"a": "x,\ny"}, {"b": '"'}, {"a": 1})

    assert rows(path) == [["a", "b"], ["x,\ny", ""], ["", '"'], ["1", ""]]
    sink.close()


def test_what_is_written_for_new_columns_is_bounded_by_the_length_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0
    genuine = os.pwrite

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        nonlocal written
        written += len(data)
        return genuine(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    sink = CsvSink(path := tmp_path / "x.csv", fsync=False, overwrite=False, rewrite_bytes=0)
    sink.restore(None)
    records = [{"n": n, "text": "x" * 100, f"field-{n}": n} for n in range(200)]
    flushed(sink, *records)
    assert written <= 6 * path.stat().st_size  # once for the rows, four times and a header for columns
    sink.finish()
    sink.close()

    header, *found = rows(path)
    assert header == ["n", "text", *(f"field-{n}" for n in range(200))]
    assert [row[0] for row in found] == [str(n) for n in range(200)]
    assert {len(row) for row in found} == {202}
    assert written <= 7 * path.stat().st_size


def test_rows_wait_for_their_header_where_it_would_cost_too_much(tmp_path: Path) -> None:
    path, again = tmp_path / "x.csv", [{f"f{n}": n} for n in range(8)]
    sink = CsvSink(path, fsync=False, overwrite=False, rewrite_bytes=0)
    sink.restore(None)
    checkpoint = flushed(sink, *again)
    assert len(rows(path)[0]) < 8
    sink.close()  # as if killed

    second = CsvSink(path, fsync=False, overwrite=False, rewrite_bytes=0)
    second.restore(checkpoint)
    second.write([item({"f0": "last"})])
    second.finish()
    second.close()

    assert rows(path)[0] == [f"f{n}" for n in range(8)]
    assert rows(path)[1:] == [
        *([str(n) if n == m else "" for m in range(8)] for n in range(8)),
        ["last", *[""] * 7],
    ]


def test_a_column_that_came_after_the_checkpoint_is_removed(tmp_path: Path) -> None:
    sink = open_csv(path := tmp_path / "x.csv")
    sink.restore(None)
    checkpoint = flushed(sink, {"a": 1}, {"a": "x,\ny"})
    before = path.read_bytes()
    flushed(sink, {"a": 2, "b": 3}, {"c": 3})
    sink.finish()
    sink.close()
    (tmp_path / ".x.csv.draft").write_bytes(b"half a file")

    for _ in range(2):
        again = open_csv(path)
        again.restore(checkpoint)
        again.close()
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["x.csv"]


def test_a_file_that_was_replaced_meanwhile_is_not_rewritten(tmp_path: Path) -> None:
    sink = open_csv(path := tmp_path / "x.csv")
    sink.restore(None)
    flushed(sink, {"a": 1})
    (other := tmp_path / "other.csv").write_bytes(path.read_bytes())
    other.replace(path)
    before = path.read_bytes()

    with pytest.raises(Misconfigured):
        flushed(sink, {"a": 2, "b": 3})
    assert path.read_bytes() == before
    sink.close()


def test_every_earlier_checkpoint_can_be_restored(tmp_path: Path) -> None:
    """Also in another order, and where rows had more cells than the header."""
    records = [{f"f{n % 3 if n < 6 else n}": n, "x": "a\nb"} for n in range(12)]
    path = tmp_path / "x.csv"

    def open_(rewrite_bytes: int) -> CsvSink:
        return CsvSink(path, fsync=False, overwrite=False, rewrite_bytes=rewrite_bytes)

    for rewrite_bytes in (0, 1 << 20):
        path.unlink(missing_ok=True)
        sink = open_(rewrite_bytes)
        sink.restore(None)
        checkpoints = [flushed(sink, record) for record in records]
        sink.finish()
        sink.close()
        for count in (12, 9, 5, 5, 1):
            again = open_(rewrite_bytes)
            again.restore(checkpoints[count - 1])
            again.finish()
            again.close()
            header, *found = rows(path)
            columns = list(dict.fromkeys(field for record in records[:count] for field in record))
            assert header == columns
            assert found == [[str(record.get(field, "")) for field in columns] for record in records[:count]]
            assert FACTORY.recount is not None
            assert FACTORY.recount(str(path), checkpoints[count - 1]) == count


def test_a_killed_process_that_rewrites_leaves_every_committed_row_once(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    committed: bytes | None = None
    count = 0
    for seed in range(30):
        rng = random.Random(seed)
        sink = open_csv(path)
        sink.restore(committed)
        committed = committed or sink.flush()
        with ExitStack() as stack:
            stack.callback(sink.close)
            with suppress(_Killed), pytest.MonkeyPatch.context() as patch:
                _kill_after(patch, rng.randint(0, 12))
                for _ in range(4):
                    batch = [{"n": n, f"f{n}": n} for n in range(count, count + rng.randint(1, 3))]
                    sink.write([item(record) for record in batch])
                    checkpoint = sink.flush()
                    if rng.random() < 0.7:
                        committed, count = checkpoint, batch[-1]["n"] + 1
                    else:
                        break  # flushed and not committed

    last = open_csv(path)
    last.restore(committed)
    last.finish()
    last.close()
    header, *found = rows(path)
    assert count > 30
    assert header == ["n", *(f"f{n}" for n in range(count))]
    assert [row[0] for row in found] == [str(n) for n in range(count)]
    assert all(row[n + 1] == str(n) and "".join(row[1:]) == str(n) for n, row in enumerate(found))


class _Killed(BaseException):
    pass


def _kill_after(patch: pytest.MonkeyPatch, calls: int) -> None:
    """Raise in one of the calls that change the file: before it, or after it."""
    left = calls

    def dying(genuine: Any) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise _Killed
            result = genuine(*arguments)
            if left == 1 and calls % 2:
                raise _Killed
            return result

        return call

    patch.setattr(os, "pwrite", dying(os.pwrite))
    patch.setattr(Path, "replace", dying(Path.replace))


def test_without_space_for_a_second_file_rows_are_still_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = os.pwrite

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".draft"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return genuine(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    sink = open_csv(path := tmp_path / "x.csv")
    sink.restore(None)
    flushed(sink, {"a": 1}, {"b": 2}, {"a": 3})
    assert rows(path) == [["a"], ["1"], ["", "2"], ["3", ""]]
    with pytest.raises(Unavailable, match="No space left"):
        sink.finish()
    monkeypatch.undo()

    sink.finish()
    sink.close()
    assert rows(path) == [["a", "b"], ["1", ""], ["", "2"], ["3", ""]]


def test_a_file_of_an_earlier_version_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b'a\r\n1\r\n"x\r\ny"\r\n')
    old = msgspec.msgpack.encode([1, path.stat().st_size, ["a"], False, 12345])
    assert FACTORY.recount is not None
    assert FACTORY.recount(str(path), old) == 2

    sink = open_csv(path)
    sink.restore(old)
    sink.write([item({"b": 2})])
    checkpoint = sink.finish()
    sink.close()

    assert rows(path) == [["a", "b"], ["1", ""], ["x\r\ny", ""], ["", "2"]]
    assert FACTORY.recount(str(path), checkpoint) == 3
    with pytest.raises(Misconfigured, match="as 3 files"):
        open_csv(path).restore(msgspec.msgpack.encode([3, 5, ["a"], False, 12345]))


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
