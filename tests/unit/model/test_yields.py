"""Which generations of a site are out of range: sixty nights with natural noise, and ways to break it."""

import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import pytest

from shoal.model.crawl_totals import CrawlTotals, total
from shoal.model.page import MAX_COUNTS
from shoal.model.yields.counts import (
    MAX_EXAMPLES,
    MAX_HISTORY,
    MAX_NAMES,
    GenerationYield,
    YieldDrop,
    dump,
    load_drops,
    load_history,
    read_handlers,
    with_generation,
)
from shoal.model.yields.rule import find_drops
from shoal.spider.item_counts import ItemCounts

NIGHTS = 60
SEEDS = range(int(os.environ.get("SHOAL_YIELD_SEEDS", "2")))
Item = dict[str, object]


@dataclass(frozen=True)
class Page:
    url: str
    handler: str
    items: tuple[Item, ...] = ()


@dataclass
class Shop:
    """A shop whose products come and go, and whose prices change."""

    chance: random.Random
    products: list[int] = field(default_factory=lambda: list(range(300)))
    next: int = 300

    def pass_night(self) -> None:
        share = self.chance.uniform(0.01, 0.03)
        for _ in range(round(share * len(self.products))):
            self.products.pop(self.chance.randrange(len(self.products)))
            if self.chance.random() < 0.95:
                self.products.append(self.next)
                self.next += 1

    def pages(self) -> list[Page]:
        """Return what the handlers yield: categories with teasers, a page per product, a page of the firm."""
        categories = [
            Page(
                f"/c/{first}",
                "category",
                tuple({"name": f"product {n}"} for n in self.products[first : first + 20]),
            )
            for first in range(0, len(self.products), 20)
        ]
        products = [Page(f"/p/{number}", "product", (self.product(number),)) for number in self.products]
        return [*categories, *products, Page("/about", "firm", ({"phone": "030 1"},))]

    def product(self, number: int) -> Item:
        chance = self.chance
        return {
            "name": f"product {number}",
            "price": f"{chance.randint(100, 99_999) / 100:.2f}",
            "currency": "EUR",
            "in_stock": chance.random() < 0.9,
            "discount": f"{chance.randint(5, 50)} %" if chance.random() < 0.2 else None,
            "rating": round(chance.uniform(1, 5), 1) if number % 10 < 6 else None,
            "images": [f"/{number}.jpg"] if number % 50 else [],
        }


def generation(
    pages: Sequence[Page], night: int, *, version: str = "v1", reach: str = "r", whole: bool = True
) -> tuple[GenerationYield, CrawlTotals]:
    """Count what pages yielded, as the parse children and the store do."""
    counts, totals = ItemCounts(), CrawlTotals()
    for page in pages:
        counts.begin(page.handler)
        for item in page.items:
            counts.add(page.handler, item)
        of_page = counts.take()
        totals.add_example(page.url, of_page)
        totals.add_counts(of_page)
    handlers = read_handlers(totals.counts)
    done = len(pages)
    return GenerationYield(float(night + 1), version, reach, whole, done, handlers=handlers), totals


def judge(history: Sequence[GenerationYield], pages: Sequence[Page], **how: object) -> tuple[YieldDrop, ...]:
    now, totals = generation(pages, 1_000, **how)  # type: ignore[arg-type]
    return find_drops(history, now, totals.examples)


def nights(seed: int, number: int, *, products: int = 300) -> Iterator[tuple[int, list[Page]]]:
    shop = Shop(random.Random(seed), list(range(products)), products)
    for night in range(number):
        shop.pass_night()
        yield night, shop.pages()


@pytest.fixture(scope="module", params=[1, 3, 20], ids=lambda number: f"{number} generations")
def history(request: pytest.FixtureRequest) -> tuple[GenerationYield, ...]:
    known: tuple[GenerationYield, ...] = ()
    for night, pages in nights(1, request.param):
        known = with_generation(known, generation(pages, night)[0])
    return known


@pytest.mark.parametrize("products", [8, 60, 300])
@pytest.mark.parametrize("seed", SEEDS)
def test_sixty_generations_with_natural_noise_raise_no_alarm(seed: int, products: int) -> None:
    history: tuple[GenerationYield, ...] = ()
    chance = random.Random(1_000 + seed)
    down, bad = chance.sample(range(2, NIGHTS), 2)
    for night, pages in nights(seed, NIGHTS, products=products):
        failed = 0
        if night == down:
            continue  # no page: the generation has shown nothing, and is not compared
        if night == bad:
            failed = -(-len(pages) // 10)
            pages = chance.sample(pages, len(pages) - failed)
        now, totals = generation(pages, night)
        now = msgspec.structs.replace(now, failed=failed)
        assert find_drops(history, now, totals.examples) == (), night
        history = with_generation(history, now)
    assert len(history) == MAX_HISTORY


# --- ways to break a site or a spider -----------------------------------------------------------------------


def _each(change: Callable[[Item], Item], handler: str = "product") -> Callable[[list[Page]], list[Page]]:
    def broken(pages: list[Page]) -> list[Page]:
        return [
            replace(page, items=tuple(map(change, page.items))) if page.handler == handler else page
            for page in pages
        ]

    return broken


def _without_items(pages: list[Page]) -> list[Page]:
    return [replace(page, items=()) if page.handler == "product" else page for page in pages]


def _half(pages: list[Page]) -> list[Page]:
    products = [page for page in pages if page.handler == "product"]
    return [page for page in pages if page.handler != "product"] + products[: len(products) // 2]


def _doubled(pages: list[Page]) -> list[Page]:
    again = [replace(page, url=f"{page.url}?session=1") for page in pages if page.handler == "product"]
    return [*pages, *again]


BROKEN: dict[str, tuple[Callable[[list[Page]], list[Page]], tuple[str, str, str]]] = {
    "a class is renamed": (_each(lambda item: {**item, "price": None}), ("field", "product", "price")),
    "a handler leaves a field out": (
        _each(lambda item: {key: value for key, value in item.items() if key != "price"}),
        ("field", "product", "price"),
    ),
    "a field is an empty text": (_each(lambda item: {**item, "price": " "}), ("field", "product", "price")),
    "a list is empty": (_each(lambda item: {**item, "images": []}), ("field", "product", "images")),
    "validation rejects every product": (_without_items, ("items", "product", "")),
    "pagination ends after half": (_half, ("items", "product", "")),
    "half of the pages are soft 404s": (
        lambda pages: [
            replace(page, items=()) if page.handler == "product" and int(page.url[3:]) % 2 else page
            for page in pages
        ],
        ("items", "product", ""),
    ),
    "every page is a log-in form": (lambda pages: [Page("/login", "category")], ("items", "", "")),
    "a consent wall has the place of each page": (
        _each(lambda item: {key: "Accept all" if key == "name" else None for key in item}),
        ("field", "product", "price"),
    ),
    "another language, so that a regex misses": (
        _each(lambda item: {**item, "price": "", "rating": None}),
        ("field", "product", "price"),
    ),
    "the start URL redirects to a page of the firm": (
        lambda pages: [page for page in pages if page.handler == "firm"],
        ("items", "product", ""),
    ),
    "every item comes twice under another key": (_doubled, ("items", "product", "")),
    "the handler raises": (
        lambda pages: [page for page in pages if page.handler != "product"],
        ("items", "product", ""),
    ),
    "a field has one value everywhere": (
        _each(lambda item: {**item, "price": "0.00"}),
        ("constant", "product", "price"),
    ),
    "a third of the pages has another layout": (
        lambda pages: [
            replace(page, items=({**page.items[0], "price": None},))
            if page.handler == "product" and int(page.url[3:]) % 3 == 0
            else page
            for page in pages
        ],
        ("field", "product", "price"),
    ),
}


@pytest.mark.parametrize("way", BROKEN)
def test_each_way_to_break_a_site_or_a_spider_is_named(
    way: str, history: tuple[GenerationYield, ...]
) -> None:
    shop = Shop(random.Random(99))
    breaks, expected = BROKEN[way]

    drops = judge(history, breaks(shop.pages()))

    assert expected in [(drop.kind, drop.handler, drop.field) for drop in drops], drops
    assert not any(drop.spider_changed for drop in drops)
    assert judge(history, shop.pages()) == ()  # the same night, not broken


def test_a_drop_names_figures_and_three_pages_that_lack_the_field(
    history: tuple[GenerationYield, ...],
) -> None:
    pages = BROKEN["a class is renamed"][0](Shop(random.Random(99)).pages())
    [drop] = judge(history, pages, version="v2")

    assert (drop.after, drop.after_of) == (0, 300)
    assert drop.before == drop.before_of
    assert drop.urls == ("/p/0", "/p/1", "/p/2")
    assert drop.spider_changed
    assert drop.text == (
        f"handler product: price is filled in 0 of 300 items, before in {drop.before} of {drop.before};"
        " the spider has changed; for example /p/0, /p/1, /p/2"
    )
    assert load_drops(dump((drop,))) == (drop,)


@pytest.mark.parametrize("items", [1, 2, 3, 10])
def test_a_small_crawl_that_yields_nothing_any_more_is_a_drop(items: int) -> None:
    pages = [Page(f"/p/{number}", "product", ({"price": str(number)},)) for number in range(items)]
    history = (generation(pages, 0)[0],)

    assert judge(history, pages) == ()
    assert judge(history, pages[1:]) == () or items == 1
    [drop] = judge(history, [replace(page, items=()) for page in pages])
    assert (drop.kind, drop.before, drop.after) == ("items", items, 0)
    assert judge(history, [replace(page, items=({"price": None},)) for page in pages])[0].field == "price"


def test_accepted_figures_are_part_of_the_range(history: tuple[GenerationYield, ...]) -> None:
    pages = BROKEN["a class is renamed"][0](Shop(random.Random(99)).pages())
    now, _ = generation(pages, 999)
    accepted = with_generation(with_generation(history, now), now)

    assert len(accepted) == min(len(history) + 1, MAX_HISTORY)
    assert judge(accepted, pages) == ()
    assert load_history(dump(accepted)) == accepted


def test_numbers_are_compared_between_whole_crawls_of_the_same_reach_and_shares_always(
    history: tuple[GenerationYield, ...],
) -> None:
    pages = Shop(random.Random(99)).pages()
    half, unpriced = _half(pages), BROKEN["a class is renamed"][0](pages)
    for how in ({"reach": "--max-pages 150"}, {"whole": False}):
        assert judge(history, half, **how) == (), how
        assert [drop.field for drop in judge(history, unpriced, **how)] == ["price"], how
        assert [drop.kind for drop in judge(history, [], **how)] == ["items"], how


def test_only_generations_of_the_latest_version_of_the_spider_make_the_range() -> None:
    pages = Shop(random.Random(7)).pages()
    unpriced = BROKEN["a class is renamed"][0](pages)
    history = (generation(unpriced, 0, version="old")[0], generation(pages, 1)[0])

    assert [drop.field for drop in judge(history, unpriced)] == ["price"]


def test_a_field_that_a_changed_spider_does_not_name_any_more_is_no_drop(
    history: tuple[GenerationYield, ...],
) -> None:
    pages = BROKEN["a handler leaves a field out"][0](Shop(random.Random(99)).pages())

    assert judge(history, pages, version="v2") == ()
    assert [drop.field for drop in judge(history, pages)] == ["price"]


def test_what_a_store_has_lost_or_damaged_counts_as_no_history() -> None:
    for stored in (None, b"", b"{}", b"[1]", b"\xff"):
        assert load_history(stored) == ()
        assert load_drops(stored) == ()


def test_counts_and_examples_stay_bounded_whatever_fields_pages_bring() -> None:
    pages = [Page(f"/{n}", f"h{n}", ({f"{n} {m}": None for m in range(200)},)) for n in range(50)]
    _, totals = generation(pages, 0)

    assert len(totals.counts) <= 2 * MAX_NAMES + MAX_COUNTS
    assert len(totals.examples) <= MAX_NAMES
    assert all(len(urls) <= MAX_EXAMPLES for urls in totals.examples.values())


def test_a_field_whose_name_nothing_can_encode_is_counted() -> None:
    _, totals = generation([Page("/", "h", ({"a\ud800": 1, "ä": 2},))], 0)

    assert CrawlTotals.load(totals.dump()).counts["f\x1fh\x1fa?"] == 1
    assert totals.counts["f\x1fh\x1fä"] == 1


def test_fields_that_are_not_counted_because_there_are_too_many_are_not_missed() -> None:
    pages = [
        Page(f"/{handler}/{n}", handler, ({f"{handler} {m}": f"{n} {m}" for m in range(size)},))
        for handler, size in (("a", 88), ("b", 88), ("c", 88), ("d", 88), ("large", 150))
        for n in range(30)
    ]
    history = (generation(pages, 0)[0],)
    mixed = random.Random(1).sample(pages, len(pages))
    shuffled = [
        replace(
            page, items=({name: item[name] for name in random.Random(page.url).sample([*item], len(item))},)
        )
        for page in mixed[::-1]
        for item in page.items
    ]

    now, _ = generation(shuffled, 1)

    assert find_drops(history, now) == ()
    assert {name: one.items for name, one in now.handlers.items()} == dict.fromkeys(history[0].handlers, 30)
    assert now.handlers["large"].saturated


def test_examples_of_all_workers_are_joined() -> None:
    parts = [CrawlTotals(examples={"f\x1fh\x1fprice": (f"/{n}", "/x")}) for n in range(4)]

    assert total(parts).examples == {"f\x1fh\x1fprice": ("/0", "/x", "/1")}
