import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from shoal.model.errors import Misconfigured
from shoal.sinks import MultiSink, SinkCapabilities, open_sink
from shoal.sinks.csv import CsvSink
from shoal.sinks.jsonl import JsonlSink, StdoutSink
from shoal.sinks.parquet import ParquetSink
from shoal.sinks.registry import resolve
from shoal.sinks.sqlite import SqliteSink


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.jsonl", JsonlSink),
        ("a.ndjson", JsonlSink),
        ("dir.csv/a.JSONL", JsonlSink),
        ("a.csv", CsvSink),
        ("a.sqlite", SqliteSink),
        ("a.db", SqliteSink),
        ("a.parquet", ParquetSink),
        ("a.parquet/", ParquetSink),
        ("-", StdoutSink),
    ],
)
def test_the_suffix_chooses_the_format(path: str, kind: type) -> None:
    assert isinstance(open_sink(path), kind)


@pytest.mark.parametrize("path", ["a.jsonl/", "a.csv/", "a.db/"])
def test_a_format_of_one_file_refuses_a_folder(path: str) -> None:
    with pytest.raises(Misconfigured, match="leave out the / at the end"):
        open_sink(path)


def test_opening_touches_nothing(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.csv", "a.db", "a.parquet"):
        open_sink(str(tmp_path / name))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["", "out", "out.json.gz", "out.xlsx", ".csv/", "jsonl"])
def test_the_error_for_an_unknown_suffix_lists_the_known_ones(path: str) -> None:
    with pytest.raises(
        Misconfigured,
        match=r"\.jsonl, \.ndjson, \.jsonl\.gz, \.jsonl\.zst, \.csv, \.csv\.gz, \.csv\.zst, \.sqlite, \.db, \.parquet, and - ",
    ):
        open_sink(path)


def test_the_error_for_an_unknown_scheme_does_not_contain_the_address() -> None:
    with pytest.raises(Misconfigured, match="no sink for the scheme 'mysql'; known: postgresql") as caught:
        open_sink("mysql://me:secret@host/x.jsonl")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("output", "package", "extra"),
    [("a.parquet", "pyarrow", "parquet"), ("postgres://me:secret@host/db", "asyncpg", "postgres")],
)
def test_the_error_for_a_missing_package_names_the_extra(
    output: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = builtins.__import__

    def without_package(name: str, *args: Any) -> Any:
        if name.startswith(package):
            raise ImportError(name)
        return genuine(name, *args)

    ours = ("shoal.sinks.parquet", "shoal.sinks.tables", "shoal.sinks.postgres")
    for module in [name for name in sys.modules if name.startswith(ours)]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", without_package)

    with pytest.raises(Misconfigured, match=rf"pip install 'shoal\[{extra}\]'") as caught:
        open_sink(output)
    assert "secret" not in str(caught.value)


def test_the_same_output_twice_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(Misconfigured, match="twice"):
        MultiSink(["a.jsonl", str(tmp_path / "b" / ".." / "a.jsonl")])


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("a.jsonl", SinkCapabilities(is_file=True, countable=True)),
        ("a.csv", SinkCapabilities(is_file=True, countable=True)),
        ("a.db", SinkCapabilities(is_file=True, countable=True)),
        ("a.parquet", SinkCapabilities(is_file=True, countable=True)),
        ("-", SinkCapabilities()),
        ("postgres://h/db", SinkCapabilities(shared=True, keeps_checkpoint=True, countable=True)),
    ],
)
def test_the_capabilities_of_an_output_come_from_its_sink(output: str, expected: SinkCapabilities) -> None:
    assert resolve(output).capabilities == expected


def test_a_fleet_writes_files_and_outputs_that_store_their_checkpoint() -> None:
    assert SinkCapabilities(is_file=True).fleet
    assert SinkCapabilities(keeps_checkpoint=True).fleet
    assert not SinkCapabilities(shared=True, countable=True).fleet
