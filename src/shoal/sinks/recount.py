"""Outputs, counted again from outside: without opening them for writing, and as far as a checkpoint reaches.

What lies beyond the checkpoint is not the crawl's yet: a kill may have left it, and the next run cuts it off.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from shoal.model.errors import Rejected
from shoal.model.limits import MIB
from shoal.sinks import csv

_STDOUT = "-"


def outputs(checkpoint: bytes | None) -> Mapping[str, bytes]:
    """Name the outputs of a crawl, each with its own checkpoint; what went to standard output is gone."""
    known = {} if checkpoint is None else msgspec.msgpack.decode(checkpoint, type=dict[str, bytes])
    return {path: own for path, own in known.items() if path != _STDOUT}


def recount(path: Path, checkpoint: bytes) -> int | None:
    """Count the items that an output holds; None: there, but not of a format whose lines can be counted.

    Raises `Rejected` if the output is not what the crawl has left: gone, shorter, or ending within an item.
    """
    match path.suffix.lower():
        case ".jsonl" | ".ndjson":
            return _lines(path, msgspec.msgpack.decode(checkpoint, type=int))
        case ".csv":
            return _rows(path, msgspec.msgpack.decode(checkpoint, type=csv.Checkpoint))
        case _:
            if not path.exists():
                raise Rejected(f"output {path} is gone")
            return None


def _lines(path: Path, length: int) -> int:
    count, last = 0, b"\n"
    for piece in _pieces(path, length):
        count += piece.count(b"\n")
        last = piece[-1:]
    if last != b"\n":
        raise Rejected(f"output {path} ends within an item")
    return count


def _rows(path: Path, checkpoint: csv.Checkpoint) -> int:
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
