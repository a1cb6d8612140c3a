"""A sink for an output: a database by its address, a file by the path's ending."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from shoal.model.errors import Misconfigured
from shoal.model.page import Item
from shoal.sinks.names import STDOUT, is_database, name_of

if TYPE_CHECKING:
    from shoal.sinks.postgres.sink import PostgresSink


class Sink(Protocol):
    """One output. The contract is in the package's description."""

    def restore(self, checkpoint: bytes | None) -> None: ...
    def write(self, items: Sequence[Item]) -> None: ...
    def flush(self) -> bytes: ...
    def finish(self) -> bytes: ...
    def close(self) -> None: ...


def open_sink(path: str, *, fsync: bool = False, overwrite: bool = False) -> Sink:
    """Choose the sink for `path`; nothing is touched before `restore`. `-` is standard output, as JSONL."""
    if path == STDOUT:
        from shoal.sinks.jsonl import StdoutSink

        return StdoutSink()
    if is_database(path):
        return open_postgres(path, overwrite=overwrite)
    check(path)
    return _FORMATS[Path(path).suffix.lower()](Path(path), fsync, overwrite)


def check(output: str) -> None:
    """Raise `Misconfigured` for an output that no machine could write; what this one lacks does not count."""
    if output == STDOUT or is_database(output):
        return
    scheme, is_address, _ = output.partition("://")
    if is_address:  # name the scheme only: an address may carry a password
        raise Misconfigured(f"output: nothing here writes to {scheme!r}; known: postgresql")
    if Path(output).suffix.lower() not in _FORMATS:
        known = ", ".join(_FORMATS)
        raise Misconfigured(
            f"output {output!r}: the ending chooses the format; known: {known}, and - for stdout"
        )


def open_postgres(dsn: str, *, overwrite: bool = False) -> "PostgresSink":
    """Make the sink for a PostgreSQL table, if its driver is installed."""
    try:
        from shoal.sinks.postgres.sink import PostgresSink
    except ImportError as error:
        raise Misconfigured(f"output {name_of(dsn)!r}: run  pip install 'shoal[postgres]'  first") from error
    return PostgresSink(dsn, overwrite=overwrite)


def _jsonl(path: Path, fsync: bool, overwrite: bool) -> Sink:
    from shoal.sinks.jsonl import JsonlSink

    return JsonlSink(path, fsync=fsync, overwrite=overwrite)


def _csv(path: Path, fsync: bool, overwrite: bool) -> Sink:
    from shoal.sinks.csv import CsvSink

    return CsvSink(path, fsync=fsync, overwrite=overwrite)


def _sqlite(path: Path, fsync: bool, overwrite: bool) -> Sink:
    from shoal.sinks.sqlite import SqliteSink

    return SqliteSink(path, fsync=fsync, overwrite=overwrite)


def _parquet(path: Path, fsync: bool, overwrite: bool) -> Sink:
    try:
        from shoal.sinks.parquet import ParquetSink
    except ImportError as error:
        raise Misconfigured(f"output {str(path)!r}: run  pip install 'shoal[parquet]'  first") from error
    return ParquetSink(path, fsync=fsync, overwrite=overwrite)


_FORMATS: dict[str, Callable[[Path, bool, bool], Sink]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".csv": _csv,
    ".sqlite": _sqlite,
    ".db": _sqlite,
    ".parquet": _parquet,
}
