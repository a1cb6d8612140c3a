"""Whether what a generation yielded is in the range of the generations before. Pure.

The range is what the accepted generations showed themselves. Only the latest ones, of one version of the
spider, make it, and numbers of items are compared only between crawls of the same reach (start URLs and
limits) that have ended by themselves. Shares of filled fields need neither.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from shoal.model.yields.counts import (
    FILLED,
    ITEMS,
    MAX_EXAMPLES,
    NOTHING,
    PAGES,
    SEPARATOR,
    GenerationYield,
    HandlerYield,
    YieldDrop,
    count_name,
)

FALL = 0.25  # of the items: 3 % sold products, and the pages behind a list that failed, are no drop
FEW_FAILED = 0.2  # of the requests: what so many would have yielded is no drop either
RISE = 0.5  # of the items: those that double are one
MARGIN, FIRST_MARGIN = 0.1, 0.15  # of the share of a field; the latter until SEVERAL generations are known
SEVERAL = 5
DEVIATIONS = 4.0  # of a share that is measured in as many items, beyond the range
VARIED, CONSTANT = 0.5, 0.9  # shares of values that repeat the one before: at most, and at least
MIN_CONSTANT = 10  # items from which on a constant field is a drop


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
    if not after.items or after.saturated or before.saturated:
        return
    known = (one.handlers.get(handler, NOTHING) for one in run)
    seen = [one for one in known if one.items and not one.saturated]
    if not seen:
        return
    changed = run[-1].version != now.version
    for field, filled in before.filled.items():
        if changed and field not in after.filled:
            continue  # its author has left it out or renamed it: no item names it, not even as empty
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
