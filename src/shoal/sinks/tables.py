"""Arrow tables out of items: the type a column gets, and how a narrower table is made to fit a wider one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from shoal.sinks.columns import Columns, Record, spell_json

_NOTE = b"shoal"  # key of what a part remembers about each of its columns
_EXACT = 1 << 53  # integers up to here fit a double


class Column(msgspec.Struct, frozen=True):
    """What is known of a column, over all parts."""

    field: str | None  # None: the rest
    kinds: frozenset[str] = frozenset()  # of the values met: bool, int, long, float, text


def kind_of(value: Any) -> str:
    """Sort a JSON value into one of the kinds that decide a column's type."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if abs(value) <= _EXACT:
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
    """Return the schema for columns, with a note on each that `columns_of` reads."""
    return pa.schema(
        pa.field(name, type_for(column.kinds), metadata={_NOTE: msgspec.json.encode(column)})
        for name, column in columns.items()
    )


def columns_of(schema: pa.Schema) -> dict[str, Column]:
    """Undo `schema_of`; raise `ValueError` for a schema that is not ours."""
    try:
        return {field.name: msgspec.json.decode(field.metadata[_NOTE], type=Column) for field in schema}
    except (KeyError, TypeError, msgspec.DecodeError):
        raise ValueError("not a part of ours") from None


def merged(schemas: Iterable[Mapping[str, Column]]) -> dict[str, Column]:
    """Join what several parts know, in the order in which columns were met."""
    known: dict[str, Column] = {}
    for columns in schemas:
        for name, column in columns.items():
            kinds = known[name].kinds if name in known else frozenset()
            known[name] = Column(column.field, kinds | column.kinds)
    return known


def table_of(records: Sequence[Record], known: Mapping[str, Column]) -> tuple[pa.Table, dict[str, Column]]:
    """Make a table that holds `records`, as wide as all that is `known`; return it and its columns."""
    fields = [column.field for column in known.values() if column.field is not None]
    columns = Columns(fields, closed=len(fields) < len(known))
    for record in records:
        if not columns.hold(record):
            columns = columns.widened(record)
    if not columns.names():
        columns = Columns(["_"])  # a table without columns would have no rows either
    rows = [columns.row(record) for record in records]
    fields_and_rest = [*columns.fields, None]
    described, arrays = {}, []
    for name, field, values in zip(columns.names(), fields_and_rest, zip(*rows, strict=True), strict=False):
        before = known[name].kinds if name in known else frozenset()
        described[name] = Column(field, before | {kind_of(value) for value in values if value is not None})
        arrays.append(_array(values, type_for(described[name].kinds)))
    return pa.table(arrays, schema=schema_of(described)), described


def fitted(table: pa.Table, columns: Mapping[str, Column]) -> pa.Table:
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


def _array(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    if kind == pa.string():
        values = [value if value is None or isinstance(value, str) else spell_json(value) for value in values]
    return pa.array(values, kind)
