"""The rule that closes a pattern: its pages bring nothing new.

Pages are put together by site and by the shape of their URL, in which ids are equal. A page brings something
new if it has a new text, a new item, or a link to another part of the site that is not known to repeat
itself. Each page that brings nothing raises the score of its shape, each other one lowers it twice as much.
A score above the limit closes the shape, so two pages of three have to bring nothing, lately. How many URLs a
shape has does not matter.

    page                                                        text        score
    text seen before, or the canonical twin of a page seen      repeated    + 1
    outline or near-duplicate seen before, and not numbered     repeated    + 1
    outline seen before, numbered, deep in a chain of its kind  endless     + 1
    outline seen before, numbered                               numbered    0
    anything else                                               new         - 2

Numbered: the text has a number of its URL, or there are new items. Such pages may be a catalogue, so they
count only if the shape grows without bound: at least `CHAIN` links deeper than its first page, each of them
leading to more of the same. A calendar does that; a catalogue is reached by lists and searches.

A site of pages that lead to one another under ids, each with the same text, is several shapes: links between
shapes that repeat themselves bring nothing new. A page of a gallery, where each page leads to
new ones that lead nowhere, does.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from shoal.engine.traps.counts import SharedCounts
from shoal.model.traps.page_evidence import SAMPLE, PageEvidence
from shoal.model.traps.simhash import NearDuplicates

CHAIN = 30  # links: more than from the start of a site to any page of it that a person would look for
REPEATS_FROM = 64  # score from which links to a shape bring nothing new, and from which it is watched
SIMHASHES = 5_000  # remembered, about 400 bytes each
REMEMBERED = 1 << 16  # digests, in each of two generations: 8 MB
MAX_SHAPES = 4096  # whose first depth is remembered


class Text(Enum):
    NEW = auto()
    NUMBERED = auto()
    REPEATED = auto()
    UNKNOWN = auto()  # it may be a near-duplicate, and was not compared


class Verdict(Enum):
    OPEN = auto()
    WATCH = auto()  # every page of the shape is to be digested
    CLOSE = auto()


@dataclass(frozen=True, slots=True)
class PageLinks:
    """Which new links a page has."""

    own: bool  # to pages of its own shape
    others: frozenset[str]  # shapes


class RecentDigests:
    """The latest digests, in bounded memory."""

    def __init__(self, size: int = REMEMBERED) -> None:
        self._size = size
        self._latest: set[int] = set()
        self._before: set[int] = set()

    def seen(self, shape: str, kind: str, digest: int) -> bool:
        """Remember a digest, and return whether it was remembered already; 0 is none."""
        if not digest:
            return False
        key = hash((shape, kind, digest))
        if key in self._latest:
            return True
        self._latest.add(key)
        known = key in self._before
        if len(self._latest) >= self._size:
            self._latest, self._before = set(), self._latest
        return known


@dataclass(slots=True)
class Scores:
    """By shape, added up over all workers."""

    nothing_new: SharedCounts
    repeated: SharedCounts  # texts alone
    doubts: SharedCounts  # repeated texts, of which one in nine is enough to look closer


class Novelty:
    """Judges the pages of a crawl, one after the other."""

    def __init__(self, limit: int, scores: Scores) -> None:
        """`limit`: pages of a shape that bring nothing new; 0: any number."""
        self._limit = limit
        self._scores = scores
        self._digests = RecentDigests()
        self._simhashes = NearDuplicates(capacity=SIMHASHES)
        self._first_depth: dict[str, int] = {}

    def judge(
        self, shape: str, evidence: PageEvidence, links: PageLinks, *, depth: int, watched: bool
    ) -> Verdict:
        """Take in a page and return what becomes of its shape."""
        weight, scores = (1 if watched else SAMPLE), self._scores
        text = self._text(shape, evidence, compared=watched)
        deep = depth - self._depth_of(shape, depth) >= CHAIN
        if text is Text.REPEATED:
            scores.repeated.raise_by(shape, weight)
            scores.doubts.raise_by(shape, weight)
        elif text is Text.NEW:
            scores.repeated.lower_by(shape, 2 * weight)
            scores.doubts.lower_by(shape, weight // SAMPLE)
        if self._leads_on(links.others) or text is Text.NEW:
            scores.nothing_new.lower_by(shape, 2 * weight)
            return self._looked_at(shape)
        if text is Text.REPEATED or (text is Text.NUMBERED and deep and links.own):
            if scores.nothing_new.raise_by(shape, weight) > self._limit:
                return Verdict.CLOSE
        return self._looked_at(shape)

    def _text(self, shape: str, page: PageEvidence, *, compared: bool) -> Text:
        seen = self._digests.seen
        # All of them are remembered, whichever decides.
        twin = seen(shape, "twin", page.twin_of)
        text = seen(shape, "text", page.text)
        outline = seen(shape, "outline", page.outline)
        items = bool(page.items) and not seen(shape, "items", page.items)
        near = page.simhash is not None and self._simhashes.seen(shape, page.simhash) is not None
        if items:
            return Text.NUMBERED if outline else Text.NEW
        if text or twin or (not page.numbered and (outline or near)):
            return Text.REPEATED
        if outline:
            return Text.NUMBERED
        return Text.UNKNOWN if compared and page.simhash is None and not page.numbered else Text.NEW

    def _leads_on(self, shapes: Iterable[str]) -> bool:
        return any(self._scores.repeated.get(shape) <= REPEATS_FROM for shape in shapes)

    def _looked_at(self, shape: str) -> Verdict:
        return Verdict.WATCH if self._scores.doubts.get(shape) >= REPEATS_FROM else Verdict.OPEN

    def _depth_of(self, shape: str, depth: int) -> int:
        """Return the smallest depth at which a shape was met."""
        first = self._first_depth
        if len(first) >= MAX_SHAPES and shape not in first:
            del first[next(iter(first))]
        known = first.setdefault(shape, depth)
        if depth < known:
            first[shape] = depth
        return first[shape]
