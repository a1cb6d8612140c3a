"""Outputs, counted again from outside: without opening them for writing, and as far as a checkpoint reaches.

What lies beyond the checkpoint is not the crawl's yet: a kill may have left it, and the next run cuts it off.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import msgspec

from shoal.model.errors import Misconfigured, Rejected, Unavailable
from shoal.model.limits import MIB
from shoal.sinks import csv, sqlite
from shoal.sinks.names import STDOUT, is_database


def outputs(checkpoint: bytes | None) -> Mapping[str, bytes]:
    """Name the outputs of a crawl, each with its own checkpoint; what went to standard output is gone."""
    known = {} if checkpoint is None else msgspec.msgpack.decode(checkpoint, type=dict[str, bytes])
    return {path: own for path, own in known.items() if path != STDOUT}


def recount(output: str | Path, checkpoint: bytes) -> int | None:
    """Count the items that an output holds; None: there perhaps, but it cannot be read from here.

    Raises `Rejected` if the output is not what the crawl has left: gone, shorter, ending within an item, or
    with other rows than were written.
    """
    if is_database(str(output)):
        return _database(str(output), checkpoint)
    path = Path(output)
    match path.suffix.lower():
        case ".jsonl" | ".ndjson":
            return _lines(path, msgspec.msgpack.decode(checkpoint, type=int))
        case ".csv":
            return _rows(path, msgspec.msgpack.decode(checkpoint, type=csv.CsvCheckpoint))
        case ".sqlite" | ".db":
            return _table(path, msgspec.msgpack.decode(checkpoint, type=sqlite.SqliteCheckpoint))
        case _:
            return _parts(path, checkpoint)


def _lines(path: Path, length: int) -> int:
    count, last = 0, b"\n"
    for piece in _pieces(path, length):
        count += piece.count(b"\n")
        last = piece[-1:]
    if last != b"\n":
        raise Rejected(f"output {path} ends within an item")
    return count


def _rows(path: Path, checkpoint: csv.CsvCheckpoint) -> int:
    """Count rows in all files of a CSV output; each has a header, except the first as long as it is empty."""
    count = 0
    for number in range(1, checkpoint.file + 1):
        file = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        length = checkpoint.length if number == checkpoint.file else None
        count += _outside_quotes(file, length)
    return count - (checkpoint.file if checkpoint.fields is not None else 0)


def _outside_quotes(path: Path, length: int | None) -> int:
    count, quoted = 0, False
    for piece in _pieces(path, length):
        for stretch in piece.split(b'"'):
            count += 0 if quoted else stretch.count(b"\n")
            quoted = not quoted
        quoted = not quoted  # the end of a piece is no quote
    if quoted:
        raise Rejected(f"output {path} ends within an item")
    return count


def _table(path: Path, checkpoint: sqlite.SqliteCheckpoint) -> int:
    """Count the rows of the flushes that the checkpoint knows; each key has one row, however many items."""
    if not path.exists():
        raise Rejected(f"output {path} is gone")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("BEGIN")  # one state, whoever writes meanwhile
            [newest] = database.execute("SELECT max(number) FROM _shoal_flushes").fetchone()
            later = database.execute(
                "SELECT last_id FROM _shoal_flushes WHERE number > ? ORDER BY number LIMIT 1",
                (checkpoint.flushes,),
            ).fetchone()
            found, keys = database.execute(
                "SELECT count(*), count(DISTINCT _key) FROM items WHERE _id <= ?", later or (1 << 62,)
            ).fetchone()
    except sqlite3.DatabaseError as error:
        raise Rejected(f"output {path} cannot be read: {error}") from None
    if newest is None or newest < checkpoint.flushes:
        raise Rejected(f"output {path} is older than this crawl has left it")
    if keys < found:
        raise Rejected(f"output {path} holds {found} rows for {keys} keys")
    # The database knows its last flushes only: if a crawl went on for more, later rows count as well.
    forgotten = newest > checkpoint.flushes + sqlite.UNDO
    if found != checkpoint.rows and not (forgotten and found > checkpoint.rows):
        raise Rejected(f"output {path} holds {found} rows, but {checkpoint.rows} were written there")
    return checkpoint.items


def _database(output: str, checkpoint: bytes) -> int | None:
    """Ask the server. The store does not keep passwords: whoever asks needs one in the environment."""
    try:
        from shoal.sinks.postgres.sink import PostgresSink
    except ImportError:  # an extra
        return None
    with closing(PostgresSink(output)) as sink:
        try:
            return sink.recount(checkpoint)
        except Unavailable:
            return None
        except Misconfigured as error:
            raise Rejected(str(error)) from None


def _parts(path: Path, checkpoint: bytes) -> int | None:
    """Count the rows of a folder of Parquet files, and those that wait to become one."""
    if not path.exists():
        raise Rejected(f"output {path} is gone")
    try:
        from shoal.sinks import parquet
    except ImportError:  # an extra
        return None
    known = msgspec.msgpack.decode(checkpoint, type=parquet.ParquetCheckpoint)
    before = sum(parquet.rows_of(path, number) for number in range(known.part))
    if before != known.before:
        raise Rejected(
            f"output {path} holds {before} rows in its first {known.part} parts,"
            f" but {known.before} were written there"
        )
    if not known.rows:
        return before
    # A part is there before its rows go: while a crawl runs, one of the two is.
    waiting = parquet.rows_path(path, known.part)
    there = (
        _lines(waiting, known.length)
        if waiting.exists()
        else min(parquet.rows_of(path, known.part), known.rows)
    )
    if there != known.rows:
        raise Rejected(
            f"output {path} holds {there} rows after its last part, but {known.rows} were written there"
        )
    return before + there


def _pieces(path: Path, length: int | None) -> Iterator[bytes]:
    """Read the first `length` bytes (None: all) without holding them at once."""
    try:
        with path.open("rb") as file:
            left = path.stat().st_size if length is None else length
            while left:
                piece = file.read(min(left, MIB))
                if not piece:
                    raise Rejected(f"output {path} is shorter than this crawl has left it")
                left -= len(piece)
                yield piece
    except OSError as error:
        raise Rejected(f"output {path} cannot be read: {error.strerror or error}") from None
