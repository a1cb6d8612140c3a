"""The contract of a sink, run against every built-in one. The tests are in `shoal.testing.contracts.sink`."""

import csv
import gzip
import hashlib
import io
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from backports import zstd
from tests.servers.postgres import ask
from tests.servers.shared import shared_database

from shoal.model.errors import Misconfigured
from shoal.sinks import MultiSink, Sink, open_sink
from shoal.sinks.contract import CheckpointedSink
from shoal.sinks.csv_safety import escape_formulas
from shoal.sinks.parquet import ParquetSink
from shoal.sinks.postgres.sink import PostgresSink
from shoal.testing.contracts.sink import (
    CheckpointedSinkContract,
    SinkBench,
    SinkContract,
    SinkCrawl,
    item,
    items,
)

Rows = list[dict[str, Any]]
csv.field_size_limit(1 << 30)


@dataclass
class FileBench:
    output: str

    @property
    def path(self) -> Path:
        return Path(self.output)

    def open(self, *, overwrite: bool = False) -> Sink:
        return open_sink(self.output, overwrite=overwrite)

    def read(self) -> Rows:
        raise NotImplementedError

    def remove(self) -> None:
        self.path.rename(self.path.with_name("elsewhere"))

    def stored_text(self, text: str) -> str:
        return text


def contents(path: Path) -> bytes:
    """Return what a file holds, by the readers that others use."""
    match path.suffix:
        case ".gz":
            return gzip.decompress(path.read_bytes())
        case ".zst":
            with zstd.open(path) as file:
                return file.read()
    return path.read_bytes()


class JsonlBench(FileBench):
    def read(self) -> Rows:
        lines = contents(self.path).split(b"\n")
        assert lines.pop() == b""
        return [json.loads(line) for line in lines]


class CsvBench(FileBench):
    def read(self) -> Rows:
        file = io.StringIO(contents(self.path).decode(), newline="")
        return [{**row, "n": int(row["n"])} for row in csv.DictReader(file, strict=True)]

    def stored_text(self, text: str) -> str:
        return escape_formulas(text)


class SqliteBench(FileBench):
    def read(self) -> Rows:
        database = sqlite3.connect(self.path)
        try:
            if not database.execute("SELECT 1 FROM items").fetchone():
                return []
            rows = database.execute("SELECT n, text FROM items ORDER BY _id").fetchall()
        finally:
            database.close()
        return [{"n": number, "text": text} for number, text in rows]


class ParquetBench(FileBench):
    def open(self, *, overwrite: bool = False) -> Sink:
        # Parts of a few rows, so that there are many.
        return ParquetSink(self.output, fsync=False, overwrite=overwrite, part_rows=7)

    def read(self) -> Rows:
        if self.path.is_dir() and not any(self.path.glob("part-*.parquet")):
            return []
        rows: Rows = pq.read_table(self.path).to_pylist()
        return rows


@dataclass
class PostgresBench:
    server: str
    table: str

    @property
    def output(self) -> str:
        return f"{self.server}?table={self.table}"

    def open(self, *, overwrite: bool = False) -> Sink:
        return open_sink(self.output, overwrite=overwrite)

    def read(self) -> Rows:
        rows = ask(self.server, f"SELECT item FROM {self.table} ORDER BY _id")
        return [json.loads(row["item"]) for row in rows]

    def remove(self) -> None:
        ask(self.server, f"ALTER TABLE {self.table} RENAME TO {self.table}_elsewhere")

    def stored_text(self, text: str) -> str:
        return text.replace("\0", "\\0")


FILES = {
    "jsonl": JsonlBench,
    "jsonl.gz": JsonlBench,
    "csv": CsvBench,
    "csv.zst": CsvBench,
    "sqlite": SqliteBench,
    "parquet": ParquetBench,
    "parquet/": ParquetBench,  # a folder of parts
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with shared_database() as dsn:
        yield dsn


def postgres_bench(server: str, path: Path) -> PostgresBench:
    return PostgresBench(server, f"t{hashlib.sha256(bytes(path)).hexdigest()[:16]}")


class TestFiles(SinkContract):
    @pytest.fixture(params=FILES)
    def bench(self, request: pytest.FixtureRequest, tmp_path: Path) -> FileBench:
        return FILES[request.param](f"{tmp_path}/out.{request.param}")

    def test_missing_folders_are_created(self, bench: FileBench, tmp_path: Path) -> None:
        deep = SinkCrawl(type(bench)(f"{tmp_path}/a/b/{bench.output.removeprefix(str(tmp_path))}"))
        sink = deep.resume()
        sink.write([item(1)])
        deep.commit(sink)
        sink.close()

        assert deep.numbers() == [1]

    def test_a_file_that_is_deleted_after_the_last_flush_is_noticed_at_the_end(
        self, bench: FileBench
    ) -> None:
        sink = bench.open()
        sink.restore(None)
        sink.write(items(range(7)))  # a whole part
        sink.flush()
        shutil.rmtree(bench.path) if bench.path.is_dir() else bench.path.unlink()

        with pytest.raises(Misconfigured, match="not as this crawl has left it"):
            sink.finish()
        sink.close()

    def test_the_errors_for_a_foreign_and_a_changed_output_name_the_remedy(self, crawl: SinkCrawl) -> None:
        sink = crawl.resume()
        sink.write([item(1)])
        crawl.commit(sink)
        sink.close()

        with pytest.raises(Misconfigured, match=r"not written by this crawl.*--fresh"):
            SinkCrawl(crawl.bench).resume()
        crawl.bench.remove()
        with pytest.raises(Misconfigured, match=r"not as this crawl has left it.*--fresh"):
            crawl.resume()


class TestPostgres(SinkContract):
    @pytest.fixture
    def bench(self, server: str, tmp_path: Path) -> SinkBench:
        return postgres_bench(server, tmp_path)


class TestPostgresInAFleet(CheckpointedSinkContract):
    @pytest.fixture
    def bench(self, server: str, tmp_path: Path) -> SinkBench:
        return postgres_bench(server, tmp_path)

    def open(self, bench: SinkBench, *, overwrite: bool = False) -> CheckpointedSink:
        return PostgresSink(bench.output, overwrite=overwrite, retry_s=0.0)


@pytest.mark.parametrize("name", ["jsonl", "csv"])
def test_a_file_that_was_shortened_is_not_padded_with_zeros(name: str, tmp_path: Path) -> None:
    bench = FILES[name](str(tmp_path / f"out.{name}"))
    sink = bench.open()
    sink.restore(None)
    sink.write(items(range(10)))
    sink.flush()
    os.truncate(bench.path, 5)

    sink.write(items(range(10, 20)))
    with pytest.raises(Misconfigured, match="not as this crawl has left it"):
        sink.flush()
    sink.close()
    assert bench.path.stat().st_size == 5


def test_bytes_that_another_program_appends_to_a_file_are_cut_off(tmp_path: Path) -> None:
    bench = JsonlBench(str(tmp_path / "out.jsonl"))
    sink = bench.open()
    sink.restore(None)
    sink.write(items(range(2)))
    sink.flush()
    with bench.path.open("ab") as file:
        file.write(b"x" * 1000)

    sink.write(items(range(2, 4)))
    sink.finish()
    sink.close()

    assert [fields["n"] for fields in bench.read()] == [0, 1, 2, 3]


def test_several_outputs_share_one_checkpoint(server: str, tmp_path: Path) -> None:
    benches: list[SinkBench] = [
        kind(f"{tmp_path}/{number}.{name}") for number, (name, kind) in enumerate(FILES.items())
    ]
    benches.append(postgres_bench(server, tmp_path))
    outputs = [bench.output for bench in benches]
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

    for bench in benches:
        assert [fields["n"] for fields in bench.read()] == list(range(7))
