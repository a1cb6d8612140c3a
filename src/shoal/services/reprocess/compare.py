"""What changed between two generations of a crawl. Pure: no I/O.

Items are compared by key. The key of an item without key fields names its page and its place there, so items
of one page are matched by content first: an item that was inserted above others has not changed them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from shoal.model.generations.page_history import PageFate, PageHistory
from shoal.model.page import Item

_PLACE = re.compile(r"[0-9a-f]{16}(?:-[a-z_]+)?-\d+")  # a key that names a page and a place on it
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class UrlChange(StrEnum):
    APPEARED = "appeared"
    CHANGED = "changed"
    GONE = "gone"  # 404 or 410
    UNLINKED = "no longer linked"
    FAILED = "failed"  # given up: whether it has changed is not known
    OPEN = "not fetched yet"  # the later generation has not finished


def compare_url(before: PageHistory | None, after: PageHistory | None, *, finished: bool) -> UrlChange | None:
    """Return what has become of a URL; None: it is as it was. `finished`: that the later generation is."""
    was = before is not None and before.fate is PageFate.DONE
    if after is None:
        return (UrlChange.UNLINKED if finished else UrlChange.OPEN) if was else None
    if after.fate is PageFate.DONE:
        if before is None or before.fate is PageFate.GONE:
            return UrlChange.APPEARED
        return UrlChange.CHANGED if after.changes != before.changes else None
    if not was:
        return None
    return UrlChange.GONE if after.fate is PageFate.GONE else UrlChange.FAILED


@dataclass(frozen=True, slots=True)
class ItemChange:
    """An item that only one generation has, or that differs; `before` or `after` is None if it is missing."""

    key: str
    url: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def fields(self) -> dict[str, tuple[Any, Any]]:
        """The fields that differ, with both values; None stands for a field that is missing."""
        old, new = self.before or {}, self.after or {}
        names = (*old, *(name for name in new if name not in old))
        return {name: (old.get(name), new.get(name)) for name in names if _differ(old, new, name)}


def _differ(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> bool:
    return name not in old or name not in new or old[name] != new[name]


@dataclass(slots=True)
class ItemComparison:
    """Collects the items of pages that differ, then says which items do."""

    _before: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)  # key -> URL and item
    _after: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)

    def add_page(self, url: str, before: Sequence[Item], after: Sequence[Item]) -> None:
        """Add a page of which the generations have different results; one may have none."""
        same = Counter(item.json for item in before) & Counter(item.json for item in after)
        for items, target in ((before, self._before), (after, self._after)):
            left = Counter(same)
            for item in items:
                if _PLACE.fullmatch(item.key) and left[item.json]:
                    left[item.json] -= 1
                else:
                    target.setdefault(item.key, []).append((url, item.json))

    @property
    def doubtful(self) -> set[str]:
        """The keys of items that may also be on pages that have not changed."""
        return {key for key in self._before.keys() ^ self._after.keys() if not _PLACE.fullmatch(key)}

    def add_unchanged(self, url: str, items: Iterable[Item], wanted: set[str]) -> None:
        """Add those items of a page that has not changed whose keys are wanted."""
        for item in items:
            if item.key in wanted:
                self._before.setdefault(item.key, []).append((url, item.json))
                self._after.setdefault(item.key, []).append((url, item.json))

    def changes(self) -> list[ItemChange]:
        """Return the items that appeared, changed or vanished, by key."""
        found = []
        for key in sorted(self._before.keys() | self._after.keys()):
            before, after = self._before.get(key, []), self._after.get(key, [])
            old = [one for one in before if one[1] not in {json for _, json in after}]
            new = [one for one in after if one[1] not in {json for _, json in before}]
            if before and after and not (old and new):
                continue  # the same record, on fewer or on more pages
            url = (new or old)[0][0]
            found.append(ItemChange(key, url, _record(old), _record(new)))
        return found


def _record(items: Sequence[tuple[str, bytes]]) -> Mapping[str, Any] | None:
    return _decode(items[0][1]) if items else None
