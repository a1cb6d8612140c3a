"""Totals of a crawl that the frontier cannot count.

A link that a rule filters on the parse side never becomes a request, and the items of a hook belong to no
page.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from shoal.model.outcome import Done, Outcome
from shoal.model.page import ParseResult
from shoal.model.yields.counts import (
    FILLED,
    LOGIN,
    MAX_EXAMPLE_CHARS,
    MAX_EXAMPLES,
    MAX_NAMES,
    REPEATED,
    SATURATED,
    SEPARATOR,
    YieldDrop,
    count_name,
)

KEY = "sums"
EXAMPLES = "examples"  # the value of a crawl in a folder with the examples of its totals, which seldom change
LINKS = "links."  # followed by a rule: the name of a total of links
DISCARDED = "discarded."  # followed by a reason: the name of a total of items
MAX_REASONS = 50  # for which items were dropped that are counted by name; spiders choose them
OTHER_REASONS = "other reasons"
COUNTED = ("rejected", "withheld", "partial", "hook_items", "hook_faults", "repeats")
BEGAN = "began"  # the name under which a crawl stores when its generation began, in epoch seconds
RELEASED = "released"  # the name under which a crawl stores the patterns that an operator has released
PART = "sums/"  # followed by a worker's name: the totals of one worker of a fleet


class ClosedPattern(msgspec.Struct, frozen=True):
    """Why a URL pattern was closed as a crawler trap."""

    more_than: int  # the limit that it exceeded
    example: str  # URL
    why: str = ""  # what the pages were like


class CrawlTotals(msgspec.Struct):
    """Totals that grow with every commit and survive a restart."""

    links: dict[str, int] = {}  # links not followed, by rule
    rejected: int = 0  # items that did not fit their model
    withheld: int = 0  # items of pages that declare another URL as canonical
    partial: int = 0  # pages of which a part could not be read
    hook_items: int = 0  # items yielded by `on_error` hooks
    hook_faults: int = 0  # hooks that raised or hung
    repeats: int = 0  # duplicate links that a parse process left out; the frontier counts the others
    discarded: dict[str, int] = {}  # items that item hooks dropped, by reason
    large: dict[str, ClosedPattern] = {}  # patterns with very many URLs, which are crawled all the same
    closed: dict[str, ClosedPattern] = {}  # shapes whose pages bring nothing new
    released: frozenset[str] = frozenset()  # shapes that an operator has released: they are not closed again
    items: int = -1  # of all pages and hooks, counted or not; -1: an earlier version has not added them up
    counts: dict[str, int] = {}  # of items and filled fields (`model.yields`)
    examples: dict[str, tuple[str, ...]] = {}  # by name of a count: URLs of pages that lack something of it
    dropped: tuple[YieldDrop, ...] = ()  # what is out of range in this generation; readers add it
    no_data: str = ""  # why it has no item; readers add it

    @classmethod
    def load(cls, stored: bytes | None, examples: bytes | None = None) -> "CrawlTotals":
        totals = cls(items=0) if stored is None else msgspec.json.decode(stored, type=cls)
        if examples:
            totals.examples |= msgspec.json.decode(examples, type=dict[str, tuple[str, ...]])
        return totals

    def dump(self) -> bytes:
        return msgspec.json.encode(self)

    def dump_apart(self) -> tuple[bytes, bytes]:
        """Return the totals without the examples, and the examples."""
        totals = msgspec.structs.replace(self, examples={})
        return msgspec.json.encode(totals), msgspec.json.encode(self.examples)

    @property
    def known(self) -> int:
        """The number of patterns that people have to know of."""
        return len(self.large) + len(self.closed)

    def reopen(self, *, per_pattern: int, nothing_new: int, released: Collection[str] = ()) -> bool:
        """Reopen what exceeded lower limits than these (0: no limit), and what an operator has released.

        Return whether any was not known to be released.
        """
        self.large = _beyond(self.large, per_pattern)
        self.closed = _beyond(self.closed, nothing_new)
        return self.release(released)

    def release(self, shapes: Collection[str]) -> bool:
        """Reopen shapes; return whether any was not known to be released."""
        new = self.released.union(shapes) != self.released
        self.released = self.released.union(shapes)
        for shape in self.released:
            self.closed.pop(shape, None)
        return new

    def close(self, others: "CrawlTotals") -> None:
        """Close the patterns, too, that other workers have closed."""
        self.large |= others.large
        self.closed |= others.closed

    def add(self, tally: Mapping[str, int]) -> bool:
        """Add what a page or a hook brought (`tally_of`); return whether any total changed."""
        for name, count in tally.items():
            if name.startswith(LINKS):
                rule = name.removeprefix(LINKS)
                self.links[rule] = self.links.get(rule, 0) + count
            elif name.startswith(DISCARDED):
                reason = name.removeprefix(DISCARDED)
                self.discarded[reason] = self.discarded.get(reason, 0) + count
            elif name in COUNTED:
                setattr(self, name, getattr(self, name) + count)
        return bool(tally)

    def bounded(self, tally: Mapping[str, int]) -> Mapping[str, int]:
        """Return a tally whose reasons are known here, or still few; others count as `OTHER_REASONS`."""
        if len(self.discarded) + len(tally) <= MAX_REASONS:
            return tally
        kept: dict[str, int] = {}
        new = MAX_REASONS - len(self.discarded)
        for name, count in tally.items():
            if name.startswith(DISCARDED) and name.removeprefix(DISCARDED) not in self.discarded:
                new -= 1
                name = name if new >= 0 else f"{DISCARDED}{OTHER_REASONS}"
            kept[name] = kept.get(name, 0) + count
        return kept

    def add_items(self, number: int) -> bool:
        """Add the items of a page, unless the number of those before is unknown; return whether it did."""
        if self.items < 0 or not number:
            return False
        self.items += number
        return True

    def add_counts(self, counts: Mapping[str, int]) -> Mapping[str, int]:
        """Add the counts of a page, and return what was added.

        Beyond `MAX_NAMES`, a field that is not known is left out, and its handler is marked as saturated.
        """
        known = self.counts
        if len(known) > MAX_NAMES:
            counts = self._bounded_counts(counts)
        for name, number in counts.items():
            known[name] = known.get(name, 0) + number
        return counts

    def _bounded_counts(self, counts: Mapping[str, int]) -> Mapping[str, int]:
        kept: dict[str, int] = {}
        for name, number in counts.items():
            if name not in self.counts and name[:1] in (FILLED, REPEATED):
                name, number = count_name(SATURATED, name.split(SEPARATOR)[1]), 1
            # Spiders have few handlers; a parse child may name any number.
            if name in self.counts or len(self.counts) + len(kept) < 2 * MAX_NAMES:
                kept[name] = number
        return kept

    def add_example(self, url: str, counts: dict[str, int]) -> None:
        """Remember the URL of a page for what it lacks, a few of each: items of a handler, or a field.

        The first pages of a handler are remembered as well, whatever they have.
        """
        # Of a page with items none is larger than their number; of one without, that of its pages is.
        most = max(counts.values())
        lacking = [name for name, number in counts.items() if number < most and name[:1] != SATURATED]
        first = next(iter(counts))  # its pages
        if len(self.examples.get(first, ())) < MAX_EXAMPLES:
            lacking.append(first)
        if (last := next(reversed(counts)))[:1] == LOGIN:  # after all others
            lacking.append(last)
        for name in lacking:
            known = self.examples.get(name, ())
            # The counts of the page are added later, by the same rule.
            if not known and name not in self.counts and len(self.counts) > MAX_NAMES:
                continue
            if not known and len(self.examples) >= MAX_NAMES:
                continue
            if len(known) < MAX_EXAMPLES and url not in known and len(url) <= MAX_EXAMPLE_CHARS:
                self.examples[name] = (*known, url)

    def patterns(self) -> "CrawlTotals":
        """Return the patterns and examples, for a store that counts everything else itself."""
        return CrawlTotals(large=self.large, closed=self.closed, examples=self.examples)


def tally_of(outcome: Outcome, result: ParseResult) -> dict[str, int]:
    """Return what the result of a page or a hook adds to the totals of its crawl, by name."""
    # Only a hook yields items for a request without a page, and only a hook's fault is passed here.
    hook_items = 0 if isinstance(outcome, Done) else len(result.items)
    if not (
        result.dropped
        or result.rejected
        or result.withheld
        or result.partial
        or hook_items
        or result.fault
        or result.discarded
    ):
        return {"repeats": result.repeats} if result.repeats else {}
    counted = {
        "rejected": len(result.rejected),
        "withheld": result.withheld,
        "partial": int(bool(result.partial)),
        "hook_items": hook_items,
        "hook_faults": int(result.fault is not None),
        "repeats": result.repeats,
        **{f"{LINKS}{rule}": count for rule, count in result.dropped.items()},
        **{f"{DISCARDED}{reason}": count for reason, count in result.discarded.items()},
    }
    return {name: count for name, count in counted.items() if count}


def load_released(stored: bytes | None) -> frozenset[str]:
    """Return the released patterns; none, if what is stored cannot be read: they are closed again."""
    try:
        return frozenset() if stored is None else msgspec.json.decode(stored, type=frozenset[str])
    except msgspec.DecodeError:
        return frozenset()


def total(parts: Iterable[CrawlTotals]) -> CrawlTotals:
    """Return the sum of the totals of all workers of a fleet."""
    whole = CrawlTotals()
    for part in parts:
        whole.rejected += part.rejected
        whole.withheld += part.withheld
        whole.partial += part.partial
        whole.hook_items += part.hook_items
        whole.hook_faults += part.hook_faults
        whole.repeats += part.repeats
        whole.close(part)
        for name, count in part.counts.items():
            whole.counts[name] = whole.counts.get(name, 0) + count
        for name, urls in part.examples.items():
            known = dict.fromkeys((*whole.examples.get(name, ()), *urls))
            whole.examples[name] = tuple(known)[:MAX_EXAMPLES]
        for rule, count in part.links.items():
            whole.links[rule] = whole.links.get(rule, 0) + count
        for reason, count in part.discarded.items():
            whole.discarded[reason] = whole.discarded.get(reason, 0) + count
    return whole


def _beyond(closed: dict[str, ClosedPattern], limit: int) -> dict[str, ClosedPattern]:
    return {pattern: reason for pattern, reason in closed.items() if 0 < limit <= reason.more_than}
