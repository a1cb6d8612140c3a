"""SQLite: migrations that only go forward, and errors in our words."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from shoal.model.errors import Misconfigured, Unavailable
from shoal.sqlite_database import connect_for_reading, open_database, transaction, translate, translated

ONE = "CREATE TABLE one(n INTEGER)"
TWO = "CREATE TABLE two(n INTEGER); INSERT INTO two SELECT n + 1 FROM one"


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_a_database_is_taken_forward_one_version_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(open_database(path, [ONE], fsync=False)) as first:
        first.execute("INSERT INTO one VALUES (1)")
        assert version(first) == 1
    with closing(open_database(path, [ONE, TWO], fsync=False)) as second:
        assert version(second) == 2
        assert second.execute("SELECT n FROM two").fetchall() == [(2,)]
    with closing(open_database(path, [ONE, TWO], fsync=False)) as third:
        assert third.execute("SELECT n FROM two").fetchall() == [(2,)]


def test_a_migration_that_fails_leaves_the_version_before(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_database(path, [ONE], fsync=False).close()
    with pytest.raises(sqlite3.OperationalError):
        open_database(path, [ONE, "CREATE TABLE two(n); INSERT INTO nowhere VALUES (1)"], fsync=False)
    with closing(open_database(path, [ONE], fsync=False)) as again:
        assert version(again) == 1


def test_a_database_from_the_future_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_database(path, [ONE, TWO], fsync=False).close()
    with pytest.raises(Misconfigured, match="newer Shoal") as refused:
        open_database(path, [ONE], fsync=False)
    assert "\n" not in str(refused.value)


def test_a_database_of_another_program_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as theirs:
        theirs.execute("CREATE TABLE precious(n)")
        theirs.commit()
    before = path.read_bytes()
    with pytest.raises(Misconfigured, match="other program"):
        open_database(path, [ONE], fsync=False)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"not a database, really not" * 100)
    with pytest.raises(Misconfigured, match=r"store\.db is damaged or not a database"):
        open_database(path, [ONE], fsync=False)


def test_reading_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="no store"):
        connect_for_reading(tmp_path / "store.db")
    assert list(tmp_path.iterdir()) == []


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_database(path, [ONE], fsync=False).close()
    with closing(connect_for_reading(path)) as reader:
        with pytest.raises(Misconfigured, match="cannot be written"), translated(path):
            reader.execute("INSERT INTO one VALUES (1)")


def test_power_loss_is_survived_on_demand(tmp_path: Path) -> None:
    for fsync, level in ((False, 1), (True, 2)):
        with closing(open_database(tmp_path / f"{fsync}.db", [ONE], fsync=fsync)) as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (level,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_transaction_is_whole_or_nothing(tmp_path: Path) -> None:
    with closing(open_database(tmp_path / "store.db", [ONE], fsync=False)) as connection:
        with pytest.raises(KeyboardInterrupt), transaction(connection):
            connection.execute("INSERT INTO one VALUES (1)")
            raise KeyboardInterrupt
        assert connection.execute("SELECT count(*) FROM one").fetchone() == (0,)
        with transaction(connection):
            connection.execute("INSERT INTO one VALUES (1)")
        assert connection.execute("SELECT count(*) FROM one").fetchone() == (1,)


def test_a_full_disk_is_called_that(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(open_database(path, [ONE], fsync=False)) as connection:
        connection.execute("PRAGMA max_page_count = 3")
        with pytest.raises(Unavailable, match="disk full"), translated(path), transaction(connection):
            connection.executemany("INSERT INTO one VALUES (?)", [(n,) for n in range(100_000)])


def test_our_own_mistakes_are_not_dressed_up(tmp_path: Path) -> None:
    with closing(open_database(tmp_path / "store.db", [ONE], fsync=False)) as connection:
        with pytest.raises(sqlite3.OperationalError) as mistake:
            connection.execute("SELECT nothing FROM nowhere")
        assert translate(mistake.value, tmp_path) is None


def test_processes_that_make_a_database_at_the_same_time_do_not_disturb_one_another(tmp_path: Path) -> None:
    slow = "CREATE TABLE a (n); " + "".join(f"CREATE TABLE a{n} (n); " for n in range(50))

    def opened(number: int) -> int:
        with closing(
            open_database(tmp_path / f"{number // 8}.db", (slow, "CREATE TABLE b (n)"), fsync=False)
        ) as database:
            [count] = database.execute("SELECT count(*) FROM b").fetchone()
            return int(count)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(opened, range(160))) == [0] * 160
