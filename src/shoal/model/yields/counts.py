"""What the handlers of a crawl yielded in each generation, as counts: their names, and their records."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

HISTORY = "yields"  # the value of a crawl with the figures of its accepted generations; it outlives them
DROPPED = "yield_dropped"  # the value of a crawl with what is out of range in its current generation
NO_DATA = "no_data"  # the value of a crawl that says why its current generation has no item

SEPARATOR = "\x1f"  # in the name of a count: kind, handler, and the field if it is about one
PAGES, ITEMS, FILLED, REPEATED = "p", "i", "f", "r"
SATURATED = "s"  # pages of which a field was not counted: the handler has too many
LOGIN = "l"  # pages that show a log-in form in answer to one
MAX_NAME_CHARS = 61  # 244 bytes at most: the store takes 255
MAX_HANDLER_CHARS, MAX_FIELD_CHARS = 24, 34
MAX_NAMES = 400  # counts of a crawl; spiders choose the names of fields, and pages may
MAX_EXAMPLES = 3  # URLs for each count that lacks something
MAX_EXAMPLE_CHARS = 500
MAX_HISTORY = 20  # generations


def count_name(kind: str, handler: str, field: str = "") -> str:
    """Return the name of a count among the totals of a crawl."""
    name = f"{kind}{SEPARATOR}{handler[:MAX_HANDLER_CHARS]}"
    name = f"{name}{SEPARATOR}{field[:MAX_FIELD_CHARS]}" if field else name
    # JSON of a page may bring half of a surrogate pair, which nothing can encode.
    return name if name.isascii() else name.encode("utf-8", "replace").decode()


def is_count(name: str) -> bool:
    """Return whether a total of a crawl is one of these counts."""
    return name[1:2] == SEPARATOR


class HandlerYield(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one handler yielded in one generation."""

    pages: int = 0
    items: int = 0
    filled: dict[str, int] = {}  # items in which a field holds something, by field
    repeated: dict[str, int] = {}  # items in which it has the value of the item before
    saturated: bool = False  # it has more fields than are counted: a field without a count may be filled


NOTHING = HandlerYield()


class GenerationYield(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one generation yielded."""

    began: float  # which generation it is, epoch seconds
    version: str = ""  # of the spider
    reach: str = ""  # stands for the start URLs and limits
    whole: bool = True  # False: a limit ended it
    done: int = 0  # requests that brought a page
    failed: int = 0  # requests that were given up
    handlers: dict[str, HandlerYield] = {}

    @property
    def items(self) -> int:
        return sum(handler.items for handler in self.handlers.values())


class YieldDrop(msgspec.Struct, frozen=True, omit_defaults=True):
    """One figure that is out of the range of the generations before."""

    kind: Literal["items", "field", "constant"]
    handler: str  # empty: all of them
    field: str = ""  # empty: the number of items
    before: int = 0  # items in the latest generation, or those in which the field is filled
    before_of: int = 0  # items in the latest generation
    after: int = 0
    after_of: int = 0
    urls: tuple[str, ...] = ()
    spider_changed: bool = False  # else the pages have changed

    @property
    def text(self) -> str:
        """What dropped, in one line."""
        handler = f"handler {self.handler}" if self.handler else "all handlers"
        items = _items(self.after_of)
        before = f"before in {self.before:,} of {self.before_of:,}"
        match self.kind:
            case "items":
                what = f"{handler}: {_items(self.after)}, before {self.before:,}"
            case "field":
                what = f"{handler}: {self.field} is filled in {self.after:,} of {items}, {before}"
            case "constant":
                what = f"{handler}: {self.field} repeats one value in {self.after:,} of {items}, {before}"
        same = "the spider is the same: its pages differ"
        changed = "the spider has changed" if self.spider_changed else same
        examples = f"; for example {', '.join(self.urls)}" if self.urls else ""
        return f"{what}; {changed}{examples}"


def load_history(stored: bytes | None) -> tuple[GenerationYield, ...]:
    """Return the generations that were accepted, oldest first; what cannot be read counts as none."""
    try:
        return () if stored is None else msgspec.json.decode(stored, type=tuple[GenerationYield, ...])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ()


def load_drops(stored: bytes | None) -> tuple[YieldDrop, ...]:
    """Return the drops of a generation; what cannot be read counts as none."""
    try:
        return msgspec.json.decode(stored, type=tuple[YieldDrop, ...]) if stored else ()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ()


dump = msgspec.json.encode


def read_handlers(counts: Mapping[str, int]) -> dict[str, HandlerYield]:
    """Return what the totals of a crawl say about its handlers, by name."""
    read: dict[str, dict[str, int]] = {}
    fields: dict[str, dict[str, dict[str, int]]] = {}
    for name, number in counts.items():
        kind, _, rest = name.partition(SEPARATOR)
        handler, _, field = rest.partition(SEPARATOR)
        read.setdefault(handler, {})
        if field:
            fields.setdefault(handler, {}).setdefault(kind, {})[field] = number
        else:
            read[handler][kind] = number
    return {
        handler: HandlerYield(
            numbers.get(PAGES, 0),
            numbers.get(ITEMS, 0),
            fields.get(handler, {}).get(FILLED, {}),
            fields.get(handler, {}).get(REPEATED, {}),
            SATURATED in numbers,
        )
        for handler, numbers in read.items()
    }


def with_generation(
    history: Sequence[GenerationYield], accepted: GenerationYield
) -> tuple[GenerationYield, ...]:
    """Return the history with a generation that was accepted; repeating this changes nothing."""
    others = [one for one in history if one.began != accepted.began]
    return (*others, accepted)[-MAX_HISTORY:]


def _items(number: int) -> str:
    return f"{number:,} {'item' if number == 1 else 'items'}"
