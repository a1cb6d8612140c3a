import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from shoal.model.errors import Misconfigured
from shoal.sinks import MultiSink, open_sink
from shoal.sinks.csv import CsvSink
from shoal.sinks.jsonl import JsonlSink, StdoutSink
from shoal.sinks.parquet import ParquetSink
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
        ("-", StdoutSink),
    ],
)
def test_the_ending_chooses_the_format(path: str, kind: type) -> None:
    assert isinstance(open_sink(path), kind)


def test_opening_touches_nothing(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.csv", "a.db", "a.parquet"):
        open_sink(str(tmp_path / name))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["", "out", "out.json.gz", "out.xlsx", ".csv/", "jsonl"])
def test_an_unknown_ending_names_the_known_ones(path: str) -> None:
    with pytest.raises(Misconfigured, match=r"\.jsonl, \.ndjson, \.csv, \.sqlite, \.db, \.parquet, and - "):
        open_sink(path)


def test_an_address_of_an_unknown_kind_is_not_repeated() -> None:
    with pytest.raises(Misconfigured, match="nothing here writes to 'mysql'; known: postgresql") as caught:
        open_sink("mysql://me:secret@host/x.jsonl")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("output", "package", "extra"),
    [("a.parquet", "pyarrow", "parquet"), ("postgres://me:secret@host/db", "asyncpg", "postgres")],
)
def test_without_its_package_an_output_names_the_extra(
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


def test_the_same_output_twice_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(Misconfigured, match="twice"):
        MultiSink(["a.jsonl", str(tmp_path / "b" / ".." / "a.jsonl")])
