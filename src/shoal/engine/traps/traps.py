"""Crawler traps: URL spaces without end, which no single page shows and a parse child cannot see."""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from shoal.engine.traps.counts import TrapCounters
from shoal.engine.traps.novelty import Novelty, Scores, ShapeVerdict
from shoal.engine.traps.url_patterns import LargePatterns
from shoal.model.crawl_totals import ClosedPattern, CrawlTotals, load_released
from shoal.model.limits import LinkLimits
from shoal.model.page import ParseResult
from shoal.model.request import Link, Request, unpack
from shoal.model.traps.url_pattern import shape_of_url
from shoal.model.url import site_of

log = logging.getLogger(__name__)


class ShapeWatch(Protocol):
    """The part of a crawl's scope that traps need."""

    def watch_shapes(self, *shapes: str) -> None:
        """Have every page of these shapes digested from now on."""

    def forget_sent_links(self) -> None:
        """Make the parse children send links again that they have sent before."""


class Traps:
    """Judges what pages bring, and holds back the links to shapes that bring nothing new.

    A link to a closed shape becomes a request that ends as filtered, by the rule `held`, when it is leased:
    there it can be released. `LinkLimits.held` of a shape are kept that way, further ones only counted.
    """

    def __init__(
        self, limits: LinkLimits, totals: CrawlTotals, scope: ShapeWatch, counters: TrapCounters
    ) -> None:
        self._limits = limits
        self._large = LargePatterns(limits.per_pattern, totals.large, counters)
        self._totals = totals
        self._scope = scope
        self._held = counters.held
        self._watched: set[str] = set()
        scores = Scores(counters.nothing_new, counters.repeated, counters.doubts)
        self._novelty = Novelty(limits.nothing_new, scores)

    async def holds_back(self, url: str, read_released: Callable[[], Awaitable[bytes | None]]) -> str:
        """Return the closed shape of a URL that is not to be requested; empty: it is not held back.

        `read_released` reads what operators have released until now: a request must not be held back again.
        """
        if not self._totals.closed or (shape := shape_of_url(url)) not in self._totals.closed:
            return ""
        self.release(load_released(await read_released()))
        return shape if shape in self._totals.closed else ""

    def release(self, shapes: frozenset[str]) -> None:
        """Reopen shapes; they are not closed again."""
        if self._totals.release(shapes):
            self._scope.forget_sent_links()  # those beyond the limit were dropped

    def filter_links(
        self, links: tuple[Link, ...], result: ParseResult, request: Request
    ) -> tuple[Link, ...]:
        """Take in a page and return its links, without those beyond what is kept of closed shapes."""
        if result.evidence is not None and self._limits.nothing_new:
            self._judge(links, result, request)
        self._large.count(links)
        if not self._totals.closed:
            return links
        sites = {shape.partition("/")[0] for shape in self._totals.closed}
        return tuple([link for link in links if site_of(link.host) not in sites or self._is_kept(link)])

    def _judge(self, links: tuple[Link, ...], result: ParseResult, request: Request) -> None:
        shape = shape_of_url(request.url)
        if shape in self._totals.closed or shape in self._totals.released:
            return
        assert result.evidence is not None
        shapes = {shape_of_url(unpack(link.packed).url) for link in links}
        others = shapes.difference(self._totals.closed, (shape,))
        watched = shape in self._watched
        verdict = self._novelty.judge(shape, result.evidence, others, series=request.series, watched=watched)
        if verdict is ShapeVerdict.CLOSE:
            more_than = self._limits.nothing_new
            self._totals.closed[shape] = ClosedPattern(more_than, request.url)
            facts = {"pattern": shape, "more_than": more_than, "example": request.url}
            log.warning("links.held", extra=facts)
        elif verdict is ShapeVerdict.WATCH and not watched:
            self._watched.add(shape)
            self._scope.watch_shapes(shape)

    def _is_kept(self, link: Link) -> bool:
        shape = shape_of_url(unpack(link.packed).url)
        if shape not in self._totals.closed:
            return True
        if self._held.get(shape) >= self._limits.held:
            return False
        self._held.add(shape)
        return True
