"""Parts as Parquet, with the extra `parquet`: dictionary columns, zstd. Pure: bytes in, bytes out."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.archive.fetch_log.blocks import Block
from shoal.archive.fetch_log.columns import COLUMNS, DEFAULTS, Kind, LoggedAttempt

GROUP_ROWS = 128 * 1024  # of one row group
_TYPES = {
    Kind.TIME: pa.timestamp("us", tz="UTC"),
    Kind.INT64: pa.int64(),
    Kind.INT32: pa.int32(),
    Kind.FLOAT: pa.float32(),
    Kind.WORD: pa.dictionary(pa.int32(), pa.string()),
    Kind.TEXT: pa.string(),
}
SCHEMA = pa.schema([pa.field(name, _TYPES[kind], nullable=False) for name, kind in COLUMNS.items()])
_DELTAS = ("started_at", "offset", "length", "wire_bytes", "body_bytes")
_PLAIN = ("url", "fingerprint", "item_keys")
_DICTIONARY = [name for name in COLUMNS if name not in (*_DELTAS, *_PLAIN)]


def table_of(block: Block) -> pa.Table:
    """Return a block as a table; no row is looked at."""
    arrays = [_array(block, name, kind) for name, kind in COLUMNS.items()]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _array(block: Block, name: str, kind: Kind) -> pa.Array:
    if name not in block:
        return pa.array([DEFAULTS[name]] * block.rows, type=_TYPES[kind])
    if kind is Kind.WORD:
        words, numbers = block.words(name)
        codes = pa.Array.from_buffers(pa.int32(), block.rows, [None, pa.py_buffer(numbers)])
        return pa.DictionaryArray.from_arrays(codes, _strings(words))
    if kind is Kind.TEXT:
        offsets, data = block.texts(name)
        return pa.Array.from_buffers(
            pa.string(), block.rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
    return pa.Array.from_buffers(_TYPES[kind], block.rows, [None, pa.py_buffer(block.numbers(name))])


def _strings(words: Sequence[str]) -> pa.Array:
    """Return words as an array. `pa.array` would load pandas where that is installed: 50 MB."""
    encoded = [word.encode() for word in words]
    offsets = array("i", accumulate(map(len, encoded), initial=0))
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def write_parquet(blocks: Iterable[Block]) -> bytes:
    """Return the rows of blocks as one Parquet file."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        SCHEMA,
        compression="zstd",
        use_dictionary=_DICTIONARY,
        column_encoding=dict.fromkeys(_DELTAS, "DELTA_BINARY_PACKED"),
        write_statistics=["started_at", "status"],
    ) as writer:
        for group in _groups(blocks):
            writer.write_table(group, row_group_size=GROUP_ROWS)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _groups(blocks: Iterable[Block]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    rows = 0
    for block in blocks:
        waiting.append(table_of(block))
        rows += block.rows
        if rows >= GROUP_ROWS:
            yield _joined(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def read_table(data: bytes) -> pa.Table:
    """Return a Parquet part as a table with the columns of this version."""
    return fit(pq.read_table(pa.BufferReader(data)))


def fit(table: pa.Table) -> pa.Table:
    """Return a table of another version with the columns of this one."""
    for name, kind in COLUMNS.items():
        if name not in table.column_names:
            values = pa.array([DEFAULTS[name]] * table.num_rows, type=_TYPES[kind])
            table = table.append_column(name, values)
    return table.select(list(COLUMNS))


def select(data: bytes, fingerprints: Sequence[int]) -> list[LoggedAttempt]:
    """Return the rows of some requests; reads one column of a part without them."""
    file = pq.ParquetFile(pa.BufferReader(data))
    import pyarrow.compute as pc  # here: it takes long to load, and writers do not need it

    wanted = pa.array(fingerprints, type=pa.int64())
    found = []
    for group in range(file.metadata.num_row_groups):
        own = file.read_row_group(group, columns=["fingerprint"]).column("fingerprint")
        if pc.any(mask := pc.is_in(own, value_set=wanted)).as_py():
            found.append(fit(file.read_row_group(group).filter(mask)))
    return _attempts(pa.concat_tables(found)) if found else []


def last_rows(data: bytes, after: int, limit: int) -> tuple[list[LoggedAttempt], int]:
    """Return the last rows of a part, at most `limit` and none of the first `after`, and how many it has."""
    table = read_table(data)
    total = table.num_rows
    return _attempts(table.slice(max(after, total - limit))), total


def _attempts(rows: pa.Table) -> list[LoggedAttempt]:
    started_at = rows.column("started_at").cast(pa.int64())
    table = rows.set_column(0, "started_at", started_at)
    return [LoggedAttempt(**row) for row in table.to_pylist()]
