"""Items to write."""

import itertools
from typing import Any

import msgspec

from shoal.model.page import Item
from shoal.sinks import Sink

_numbers = itertools.count()


def item(fields: dict[str, Any], key: str = "") -> Item:
    return Item(key or f"key-{next(_numbers)}", msgspec.json.encode(fields))


def write_all(sink: Sink, *records: dict[str, Any]) -> None:
    """Write one item for each record to a new output, and close it."""
    sink.restore(None)
    sink.write([item(record) for record in records])
    sink.finish()
    sink.close()
