"""What every sink promises: each item once, in order, whatever happens between two commits."""

import csv
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.servers.postgres import ask
from tests.servers.shared import shared_database

from shoal.model.errors import Misconfigured
from shoal.model.page import Item
from shoal.sinks import MultiSink, Sink, open_sink
from shoal.sinks.csv_safety import harmless
from shoal.sinks.parquet import ParquetSink

Row = tuple[int, str]
csv.field_size_limit(1 << 30)


def item(number: int, text: str = "text", key: str = "") -> Item:
    return Item(key or f"key-{number}", json.dumps({"n": number, "text": text}, ensure_ascii=False).encode())


def items(numbers: Iterable[int]) -> list[Item]:
    return [item(number) for number in numbers]


def read_jsonl(path: Path) -> list[Row]:
    lines = path.read_bytes().split(b"\n")
    assert lines.pop() == b""
    return [(row["n"], row["text"]) for row in map(json.loads, lines)]


def read_csv(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        return [(int(row["n"]), row["text"]) for row in csv.DictReader(file, strict=True)]


def read_sqlite(path: Path) -> list[Row]:
    database = sqlite3.connect(path)
    try:
        if not database.execute("SELECT 1 FROM items").fetchone():
            return []
        return database.execute("SELECT n, text FROM items ORDER BY _id").fetchall()
    finally:
        database.close()


def read_parquet(path: Path) -> list[Row]:
    if not any(path.glob("part-*.parquet")):
        return []
    table = pq.read_table(path)
    return list(zip(table["n"].to_pylist(), table["text"].to_pylist(), strict=True))


def table_at(path: Path) -> str:
    """Name the table that stands for a file."""
    return f"t{hashlib.sha256(bytes(path)).hexdigest()[:16]}"


def read_postgres(path: Path) -> list[Row]:
    rows = ask(os.environ["TEST_POSTGRES"], f"SELECT item FROM {table_at(path)} ORDER BY _id")
    return [(row["n"], row["text"]) for row in (json.loads(row["item"]) for row in rows)]


@dataclass(frozen=True)
class Format:
    """One kind of output: where it goes, how it is opened and read, and what becomes of its text."""

    name: str
    read: Callable[[Path], list[Row]]
    text: Callable[[str], str] = str

    def open(self, path: Path, *, overwrite: bool = False) -> Sink:
        if self.name == "out.parquet":  # with parts of a few rows, so that there are many
            return ParquetSink(path, fsync=False, overwrite=overwrite, part_rows=7)
        return open_sink(self.output(path), overwrite=overwrite)

    def output(self, path: Path) -> str:
        """Spell the output as a person would."""
        if self.name == "out.postgres":
            return f"{os.environ['TEST_POSTGRES']}?table={table_at(path)}"
        return str(path)

    def take_away(self, path: Path) -> None:
        if self.name == "out.postgres":
            ask(
                os.environ["TEST_POSTGRES"],
                f"ALTER TABLE {table_at(path)} RENAME TO {table_at(path)}_elsewhere",
            )
        else:
            path.rename(path.with_name("elsewhere"))


FORMATS = {
    "jsonl": Format("out.jsonl", read_jsonl),
    "csv": Format("out.csv", read_csv, text=harmless),
    "sqlite": Format("out.sqlite", read_sqlite),
    "parquet": Format("out.parquet", read_parquet),
    "postgres": Format("out.postgres", read_postgres, text=lambda text: text.replace("\0", "\\0")),
}


@pytest.fixture(scope="module")
def database() -> Iterator[None]:
    """A server for the formats that need one; where it is, processes learn from their environment."""
    with shared_database() as dsn, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEST_POSTGRES", dsn)
        yield


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> Format:
    if request.param == "postgres":
        request.getfixturevalue("database")
    return FORMATS[request.param]


@dataclass
class Output:
    """An output under test, restored as a store would have it."""

    form: Format
    path: Path
    committed: bytes | None = None

    def resume(self, *, overwrite: bool = False) -> Sink:
        sink = self.form.open(self.path, overwrite=overwrite)
        sink.restore(self.committed)
        self.committed = self.committed or sink.flush()
        return sink

    def commit(self, sink: Sink) -> None:
        self.committed = sink.flush()

    def read(self) -> list[Row]:
        """Finish what is committed, and read it."""
        sink = self.resume()
        self.committed = sink.finish()
        sink.close()
        return self.form.read(self.path)

    def numbers(self) -> list[int]:
        return [number for number, _ in self.read()]


@pytest.fixture
def output(form: Format, tmp_path: Path) -> Output:
    return Output(form, tmp_path / form.name)


def test_items_come_out_once_and_in_order(output: Output) -> None:
    sink = output.resume()
    for start in range(0, 50, 10):
        sink.write(items(range(start, start + 10)))
        output.commit(sink)
    sink.close()

    assert output.numbers() == list(range(50))


def test_a_finished_output_can_go_on(output: Output) -> None:
    for start in (0, 5, 10):
        sink = output.resume()
        sink.write(items(range(start, start + 5)))
        output.committed = sink.finish()
        sink.close()

        assert [number for number, _ in output.form.read(output.path)] == list(range(start + 5))


def test_what_was_flushed_and_never_committed_is_cut_off(output: Output) -> None:
    sink = output.resume()
    sink.write(items(range(10)))
    output.commit(sink)
    sink.write(items(range(10, 30)))
    sink.flush()
    sink.close()

    assert output.numbers() == list(range(10))


def test_what_was_written_and_never_flushed_is_dropped(output: Output) -> None:
    sink = output.resume()
    sink.write(items(range(3)))
    output.commit(sink)
    sink.write(items(range(3, 6)))
    sink.close()

    assert output.numbers() == [0, 1, 2]


def test_a_replay_after_the_cut_gives_the_same_as_no_crash_at_all(output: Output) -> None:
    sink = output.resume()
    sink.write(items(range(5)))
    output.commit(sink)
    sink.write(items(range(5, 12)))
    sink.flush()
    sink.close()

    again = output.resume()
    again.write(items(range(5, 20)))
    output.commit(again)
    again.close()

    assert output.numbers() == list(range(20))


def test_a_page_that_changed_in_between_leaves_nothing_behind(output: Output) -> None:
    sink = output.resume()
    sink.write([item(0)])
    output.commit(sink)
    sink.write([item(1), item(2), item(3)])
    sink.flush()
    sink.close()

    again = output.resume()
    again.write([item(1, "changed")])
    output.commit(again)
    again.close()

    assert output.read() == [(0, "text"), (1, "changed")]


def test_a_crash_before_the_first_commit_does_not_lock_the_crawl_out(output: Output) -> None:
    sink = output.form.open(output.path)
    sink.restore(None)
    sink.close()

    assert output.numbers() == []


def test_a_crash_during_the_first_batch_is_cut_back_to_nothing(output: Output) -> None:
    sink = output.resume()
    sink.write(items(range(20)))
    sink.flush()
    sink.close()

    assert output.numbers() == []


def test_a_finish_that_was_never_committed_is_undone(output: Output) -> None:
    sink = output.resume()
    sink.write(items(range(4)))
    output.commit(sink)
    sink.write(items(range(4, 6)))
    sink.finish()
    sink.close()

    again = output.resume()
    again.write(items(range(4, 9)))
    output.commit(again)
    again.close()

    assert output.numbers() == list(range(9))


def test_restoring_again_changes_nothing(output: Output) -> None:
    sink = output.resume()
    sink.write(items(range(10)))
    output.commit(sink)
    sink.write(items(range(10, 20)))
    sink.flush()
    sink.close()

    for _ in range(3):
        output.resume().close()

    assert output.numbers() == list(range(10))


def test_a_flush_without_new_items_gives_the_same_checkpoint(output: Output) -> None:
    sink = output.resume()
    sink.write(items(range(3)))
    output.commit(sink)
    sink.write([])

    assert sink.flush() == output.committed
    sink.close()


def test_somebody_elses_output_is_refused_and_left_alone(output: Output) -> None:
    theirs = Output(output.form, output.path)
    sink = theirs.resume()
    sink.write(items(range(3)))
    theirs.commit(sink)
    sink.close()

    with pytest.raises(Misconfigured, match=r"not written.*--fresh"):
        output.resume()

    assert theirs.numbers() == [0, 1, 2]


def test_an_output_is_overwritten_only_when_told_to(output: Output) -> None:
    theirs = Output(output.form, output.path)
    sink = theirs.resume()
    sink.write(items(range(30)))
    theirs.committed = sink.finish()
    sink.close()

    sink = output.resume(overwrite=True)
    sink.write([item(7)])
    output.commit(sink)
    sink.close()

    assert output.numbers() == [7]


def test_an_output_that_has_vanished_is_reported(output: Output) -> None:
    sink = output.resume()
    sink.write(items(range(3)))
    output.commit(sink)
    sink.close()
    output.form.take_away(output.path)

    with pytest.raises(Misconfigured, match="not as this crawl has left it"):
        output.resume()


def test_an_output_that_is_taken_away_while_it_is_written_is_noticed(output: Output) -> None:
    sink = output.resume()
    sink.write(items(range(10)))
    output.commit(sink)
    output.form.take_away(output.path)

    sink.write(items(range(10, 20)))
    with pytest.raises(Misconfigured, match=r"not as this crawl has left it|does not exist"):
        sink.flush()
    sink.close()


@pytest.mark.parametrize("name", ["jsonl", "csv", "sqlite", "parquet"])
def test_a_file_that_is_deleted_after_the_last_flush_is_noticed_at_the_end(name: str, tmp_path: Path) -> None:
    form = FORMATS[name]
    path = tmp_path / form.name
    sink = form.open(path)
    sink.restore(None)
    sink.write(items(range(7)))  # a whole part
    sink.flush()
    shutil.rmtree(path) if path.is_dir() else path.unlink()

    with pytest.raises(Misconfigured, match="not as this crawl has left it"):
        sink.finish()
    sink.close()


@pytest.mark.parametrize("name", ["jsonl", "csv"])
def test_a_file_that_is_shortened_while_it_is_written_is_not_filled_with_nothing(
    name: str, tmp_path: Path
) -> None:
    form = FORMATS[name]
    path = tmp_path / form.name
    sink = form.open(path)
    sink.restore(None)
    sink.write(items(range(10)))
    sink.flush()
    os.truncate(path, 5)

    sink.write(items(range(10, 20)))
    with pytest.raises(Misconfigured, match="not as this crawl has left it"):
        sink.flush()
    sink.close()
    assert path.stat().st_size == 5


def test_what_somebody_else_appends_to_a_file_is_no_part_of_it(tmp_path: Path) -> None:
    sink = open_sink(str(tmp_path / "out.jsonl"))
    sink.restore(None)
    sink.write(items(range(2)))
    sink.flush()
    with (tmp_path / "out.jsonl").open("ab") as file:
        file.write(b"x" * 1000)

    sink.write(items(range(2, 4)))
    sink.finish()
    sink.close()

    assert [number for number, _ in read_jsonl(tmp_path / "out.jsonl")] == [0, 1, 2, 3]


def test_two_equal_items_under_different_keys_are_two_items(output: Output) -> None:
    pair = [item(1, key="page-0"), item(1, key="page-1")]
    sink = output.resume()
    sink.write(pair)
    sink.flush()
    sink.close()

    again = output.resume()
    again.write(pair)
    output.commit(again)
    again.close()

    assert output.numbers() == [1, 1]


ODD = [
    "",
    'quotes " and "" and \'',
    "commas, semicolons; tabs\t, and more",
    "lines\nand\r\nlines\rand\u2028lines",
    "nul \0 in the middle",
    "\uffff\ufffe \u202e bidi \u2066 marks \ufeff",
    "e" + "\u0301" * 5000,
    "🐟 beyond the first plane",
    "=cmd|' /C calc'!A0",
    " leading and trailing ",
    "\\0 \\n backslashes",
    "[1, 2]",
    "null",
]


def test_odd_text_is_kept(output: Output) -> None:
    sink = output.resume()
    sink.write([item(number, text) for number, text in enumerate(ODD)])
    output.commit(sink)
    sink.close()

    assert output.read() == [(number, output.form.text(text)) for number, text in enumerate(ODD)]


def test_ten_megabytes_fit_one_field(output: Output) -> None:
    text = 'a"b,c\n' * (10 * 1024 * 1024 // 6)
    sink = output.resume()
    sink.write([item(1, text), item(2)])
    output.commit(sink)
    sink.close()

    assert output.read() == [(1, text), (2, "text")]


def test_folders_are_made_as_needed(output: Output) -> None:
    deep = Output(output.form, output.path.parent / "a" / "b" / output.form.name)
    sink = deep.resume()
    sink.write([item(1)])
    deep.commit(sink)
    sink.close()

    assert deep.numbers() == [1]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.sampled_from(["write", "write", "flush", "commit", "crash", "finish"]), max_size=15))
def test_any_history_of_crashes_ends_with_every_item_once(
    output: Output, tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    run = Output(output.form, tmp_path_factory.mktemp("run") / output.form.name)
    sink, written, committed = run.resume(), 0, 0
    for step in steps:
        match step:
            case "write":
                sink.write(items(range(written, written + 3)))
                written += 3
            case "flush":
                sink.flush()
            case "commit":
                run.commit(sink)
                committed = written
            case "finish":
                run.committed = sink.finish()
                committed = written
            case "crash":
                sink.flush()
                sink.close()
                sink, written = run.resume(), committed
    sink.close()

    assert run.numbers() == list(range(committed))


@pytest.mark.usefixtures("database")
def test_several_outputs_share_one_checkpoint(tmp_path: Path) -> None:
    paths = {form.name: tmp_path / form.name for form in FORMATS.values()}
    outputs = [form.output(paths[form.name]) for form in FORMATS.values()]
    sinks = MultiSink(outputs)
    sinks.restore(None)
    sinks.write(items(range(5)))
    committed = sinks.flush()
    sinks.write(items(range(5, 9)))
    sinks.flush()
    sinks.close()

    again = MultiSink(outputs)
    again.restore(committed)
    again.write(items(range(5, 7)))
    again.finish()
    again.close()

    for form in FORMATS.values():
        assert [number for number, _ in form.read(paths[form.name])] == list(range(7))


# A process that is really killed


def write_until_killed(name: str, path: Path, store: Path) -> None:
    """Write for ever, committing to a file that plays the store's part."""
    output = Output(FORMATS[name], path)
    count = 0
    if store.exists():
        kept = store.read_bytes()
        count, output.committed = int.from_bytes(kept[:8]), kept[8:]

    def commit() -> None:
        assert output.committed is not None
        draft = store.with_suffix(".draft")
        draft.write_bytes(count.to_bytes(8) + output.committed)
        draft.replace(store)
        print(count, flush=True)

    sink = output.resume()
    commit()
    while True:
        batch = random.randint(1, 5)
        sink.write(items(range(count, count + batch)))
        output.committed = sink.flush() if random.random() < 0.9 else sink.finish()
        count += batch
        commit()


def test_a_killed_process_leaves_every_committed_item_once(form: Format, tmp_path: Path) -> None:
    path, store = tmp_path / form.name, tmp_path / "store"
    rng = random.Random(form.name)
    [name] = [name for name in FORMATS if FORMATS[name] is form]
    for _ in range(4):
        command = [sys.executable, "-m", "tests.contract.test_sinks", name, str(path), str(store)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(rng.randint(1, 40)):
                assert process.stdout.readline()
            process.send_signal(signal.SIGKILL)

    kept = store.read_bytes()
    count, committed = int.from_bytes(kept[:8]), kept[8:]
    assert Output(form, path, committed).numbers() == list(range(count))
    assert count > 0


if __name__ == "__main__":
    write_until_killed(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
