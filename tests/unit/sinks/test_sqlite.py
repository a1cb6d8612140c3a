import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.sinks.items import item, write_all

from shoal.model.errors import Misconfigured, Unavailable
from shoal.sinks.columns import MAX_COLUMNS
from shoal.sinks.drafts import is_written
from shoal.sinks.sqlite import SqliteSink


def open_sqlite(path: Path) -> SqliteSink:
    return SqliteSink(path, fsync=False, overwrite=False)


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(sql).fetchall()


def columns(path: Path) -> list[str]:
    return [row[1] for row in query(path, "PRAGMA table_info(items)")][2:]


def test_values_keep_their_types(tmp_path: Path) -> None:
    record = {
        "t": "x",
        "n": 5,
        "f": 0.5,
        "yes": True,
        "no": None,
        "list": [1],
        "big": 2**70,
        "less": -(2**63),
    }
    write_all(open_sqlite(path := tmp_path / "x.db"), record)

    [row] = query(path, "SELECT t, n, f, yes, no, list, big, less FROM items")
    assert row == ("x", 5, 0.5, 1, None, "[1]", str(2**70), -(2**63))


def test_a_new_field_adds_a_column(tmp_path: Path) -> None:
    write_all(open_sqlite(path := tmp_path / "x.db"), {"a": 1}, {"b": 2}, {"a": 3, "c": 4})

    assert query(path, "SELECT a, b, c FROM items ORDER BY _id") == [
        (1, None, None),
        (None, 2, None),
        (3, None, 4),
    ]


def test_an_item_replaces_the_one_with_its_key(tmp_path: Path) -> None:
    sink = open_sqlite(path := tmp_path / "x.db")
    sink.restore(None)
    sink.write([item({"a": 1, "b": 1}, "k1"), item({"a": 2}, "k2")])
    sink.flush()
    sink.write([item({"a": 3}, "k1"), item({"a": 4}, "k1")])
    sink.flush()
    sink.close()

    assert query(path, "SELECT _id, _key, a, b FROM items") == [(1, "k1", 4, None), (2, "k2", 2, None)]


def test_undoing_a_flush_restores_the_rows_it_replaced(tmp_path: Path) -> None:
    sink = open_sqlite(path := tmp_path / "x.db")
    sink.restore(None)
    sink.write([item({"a": 1, "t": "nul \0"}, "k1"), item({"a": 2}, "k2")])
    checkpoint = sink.flush()
    sink.write([item({"a": 3, "new": 1}, "k1"), item({"a": 9}, "k3")])
    sink.flush()
    sink.write([item({"a": 4}, "k1"), item({"a": 5}, "k2"), item({"a": 10}, "k3")])
    sink.flush()
    sink.close()

    again = open_sqlite(path)
    again.restore(checkpoint)
    again.close()

    assert query(path, "SELECT _key, a, t, new FROM items") == [
        ("k1", 1, "nul \0", None),
        ("k2", 2, None, None),
    ]


def test_hostile_field_names_are_column_names(tmp_path: Path) -> None:
    names = [
        'x"; DROP TABLE items; --',
        "x'); --",
        "_key",
        "_id",
        "rowid",
        "",
        "nul\0nul",
        "Name",
        "name",
        "select",
        "ü",
        "Ü",
        "a b\nc",
        "[x]",
        "`",
        "?1",
        ":x",
        "y" * 5000,
        "y" * 5001,
    ]
    write_all(open_sqlite(path := tmp_path / "x.db"), {name: n for n, name in enumerate(names)})

    [row] = query(path, "SELECT * FROM items")
    assert row[2:] == tuple(range(len(names)))
    assert query(path, "SELECT field FROM _shoal_columns ORDER BY position") == [(name,) for name in names]


def test_a_later_name_clash_keeps_the_earlier_columns(tmp_path: Path) -> None:
    sink = open_sqlite(path := tmp_path / "x.db")
    sink.restore(None)
    for record in ({"name": 1}, {"Name": 2}, {"NAME": 3, "name": 4}):
        sink.write([item(record)])
        checkpoint = sink.flush()
    sink.close()
    again = open_sqlite(path)
    again.restore(checkpoint)
    again.write([item({"Name": 5, "naMe": 6})])
    again.finish()
    again.close()

    assert columns(path) == ["name", "Name_2", "NAME_3", "naMe_4"]
    assert query(path, "SELECT name, Name_2, NAME_3, naMe_4 FROM items") == [
        (1, None, None, None),
        (None, 2, None, None),
        (4, None, 3, None),
        (None, 5, None, 6),
    ]


def test_beyond_the_limit_fields_share_a_column(tmp_path: Path) -> None:
    sink = open_sqlite(path := tmp_path / "x.db")
    sink.restore(None)
    sink.write([item({f"f{n}": n for n in range(MAX_COLUMNS + 2)})])
    checkpoint = sink.flush()
    sink.close()
    again = open_sqlite(path)
    again.restore(checkpoint)
    again.write([item({"f0": 7, "other": 8})])
    again.finish()
    again.close()

    assert len(columns(path)) == MAX_COLUMNS + 1
    assert query(path, "SELECT f0, _more FROM items") == [
        (0, f'{{"f{MAX_COLUMNS}":{MAX_COLUMNS},"f{MAX_COLUMNS + 1}":{MAX_COLUMNS + 1}}}'),
        (7, '{"other":8}'),
    ]


def test_items_without_fields_are_rows(tmp_path: Path) -> None:
    write_all(open_sqlite(path := tmp_path / "x.db"), {}, {})

    assert query(path, "SELECT count(*) FROM items") == [(2,)]


def test_it_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    sink = open_sqlite(path := tmp_path / "x.db")
    sink.restore(None)
    sink.write([item({"a": 1})])
    sink.flush()

    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT a FROM items").fetchall() == [(1,)]
        sink.write([item({"a": 2})])
        sink.finish()
        assert reader.execute("SELECT a FROM items").fetchall() == [(1,)]

    assert query(path, "SELECT a FROM items") == [(1,), (2,)]
    sink.close()


def test_a_finished_output_is_one_file(tmp_path: Path) -> None:
    write_all(open_sqlite(tmp_path / "x.db"), {"a": 1})

    assert [path.name for path in tmp_path.iterdir()] == ["x.db"]


def test_a_second_crawl_on_the_same_database_is_an_error(tmp_path: Path) -> None:
    one, other = open_sqlite(tmp_path / "x.db"), open_sqlite(tmp_path / "x.db")
    one.restore(None)
    other.restore(None)
    one.write([item({"a": 1})])
    one.flush()
    other.write([item({"a": 2})])

    with pytest.raises(Misconfigured, match="another crawl"):
        other.flush()

    one.close()
    other.close()
    assert query(tmp_path / "x.db", "SELECT a FROM items") == [(1,)]


def test_another_database_under_the_same_name_is_an_error(tmp_path: Path) -> None:
    sink = open_sqlite(path := tmp_path / "x.db")
    sink.restore(None)
    checkpoint = sink.flush()
    sink.close()
    path.unlink()
    open_sqlite(path).restore(None)

    with pytest.raises(Misconfigured, match="not as this crawl has left it"):
        open_sqlite(path).restore(checkpoint)


@pytest.mark.parametrize("theirs", [b"not a database at all, but long enough to be one" * 100, None])
def test_a_file_of_another_program_is_refused(tmp_path: Path, theirs: bytes | None) -> None:
    path = tmp_path / "x.db"
    if theirs:
        path.write_bytes(theirs)
    else:
        query(path, "CREATE TABLE mine (x)")
    before = path.read_bytes()

    with pytest.raises(Misconfigured, match=r"output .*x\.db: "):
        open_sqlite(path).restore(None)

    assert path.read_bytes() == before  # nor is its journal mode changed
    assert [one.name for one in tmp_path.iterdir()] == ["x.db"]


@contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """Limit the size of every file that this process writes to `limit` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    sink = open_sqlite(path := tmp_path / "x.db")
    sink.restore(None)
    sink.write([item({"a": "kept"})])
    sink.flush()
    sink.write([item({"a": "x" * 3_000_000})])
    with full_disk(1_000_000), pytest.raises(Unavailable, match=r"output .*x\.db: "):
        sink.flush()

    sink.write([item({"a": "later"})])
    sink.finish()
    sink.close()

    assert query(path, "SELECT length(a) FROM items") == [(4,), (3_000_000,), (5,)]


def test_the_error_for_an_unusable_path_names_it(tmp_path: Path) -> None:
    (tmp_path / "x.db").mkdir()

    with pytest.raises(Misconfigured, match=r"output .*x\.db: unable to open"):
        open_sqlite(tmp_path / "x.db").restore(None)


def test_a_database_that_was_begun_and_never_written_does_not_count_as_written(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    sink = open_sqlite(path)
    with full_disk(8_192), pytest.raises(Unavailable):
        sink.restore(None)
    assert path.exists()
    assert not is_written(str(path))

    sink.restore(None)
    sink.close()
    assert not is_written(str(path))

    sink.restore(None)
    sink.write([item({"a": 1})])
    sink.flush()
    assert is_written(str(path))
    sink.close()
    assert is_written(str(path))


def test_a_database_of_another_program_counts_as_written(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as database:
        database.execute("CREATE TABLE theirs (a)")
    (tmp_path / "y.sqlite").write_bytes(b"not a database")

    assert is_written(str(tmp_path / "x.sqlite"))
    assert is_written(str(tmp_path / "y.sqlite"))
