"""Arrow tables of items: the types of columns, and converting a table to a wider schema."""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.sinks.columns import Columns, Record, encode_json, restore_record

_METADATA_KEY = b"shoal"  # of the metadata of each column in a part
_MAX_EXACT_INT = 1 << 53  # a double holds all integers up to this one


class Column(msgspec.Struct, frozen=True):
    """A column of all parts together."""

    field: str | None  # None: the column for all other fields
    kinds: frozenset[str] = frozenset()  # kinds of the values seen: bool, int, long, float, text


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value, which decides the type of its column."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if abs(value) <= _MAX_EXACT_INT:
            return "int"
        return "long" if -(1 << 63) <= value < 1 << 63 else "text"
    return "float" if isinstance(value, float) else "text"


def type_for(kinds: frozenset[str]) -> pa.DataType:
    """Return the narrowest type that holds values of all these kinds without changing one."""
    if kinds == {"bool"}:
        return pa.bool_()
    if kinds and kinds <= {"int", "long"}:
        return pa.int64()
    if kinds and kinds <= {"int", "float"}:
        return pa.float64()
    return pa.string()


def schema_of(columns: Mapping[str, Column]) -> pa.Schema:
    """Return the schema for columns, with the metadata that `columns_of` reads."""
    return pa.schema(
        pa.field(name, type_for(column.kinds), metadata={_METADATA_KEY: msgspec.json.encode(column)})
        for name, column in columns.items()
    )


def columns_of(schema: pa.Schema) -> dict[str, Column]:
    """Return the columns of a schema; raise `ValueError` for one that Shoal has not written."""
    try:
        return {
            field.name: msgspec.json.decode(field.metadata[_METADATA_KEY], type=Column) for field in schema
        }
    except (KeyError, TypeError, msgspec.DecodeError):
        raise ValueError("not written by Shoal") from None


def merge_columns(schemas: Iterable[Mapping[str, Column]]) -> dict[str, Column]:
    """Return the columns of several parts together, in the order of their first appearance."""
    known: dict[str, Column] = {}
    for columns in schemas:
        for name, column in columns.items():
            kinds = known[name].kinds if name in known else frozenset()
            known[name] = Column(column.field, kinds | column.kinds)
    return known


def table_of(records: Sequence[Record], known: Mapping[str, Column]) -> tuple[pa.Table, dict[str, Column]]:
    """Return a table of `records` that has all `known` columns and those of new fields, and its columns."""
    fields = [column.field for column in known.values() if column.field is not None]
    columns = Columns(fields, closed=len(fields) < len(known))
    for record in records:
        if not columns.hold(record):
            columns = columns.widen(record)
    if not columns.names():
        columns = Columns(["_"])  # a table without columns would lose its rows
    rows = [columns.row(record) for record in records]
    fields_and_rest = [*columns.fields, None]
    described, arrays = {}, []
    for name, field, values in zip(columns.names(), fields_and_rest, zip(*rows, strict=True), strict=False):
        before = known[name].kinds if name in known else frozenset()
        described[name] = Column(field, before | {kind_of(value) for value in values if value is not None})
        arrays.append(_array(values, type_for(described[name].kinds)))
    return pa.table(arrays, schema=schema_of(described)), described


def widen_table(table: pa.Table, columns: Mapping[str, Column]) -> pa.Table:
    """Return the same rows under wider columns."""
    schema = schema_of(columns)
    arrays = []
    for field in schema:
        if field.name not in table.column_names:
            arrays.append(pa.nulls(table.num_rows, field.type))
        elif table.schema.field(field.name).type == field.type:
            arrays.append(table.column(field.name))
        else:
            arrays.append(_array(table.column(field.name).to_pylist(), field.type))
    return pa.table(arrays, schema=schema)


def records_of_file(path: Path) -> Iterator[Record]:
    """Yield the items of a Parquet file of any program, without the fields that are null."""
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        try:
            fields = [column.field for column in columns_of(schema).values()]
        except ValueError:
            fields = list(schema.names)
        for group in range(file.num_row_groups):
            columns = [column.to_pylist() for column in file.read_row_group(group).columns]
            for row in zip(*columns, strict=True):
                yield restore_record(fields, row)


def checksum_of_table(table: pa.Table, before: int = 0) -> int:
    """Return a checksum of rows and their order that is the same before and after `widen_table`.

    `before`: of the rows before them.
    """
    checksum = before
    names = sorted(table.column_names)
    for batch in table.select(names).to_batches():
        columns = [column.to_pylist() for column in batch.columns]
        for row in zip(*columns, strict=True):
            fields = [
                (name, _text(value)) for name, value in zip(names, row, strict=True) if value is not None
            ]
            checksum = zlib.crc32(msgspec.msgpack.encode(fields), checksum)
    return checksum


def _text(value: Any) -> str:
    """Return a value as a string column would hold it; widening turns an integer into a float."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else encode_json(value)


def _array(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    if kind == pa.string():
        values = [each if each is None or isinstance(each, str) else encode_json(each) for each in values]
    return pa.array(values, kind)
