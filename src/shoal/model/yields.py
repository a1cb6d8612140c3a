"""What the handlers of a crawl yielded in each generation, and whether a new one is out of range. Pure.

A parse child counts, for each page, its items and the fields that hold something (`spider/item_counts.py`).
The counts are totals of the crawl: they are stored in the step that stores the items, so they are exact after
a kill. At the end of a generation they are compared with those of the generations before, in the range that
these showed themselves. A figure out of it is a drop: the outputs are not replaced until the operator accepts
them, and then the accepted figures are part of the range.

Only generations of the same version of the spider are taken for the range, the latest ones, and numbers of
items only between crawls of the same reach (start URLs and limits). Shares of filled fields need neither.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from shoal.model.format import count, plural

HISTORY = "yields"  # the value of a crawl with the figures of its accepted generations; it outlives them
DROPPED = "yield_dropped"  # the value of a crawl with what is out of range in its current generation
NO_DATA = "no_data"  # the value of a crawl that says why its current generation has no item

SEPARATOR = "\x1f"  # in the name of a count: kind, handler, and the field if it is about one
PAGES, ITEMS, FILLED, REPEATED = "p", "i", "f", "r"
LOGIN = "l"  # pages that show a log-in form in answer to one
MAX_NAME_CHARS = 61  # 244 bytes at most: the store takes 255
MAX_HANDLER_CHARS, MAX_FIELD_CHARS = 24, 34
MAX_NAMES = 400  # counts of a crawl; spiders choose the names of fields, and pages may
MAX_EXAMPLES = 3  # URLs for each count that lacks something
MAX_EXAMPLE_CHARS = 500
MAX_HISTORY = 20  # generations

FALL = 0.25  # of the items: 3 % sold products, and the pages behind a list that failed, are no drop
FEW_FAILED = 0.2  # of the requests: what so many would have yielded is no drop either
RISE = 0.5  # of the items: those that double are one
MARGIN, FIRST_MARGIN = 0.1, 0.15  # of the share of a field; the latter until SEVERAL generations are known
SEVERAL = 5
DEVIATIONS = 4.0  # of a share that is measured in as many items, beyond the range
VARIED, CONSTANT = (
    0.5,
    0.9,
)  # shares of values that repeat the one before: of a field that varies, that does not
MIN_CONSTANT = 10  # items from which on a constant field is a drop


def count_name(kind: str, handler: str, field: str = "") -> str:
    """Return the name of a count among the totals of a crawl."""
    name = f"{kind}{SEPARATOR}{handler[:MAX_HANDLER_CHARS]}"
    return f"{name}{SEPARATOR}{field[:MAX_FIELD_CHARS]}" if field else name


def is_count(name: str) -> bool:
    """Return whether a total of a crawl is one of these counts."""
    return name[1:2] == SEPARATOR


class HandlerYield(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one handler yielded in one generation."""

    pages: int = 0
    items: int = 0
    filled: dict[str, int] = {}  # items in which a field holds something, by field
    repeated: dict[str, int] = {}  # items in which it has the value of the item before


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
        items = plural(self.after_of, "item")
        before = f"before in {count(self.before)} of {count(self.before_of)}"
        match self.kind:
            case "items":
                what = f"{handler}: {plural(self.after, 'item')}, before {count(self.before)}"
            case "field":
                what = f"{handler}: {self.field} is filled in {count(self.after)} of {items}, {before}"
            case "constant":
                what = (
                    f"{handler}: {self.field} repeats one value in {count(self.after)} of {items}, {before}"
                )
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
        )
        for handler, numbers in read.items()
    }


def with_generation(
    history: Sequence[GenerationYield], accepted: GenerationYield
) -> tuple[GenerationYield, ...]:
    """Return the history with a generation that was accepted; repeating this changes nothing."""
    others = [one for one in history if one.began != accepted.began]
    return (*others, accepted)[-MAX_HISTORY:]


# --- the rule ----------------------------------------------------------------------------------------------


def find_drops(
    history: Sequence[GenerationYield],
    now: GenerationYield,
    examples: Mapping[str, Sequence[str]] = {},
) -> tuple[YieldDrop, ...]:
    """Return the figures of a generation that are out of the range of those before, the worst first.

    `history` has the generations that were accepted, oldest first: with none, nothing is out of range.
    `examples`: URLs by the name of the count that they lack something of.
    """
    if not history or any(one.began == now.began for one in history):
        return ()
    latest = history[-1]
    run = _latest_run(history)
    found = [*_missing(run, now), *_numbers(run, now)]
    for handler, before in latest.handlers.items():
        found += _fields(handler, before, run, now)
    changed = latest.version != now.version
    return tuple(
        msgspec.structs.replace(drop, spider_changed=changed, urls=_examples(drop, examples))
        for drop in sorted(found, key=lambda drop: (drop.kind != "items", drop.kind == "constant"))
    )


def _latest_run(history: Sequence[GenerationYield]) -> list[GenerationYield]:
    """Return the latest generations that one version of the spider made."""
    run: list[GenerationYield] = []
    for one in reversed(history):
        if one.version != history[-1].version:
            break
        run.append(one)
    return run[::-1]


def _missing(run: Sequence[GenerationYield], now: GenerationYield) -> Iterator[YieldDrop]:
    """Yield a drop if there is no item at all, where every generation had some: small crawls as well."""
    if not now.items and min(one.items for one in run) > 0:
        yield YieldDrop("items", "", before=run[-1].items, before_of=run[-1].items)


def _numbers(run: Sequence[GenerationYield], now: GenerationYield) -> Iterator[YieldDrop]:
    """Yield the handlers with too few or too many items."""
    alike = [one for one in run if one.whole and one.reach == now.reach]
    if not alike or not now.whole or not now.items:
        return
    for handler in run[-1].handlers:
        seen = [one.handlers.get(handler, NOTHING).items for one in alike]
        after = now.handlers.get(handler, NOTHING).items
        low, high = item_range(seen)
        if now.failed <= FEW_FAILED * (now.done + now.failed):
            low -= now.failed * max(_per_page(one.handlers.get(handler, NOTHING)) for one in alike)
        if not low <= after <= high:
            yield YieldDrop(
                "items", handler, before=seen[-1], before_of=seen[-1], after=after, after_of=after
            )


def _per_page(one: HandlerYield) -> float:
    return one.items / one.pages if one.pages else 0.0


def item_range(seen: Sequence[int]) -> tuple[float, float]:
    """Return the range of the number of items, after these numbers; few numbers or items make it wide."""
    low, high = min(seen), max(seen)
    spread = (high - low) / len(seen)
    return (
        low - max(FALL * low, 2 * math.sqrt(low)) - spread,
        high + max(RISE * high, 4 * math.sqrt(high)) + spread,
    )


def _fields(
    handler: str, before: HandlerYield, run: Sequence[GenerationYield], now: GenerationYield
) -> Iterator[YieldDrop]:
    """Yield the fields that are filled too rarely, and those that varied and have become constant."""
    after = now.handlers.get(handler, NOTHING)
    seen = [one.handlers[handler] for one in run if handler in one.handlers and one.handlers[handler].items]
    if not after.items or not seen:
        return
    for field, filled in before.filled.items():
        numbers = before.items, after.items
        now_filled = min(after.filled.get(field, 0), after.items)
        if now_filled / after.items < share_floor([_share(one, field) for one in seen], *numbers):
            yield YieldDrop("field", handler, field, filled, numbers[0], now_filled, numbers[1])
        elif _is_constant(field, after) and max(_repeats(field, one) for one in seen) <= VARIED:
            values = before.repeated.get(field, 0), after.repeated.get(field, 0)
            yield YieldDrop("constant", handler, field, values[0], numbers[0], values[1], numbers[1])


def _share(one: HandlerYield, field: str) -> float:
    return min(one.filled.get(field, 0) / one.items, 1.0)


def _repeats(field: str, one: HandlerYield) -> float:
    filled = one.filled.get(field, 0)
    return one.repeated.get(field, 0) / filled if filled else 1.0


def _is_constant(field: str, after: HandlerYield) -> bool:
    return after.filled.get(field, 0) >= MIN_CONSTANT and _repeats(field, after) >= CONSTANT


def share_floor(shares: Sequence[float], before: int, after: int) -> float:
    """Return the least share of filled items that is in range, after these shares; 0: any is.

    `before` and `after`: the items in which a share was measured and is now. Where the share varied, or was
    measured in few items or generations, it may vary more.
    """
    low, spread = min(shares), max(shares) - min(shares)
    items = max(min(before, after), 1)
    smoothed = (low * items + 1) / (items + 2)
    deviation = math.sqrt(smoothed * (1 - smoothed) / items)
    several = len(shares) >= SEVERAL
    trust = DEVIATIONS if several else 2 * DEVIATIONS
    margin = max(MARGIN if several else FIRST_MARGIN, trust * deviation) + (0.0 if several else spread)
    # A field that every item had is missed when none has it, in however few items.
    is_usual = low == 1.0 or (low >= VARIED and items >= 2 * MIN_CONSTANT)
    return max(low - margin, 0.2 * low if is_usual else 0.0)


def _examples(drop: YieldDrop, examples: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return URLs of pages that lack what dropped, or else of any page of the handler."""
    names = []
    if drop.field:
        names.append(count_name(FILLED, drop.handler, drop.field))
    chosen = [drop.handler] if drop.handler else _handlers(examples)
    names += [count_name(kind, handler) for kind in (ITEMS, PAGES) for handler in chosen]
    found = dict.fromkeys(url for name in names for url in examples.get(name, ()))
    return tuple(found)[:MAX_EXAMPLES]


def _handlers(examples: Mapping[str, Sequence[str]]) -> list[str]:
    names = (name.split(SEPARATOR) for name in examples)
    return list(dict.fromkeys(parts[1] for parts in names if len(parts) > 1))
