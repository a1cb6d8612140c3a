"""Count the items of a page and the fields in them that hold something, in the parse child.

A field is filled unless it is missing, None, or an empty or blank text, list or mapping. It repeats if it has
the value of the item before it from the same handler in this process: where nearly all do, it is constant.
"""

from collections.abc import Mapping

from shoal.model.yields.counts import FILLED, ITEMS, PAGES, REPEATED, SATURATED, count_name

MAX_FIELDS = 90  # of one handler that are counted; the names may come from pages
_COMPARED_CHARS = 64  # of a text
_NUMBERS = (bool, int, float)


class ItemCounts:
    """The counts of one page after another; `take` returns those of the latest."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._handlers: dict[str, tuple[str, str, str]] = {}  # pages, items, saturated
        self._names: dict[str, dict[str, tuple[str, str]]] = {}  # by handler and field: filled, repeated
        self._last: dict[str, dict[str, object]] = {}  # by handler and field: the value of the item before

    def begin(self, handler: str) -> None:
        """Begin with a page that a handler takes."""
        pages, items, _ = self._names_of(handler)
        self._counts = {pages: 1, items: 0}

    def add(self, handler: str, record: Mapping[str, object]) -> None:
        """Count one item."""
        counts, last = self._counts, self._last.setdefault(handler, {})
        names = self._names.setdefault(handler, {})
        _, items, saturated = self._names_of(handler)
        counts[items] = counts.get(items, 0) + 1
        for field, value in record.items():
            pair = names.get(field)
            if pair is None:
                if len(names) >= MAX_FIELDS:
                    counts[saturated] = 1
                    continue
                pair = names[field] = count_name(FILLED, handler, field), count_name(REPEATED, handler, field)
            filled, repeated = pair
            kind = type(value)
            if kind is str:
                if not value or value.isspace():  # type: ignore[attr-defined]
                    counts[filled] = counts.get(filled, 0)
                    continue
                value = value[:_COMPARED_CHARS]  # type: ignore[index]
            elif kind not in _NUMBERS:
                counts[filled] = counts.get(filled, 0) + _holds_something(value)
                continue
            counts[filled] = counts.get(filled, 0) + 1
            if last.get(field) == value:
                counts[repeated] = counts.get(repeated, 0) + 1
            last[field] = value

    def _names_of(self, handler: str) -> tuple[str, str, str]:
        names = self._handlers.get(handler)
        if names is None:
            names = tuple(count_name(kind, handler) for kind in (PAGES, ITEMS, SATURATED))  # type: ignore[assignment]
            self._handlers[handler] = names  # type: ignore[assignment]
        return names  # type: ignore[return-value]

    def take(self) -> dict[str, int]:
        """Return the counts of the page."""
        counts, self._counts = self._counts, {}
        return counts


def _holds_something(value: object) -> bool:
    """Return whether a value is neither None nor empty; what cannot tell its length holds something."""
    if value is None:
        return False
    try:
        return len(value) > 0  # type: ignore[arg-type]
    except Exception:  # a user's class
        return True
