"""The rule that closes a pattern: its pages bring nothing new.

Pages are put together by site and by the shape of their URL, in which ids are equal. A page brings something
new if it has a new text, a new item, or a link to another part of the site that is not known to repeat
itself. Each page that brings nothing raises the score of its shape, each other one lowers it ten times as
much. A score above the limit closes the shape, so ten pages of eleven have to bring nothing, lately. How many
URLs a shape has does not matter.

    page                                                        text        score
    text seen before, or the canonical twin of a page seen      repeated    + 1
    near-duplicate of a page of this title and these numbers    repeated    + 1
    only the numbers of its URL are new, far in a series        numbered    + 1
    only the numbers of its URL are new                         numbered    0
    anything else                                               new         - 10

Numbered pages may be a catalogue, so they count only if the shape grows without bound: `SERIES` links in a
row led to the page, each of them from a page whose URL differs in its numbers only. A calendar grows that
way; a catalogue is reached by lists and searches.

Where every link of a site has a new id, its shapes lead to one another: links to shapes that repeat
themselves bring nothing new. Links to pages that lead nowhere, as those of a gallery, do.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from shoal.engine.traps.counts import SharedCounts
from shoal.model.page import PageEvidence
from shoal.model.traps.page_evidence import SAMPLE
from shoal.model.traps.simhash import NearDuplicates

SERIES = 30  # links: a list of a million products that each lead to two others is 20 deep
PENALTY = 10  # of a page that brings something new
REPEATS_FROM = 64  # score from which links to a shape bring nothing new
WATCH_FROM = 32  # score of doubts: four pages of those that are digested
SIMHASHES = 5_000  # remembered, about 400 bytes each
REMEMBERED = 1 << 16  # digests, in each of two generations: 8 MB


class Text(Enum):
    NEW = auto()
    NUMBERED = auto()
    REPEATED = auto()


class ShapeVerdict(Enum):
    OPEN = auto()
    WATCH = auto()  # every page of the shape is to be digested
    CLOSE = auto()


class RecentDigests:
    """The latest digests, in bounded memory."""

    def __init__(self, size: int = REMEMBERED) -> None:
        self._size = size
        self._latest: set[int] = set()
        self._before: set[int] = set()

    def seen(self, shape: str, kind: str, digest: int) -> bool:
        """Remember a digest, and return whether it was remembered already; 0: there is no digest."""
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

    def judge(
        self, shape: str, evidence: PageEvidence, others: Iterable[str], *, series: int, watched: bool
    ) -> ShapeVerdict:
        """Take in a page and return what becomes of its shape; `others`: open shapes that it newly links to.

        `series`: of its request.
        """
        scores = self._scores
        weight = 1 if watched else SAMPLE
        text, doubt = self._text(shape, evidence)
        if doubt:
            scores.doubts.raise_by(shape, weight)
        elif evidence.simhash is not None:
            scores.doubts.lower_by(shape, weight)
        if text is Text.REPEATED:
            scores.repeated.raise_by(shape, weight)
        elif text is Text.NEW:
            scores.repeated.lower_by(shape, PENALTY * weight)
        if self._leads_on(others) or text is Text.NEW:
            scores.nothing_new.lower_by(shape, PENALTY * weight)
            return self._looked_at(shape)
        repeats = text is Text.REPEATED or (text is Text.NUMBERED and series >= SERIES)
        if repeats and scores.nothing_new.raise_by(shape, weight) > self._limit:
            return ShapeVerdict.CLOSE
        return self._looked_at(shape)

    def _text(self, shape: str, page: PageEvidence) -> tuple[Text, bool]:
        """Return what the text of a page is, and whether its shape needs a closer look."""
        seen, same = self._digests.seen, f"{shape} {page.about}"
        # All of them are remembered, not only the one that decides.
        text = seen(shape, "text", page.text)
        twin = seen(shape, "twin", page.twin_of)
        rest = seen(shape, "rest", page.rest)
        outline = seen(same, "outline", page.outline) and bool(page.about)
        titled = f"{same} {page.title}"
        near = bool(page.simhash) and self._simhashes.seen(titled, page.simhash or 0) is not None
        items = bool(page.items) and not seen(shape, "items", page.items)
        doubt = text or twin or outline or near
        if not items and (text or twin or near):
            return Text.REPEATED, doubt
        return Text.NUMBERED if rest and page.about else Text.NEW, doubt

    def _leads_on(self, shapes: Iterable[str]) -> bool:
        return any(self._scores.repeated.get(shape) <= REPEATS_FROM for shape in shapes)

    def _looked_at(self, shape: str) -> ShapeVerdict:
        return ShapeVerdict.WATCH if self._scores.doubts.get(shape) >= WATCH_FROM else ShapeVerdict.OPEN
