"""The key of an item, made of the values of the spider's key fields.

Items with the same key are the same item: databases keep the last one. So different values must have
different keys, and a page must not be able to choose a value that has the key of another item. A key is

- the value itself, if there is one key field, and its value is text that cannot be taken for another form;
- otherwise `=` and the JSON list of all values: `=[1]` for the number and `1` for the text.

Text needs the second form if it starts with `=`, starts like the key of an item without key fields
(fingerprint and position), or has characters that a database cannot hold: NUL and lone surrogates.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from shoal.model.errors import Rejected
from shoal.model.scope import KeyScheme

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode

_ambiguous = re.compile("=|[0-9a-f]{16}-").match
_unfit = re.compile("[\0\ud800-\udfff]").search


def item_key(record: Mapping[str, Any], fields: Sequence[str], scheme: KeyScheme) -> str:
    """Return the key of an item. Raises `Rejected` if a key field is missing or empty."""
    values = [record.get(field) for field in fields]
    for field, value in zip(fields, values, strict=True):
        if value is None or value == "":
            raise Rejected(f"key field {field} is {'empty' if value == '' else 'missing'}")
    if scheme is KeyScheme.PLAIN:
        return _plain_key(values)
    if (
        len(values) == 1
        and isinstance(values[0], str)
        and not _ambiguous(values[0])
        and not _unfit(values[0])
    ):
        return values[0]
    try:
        return f"={_encode_sorted(values).decode()}"
    except UnicodeEncodeError:  # a lone surrogate: only Python's encoder escapes it
        return f"={json.dumps(values, sort_keys=True, separators=(',', ':'))}"


def _plain_key(values: Sequence[Any]) -> str:
    """Return the key in the form of crawls that were started before there was another one."""
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return _encode(values[0] if len(values) == 1 else values).decode()
