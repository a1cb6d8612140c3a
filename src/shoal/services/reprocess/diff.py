"""What changed between two parses of the same pages: which fields, how often, and examples. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

EXAMPLES = 3  # of each kind of change

Record = dict[str, Any]

_decode = msgspec.json.Decoder(Record).decode


@dataclass(frozen=True, slots=True)
class Example:
    url: str
    before: object  # None where there was, or is, nothing
    after: object


@dataclass(slots=True)
class FieldChanges:
    """One field, over all items that both parses have."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    examples: list[Example] = field(default_factory=list)


@dataclass(slots=True)
class Differences:
    items_before: int = 0
    items_after: int = 0
    pages_changed: int = 0
    items_added: int = 0
    items_removed: int = 0
    items_changed: int = 0
    fields: dict[str, FieldChanges] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)  # items that only one of the parses has

    def __bool__(self) -> bool:
        return self.pages_changed > 0

    def note(self, url: str, before: Sequence[bytes], after: Sequence[bytes], key: Sequence[str]) -> None:
        """Compare what one page yielded; items are matched by `key`, or by their order if they lack it."""
        self.items_before += len(before)
        self.items_after += len(after)
        if before == after:
            return  # the same bytes: most pages, at no cost
        found = self.items_added + self.items_removed + self.items_changed
        for old, new in matched([*map(_decode, before)], [*map(_decode, after)], key):
            self._note_item(url, old, new)
        self.pages_changed += self.items_added + self.items_removed + self.items_changed > found

    def _note_item(self, url: str, old: Record | None, new: Record | None) -> None:
        if old is None or new is None:
            self.items_added += old is None
            self.items_removed += new is None
            _show(self.examples, Example(url, old, new))
            return
        changed = False
        for name in (*old, *(name for name in new if name not in old)):
            if name in old and name in new and old[name] == new[name]:
                continue
            changed = True
            about = self.fields.setdefault(name, FieldChanges())
            about.added += name not in old
            about.removed += name not in new
            about.changed += name in old and name in new
            _show(about.examples, Example(url, old.get(name), new.get(name)))
        self.items_changed += changed


def matched(
    before: Sequence[Record], after: Sequence[Record], key: Sequence[str]
) -> list[tuple[Record | None, Record | None]]:
    """Pair the items of a page; None stands for one that the other side lacks."""
    old, new = _by_key(before, key), _by_key(after, key)
    if old is None or new is None:
        longest = range(max(len(before), len(after)))
        return [
            (before[n] if n < len(before) else None, after[n] if n < len(after) else None) for n in longest
        ]
    return [(old.get(one), new.get(one)) for one in (*old, *(one for one in new if one not in old))]


def _by_key(items: Sequence[Record], key: Sequence[str]) -> Mapping[str, Record] | None:
    """Index items by their key; None: not every item has a distinct key."""
    if not key or any(name not in item for item in items for name in key):
        return None
    found = {msgspec.json.encode([item[name] for name in key]).decode(): item for item in items}
    return found if len(found) == len(items) else None


def _show(examples: list[Example], example: Example) -> None:
    if len(examples) < EXAMPLES:
        examples.append(example)
