"""Sites as functions of a URL, and a crawl of one without a network: what `Traps` decides, page by page.

A page is digested as a parse child does it, and its links are those that one child would send: each once.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from shoal.engine.traps.counts import TrapCounters
from shoal.engine.traps.traps import Traps
from shoal.model.crawl_totals import CrawlTotals
from shoal.model.limits import LinkLimits
from shoal.model.page import ParseResult
from shoal.model.request import Link, Request, unpack, without_digits
from shoal.model.traps.page_evidence import SAMPLE, page_evidence
from shoal.model.traps.simhash import SAMPLE as SIMHASH_SAMPLE
from shoal.model.traps.simhash import simhash
from shoal.model.traps.url_pattern import shape_of_url


@dataclass(frozen=True, slots=True)
class SitePage:
    text: str
    links: Iterable[str]  # addresses, most of them without the name of the host
    canonical: str = ""
    items: tuple[bytes, ...] = ()


@dataclass(slots=True)
class Crawled:
    fetched: Counter[str] = field(default_factory=Counter)  # pages by shape
    urls: set[str] = field(default_factory=set)
    held: int = 0  # requests that ended as held
    totals: CrawlTotals = field(default_factory=CrawlTotals)

    def of(self, part: str) -> int:
        return sum(count for shape, count in self.fetched.items() if part in shape)


class Watch:
    def __init__(self) -> None:
        self.shapes: set[str] = set()

    def watch_shapes(self, *shapes: str) -> None:
        self.shapes.update(shapes)

    def forget_sent_links(self) -> None:
        pass


async def nothing_released() -> bytes | None:
    return None


async def crawl(
    site: Callable[[str], SitePage], start: str, *, most: int, limits: LinkLimits | None = None
) -> Crawled:
    """Crawl a site, nearest pages first, until nothing is left or `most` pages are fetched."""
    watch, done = Watch(), Crawled()
    traps = Traps(limits or LinkLimits(), done.totals, watch, TrapCounters())
    seen = {start}
    queue = deque([Link.to(Request(url=start))])
    while queue and len(done.urls) < most:
        link = queue.popleft()
        request = unpack(link.packed)
        if await traps.holds_back(request.url, nothing_released):
            done.held += 1
            continue
        page = site(request.url)
        shape = shape_of_url(request.url)
        done.urls.add(request.url)
        done.fetched[shape] += 1
        host = request.url.split("/", 3)[2]
        urls = [url if "://" in url else f"https://{host}{url}" for url in page.links]
        new = [url for url in dict.fromkeys(urls) if url not in seen]
        seen.update(new)
        series = {
            url: request.series + 1 for url in new if without_digits(url) == without_digits(request.url)
        }
        links = tuple([Link.to(Request(url=url, series=series.get(url, 0))) for url in new])
        watched = shape in watch.shapes
        evidence = None
        if links and (watched or not link.fingerprint % SAMPLE):
            hashed = watched or not link.fingerprint % SIMHASH_SAMPLE
            evidence = page_evidence(
                request.url,
                f"<p>{page.text}</p>".encode(),
                items=page.items,
                canonical="" if page.canonical == request.url else page.canonical,
                simhash=simhash(page.text) or 0 if hashed else None,
            )
        queue.extend(traps.filter_links(links, ParseResult(0, evidence=evidence), request))
    return done
