"""The rule that closes patterns, on simulated sites: traps of each kind, and sites that are only large."""

import random
from collections.abc import Callable

import pytest
from tests.adversary.size import sized
from tests.unit.engine.traps.endless_sites import ENDLESS, MENU, REAL, START, WORDS, Site
from tests.unit.engine.traps.simulated_sites import SitePage, crawl

from shoal.engine.traps.counts import TrapCounters
from shoal.engine.traps.traps import Traps
from shoal.model.crawl_totals import ClosedPattern, CrawlTotals
from shoal.model.limits import LinkLimits
from shoal.model.page import ParseResult
from shoal.model.request import Link, Request

PRODUCTS = sized(20_000, full=300_000)
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October"]
MONTHS += ["November", "December"]


def number_in(url: str) -> int:
    return int(url.partition("?")[0].rpartition("/")[2])


def listed(url: str) -> SitePage:
    """A catalogue: numbered products on numbered lists of twenty, all in the same words."""
    if "/list/" in url:
        page = number_in(url)
        first = 20 * page
        products = [f"/product/{n}" for n in range(first, min(first + 20, PRODUCTS))]
        following = [f"/list/{page + 1}"] if first + 20 < PRODUCTS else []
        return SitePage(f"Products, page {page}. {MENU}", [*products, *following])
    number = number_in(url)
    return SitePage(
        f"Product {number}, price {number % 90}.99. {MENU}",
        ["/list/0", f"/product/{number + 1}"][: 1 + (number + 1 < PRODUCTS)],
    )


def tree(url: str) -> SitePage:
    """A catalogue without lists: each product names the next two, all in the same words."""
    number = number_in(url)
    following = [f"/product/{n}" for n in (2 * number, 2 * number + 1) if n <= PRODUCTS]
    return SitePage(f"Product number {number}. {MENU}", following)


def calendar(url: str) -> SitePage:
    year, month = map(int, url.rsplit("/", 2)[1:])
    months = 12 * year + month - 1
    near = [months + step for step in (-12, -1, 1, 12)]
    grid = " ".join(map(str, range(1, 31)))
    text = f"{MONTHS[month - 1]} {year} Mo Tu We Th Fr Sa Su {grid} no events"
    return SitePage(text, ["/", *(f"/calendar/{one // 12}/{one % 12 + 1}" for one in near)])


def with_calendar(catalogue: Callable[[str], SitePage], first: str) -> Callable[[str], SitePage]:
    def site(url: str) -> SitePage:
        if url == START:
            return SitePage("Hello", [first, "/calendar/2024/5"])
        return calendar(url) if "/calendar/" in url else catalogue(url)

    return site


@pytest.mark.parametrize(("catalogue", "first"), [(listed, "/list/0"), (tree, "/product/1")])
async def test_a_catalogue_is_crawled_whole_and_a_calendar_beside_it_is_closed(
    catalogue: Callable[[str], SitePage], first: str
) -> None:
    done = await crawl(with_calendar(catalogue, first), START, most=2 * PRODUCTS + 10_000)

    assert done.of("/product/") == PRODUCTS
    assert list(done.totals.closed) == ["shop.test/calendar/*/*"]
    assert done.of("/calendar/") < 2_000
    assert done.held > 0


def rates(url: str) -> SitePage:
    """A table of other numbers for every day, which is reached from the day before only."""
    day = number_in(url)
    draw = random.Random(day)
    table = " ".join(f"{name} {draw.random():.4f}" for name in WORDS * 2)
    return SitePage(f"Day {day}: {table}", [f"/rates/{day + 1}"])


def shells(url: str) -> SitePage:
    """Pages with the same text, whose items come from attributes."""
    number = number_in(url)
    following = [f"/item/{n}" for n in (2 * number, 2 * number + 1)]
    return SitePage(MENU, following, items=(b'{"price": %d}' % number,))


def gallery(url: str) -> SitePage:
    """Pages with the same text, each with other pictures."""
    if "/photo/" in url:
        return SitePage("A picture", [])
    number = number_in(url)
    return SitePage(MENU, [f"/gallery/{number + 1}", *(f"/photo/{3 * number + n}" for n in range(3))])


@pytest.mark.parametrize(("site", "first"), [(rates, "rates/1"), (shells, "item/1"), (gallery, "gallery/1")])
async def test_other_numbers_items_and_links_are_something_new(site: Site, first: str) -> None:
    done = await crawl(site, START + first, most=8_000)

    assert not done.totals.closed
    assert len(done.urls) == 8_000


ALL = [make for makes in ENDLESS.values() for make in makes]


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
async def test_a_site_with_endless_addresses_is_crawled_a_few_times_over(make: Callable[[], Site]) -> None:
    done = await crawl(make(), START, most=20_000)

    products = {url.partition("?")[0].rpartition("/")[2] for url in done.urls if "/product/" in url}
    assert len(done.totals.closed) == 1
    assert len(products) > 0.95 * REAL
    assert len(done.urls) < 20 * REAL
    assert done.held > 0


class NoScope:
    def __init__(self) -> None:
        self.forgotten = 0

    def watch_shapes(self, *shapes: str) -> None: ...

    def forget_sent_links(self) -> None:
        self.forgotten += 1


def closed_traps(**limits: int) -> tuple[Traps, CrawlTotals, NoScope]:
    totals, scope = CrawlTotals(closed={"a.test/s/*": ClosedPattern(250, "u")}), NoScope()
    return Traps(LinkLimits(**limits), totals, scope, TrapCounters()), totals, scope


def test_a_bounded_number_of_links_of_a_closed_pattern_is_kept() -> None:
    traps, _, _ = closed_traps(held=3)
    page = Request(url="https://a.test/")
    urls = [f"https://{host}.a.test/s/{n}" for n, host in enumerate(["x", "y"] * 5)] + ["https://a.test/p/1"]
    kept = traps.filter_links(tuple(Link.to(Request(url=url)) for url in urls), ParseResult(0), page)

    assert len(kept) == 4
    assert kept[-1].packed == Link.to(Request(url=urls[-1])).packed


async def test_what_an_operator_has_released_is_not_held_back_again() -> None:
    traps, totals, scope = closed_traps()
    released: list[bytes | None] = [None, b'["a.test/s/*"]']

    async def read() -> bytes | None:
        return released.pop(0)

    assert await traps.holds_back("https://a.test/p/1", read) == ""
    assert await traps.holds_back("https://a.test/s/1", read) == "a.test/s/*"
    assert await traps.holds_back("https://a.test/s/1", read) == ""
    assert not released, "only what would be held back is asked for"
    assert not totals.closed
    assert totals.released == {"a.test/s/*"}
    assert scope.forgotten == 1
