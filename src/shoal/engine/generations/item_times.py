"""When an item was first and last seen, and when it last changed. Pure: no clock, no I/O.

An item is the same one as in the last generation if it has the same key on the same page. The times travel
with the result of the page, so they are exact after a crash, and the same in a folder and in a fleet.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from shoal.engine.generations.earlier import PageResult
from shoal.model.page import Item

Times = tuple[tuple[int, int], ...]  # first seen and changed at, in epoch seconds, of each item

FIELDS = ("first_seen", "last_seen", "changed_at")
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def next_times(items: Sequence[Item], at: float, earlier: PageResult | None) -> Times:
    """Return the times of the items of a page that was parsed at `at`."""
    now, known = int(at), {}
    if earlier is not None and len(earlier.item_times) == len(earlier.items):
        known = dict(zip((item.key for item in earlier.items), earlier.item_times, strict=True))
    before = {item.key: item.json for item in earlier.items} if earlier is not None else {}
    found = []
    for item in items:
        first, changed = known.get(item.key, (now, now))
        found.append((first, changed if before.get(item.key) == item.json else now))
    return tuple(found)


def with_times(items: Sequence[Item], times: Times, at: float) -> tuple[Item, ...]:
    """Return items with the fields `first_seen`, `last_seen` and `changed_at`; fields that they have stay."""
    if len(times) != len(items):  # of a result that was stored without them
        times = ((int(at), int(at)),) * len(items)
    return tuple(
        _with_fields(item, dict(zip(FIELDS, (first, int(at), changed), strict=True)))
        for item, (first, changed) in zip(items, times, strict=True)
    )


def _with_fields(item: Item, seconds: dict[str, int]) -> Item:
    has = _decode(item.json)
    added = {name: _iso(value) for name, value in seconds.items() if name not in has}
    if not added:
        return item
    joint = b"," if has else b""
    return Item(item.key, item.json.rstrip()[:-1] + joint + msgspec.json.encode(added)[1:])


def _iso(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
