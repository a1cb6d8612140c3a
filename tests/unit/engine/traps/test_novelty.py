"""The rule that closes patterns, on simulated sites: traps of each kind, and sites that are only large."""

import hashlib
import random
from collections.abc import Callable

import pytest
from tests.adversary.size import sized
from tests.unit.engine.traps.simulated_sites import SitePage, crawl

PRODUCTS = sized(30_000, full=300_000)
REAL = 300  # real pages of the sites with traps
MENU = "Welcome to our shop. Delivery within two days, returns within two weeks, questions at any time. " * 4
START = "https://www.shop.test/"
WORDS = (
    "lamp chair table shelf clock vase rug mirror desk stool blue red oak steel tall small old new".split()
)
MONTHS = "January February March April May June July August September October November December".split()


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
