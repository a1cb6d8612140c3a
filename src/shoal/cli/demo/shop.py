"""A small shop to crawl: a few hundred pages, generated on request and the same every time.

Its markup is what `examples/shop.py` reads: `h1`, `.price`, `[data-sku]`, `.stock`, `.rating[data-rating]`,
`ul.products li a.product` and `a.next`. A few links are broken, one page has moved, some pages fail at the
first request and robots.txt excludes `/cart/`, as in a real shop.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

PER_LISTING = 10
PER_CATEGORY = 40

_CATEGORIES = {
    "nets": ("Nets and lines", ("Cast Net", "Drift Net", "Trot Line", "Hand Line", "Landing Net")),
    "lanterns": ("Lanterns", ("Deck Lantern", "Storm Lamp", "Anchor Light", "Mast Light", "Harbour Lamp")),
    "compasses": ("Compasses and charts", ("Compass", "Sextant", "Tide Table", "Sea Chart", "Barometer")),
    "boots": ("Boots and oilskins", ("Sea Boots", "Oilskin Coat", "Sou'wester", "Deck Shoes", "Wool Jumper")),
    "knots": ("Ropes and knots", ("Mooring Rope", "Anchor Line", "Heaving Line", "Fender Rope", "Twine")),
    "galley": ("Galley", ("Enamel Mug", "Kettle", "Ship's Biscuit", "Tea Caddy", "Copper Pan")),
    "models": ("Model ships", ("Schooner", "Brig", "Lugger", "Trawler", "Clipper")),
    "books": ("Books", ("Pilot Book", "Log Book", "Book of Knots", "Star Atlas", "Whale Stories")),
}
_MAKES = ("Plain", "Sturdy", "Little", "Grand", "Tarred", "Painted", "Old", "Brass")

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;color:#123}"
    "a{color:#067}header,footer{color:#678}.products{columns:2;padding:0 1.2rem}"
    ".price{font-size:1.4rem;font-weight:600}.rating{color:#b70}"
)


@dataclass(frozen=True, slots=True)
class Product:
    slug: str
    name: str
    category: str
    sku: str
    pence: int
    stock: int
    rating: float

    @property
    def path(self) -> str:
        return f"/product/{self.slug}.html"


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: str = ""
    kind: str = "text/html; charset=utf-8"
    location: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def _products(categories: list[str]) -> Iterator[Product]:
    for place, category in enumerate(categories):
        things = _CATEGORIES[category][1]
        for number in range(PER_CATEGORY):
            make, thing = _MAKES[number // len(things)], things[number % len(things)]
            turn = (place * PER_CATEGORY + number) * 7919  # a prime: neighbours do not look alike
            slug = f"{make}-{thing}".lower().replace(" ", "-").replace("'", "")
            sku = f"SH-{place + 1}{number + 1:03}"
            stock = 0 if turn % 11 == 0 else turn % 90 + 1
            yield Product(
                slug, f"{make} {thing}", category, sku, 250 + turn % 19_500, stock, 2 + turn % 31 / 10
            )


class Shop:
    """Answers paths. Its only state is which of the failing pages were requested before."""

    def __init__(self, categories: int = len(_CATEGORIES)) -> None:
        chosen = list(_CATEGORIES)[:categories]
        self.products = {product.path: product for product in _products(chosen)}
        self._shelves = {
            category: [product for product in self.products.values() if product.category == category]
            for category in chosen
        }
        self._failing_once = set(list(self.products)[17::97])

    def reply(self, path: str) -> Reply:
        if path in self._failing_once:
            self._failing_once.discard(path)
            return Reply(503, _page("Busy", "<h1>Busy</h1><p>The shopkeeper will be right back.</p>"))
        if path == "/":
            return Reply(200, _page("The Harbour Shop", self._home()))
        if path == "/robots.txt":
            return Reply(200, "User-agent: *\nDisallow: /cart/\n", "text/plain; charset=utf-8")
        if path == "/category/sale/":
            return Reply(301, location="/category/nets/")
        if product := self.products.get(path):
            return Reply(200, _page(product.name, self._details(product)))
        return self._listing(path)

    def _home(self) -> str:
        entries = "".join(
            f'<li><a class="category" href="/category/{slug}/">{_CATEGORIES[slug][0]}</a></li>'
            for slug in self._shelves
        )
        return (
            f'<h1>The Harbour Shop</h1><ul>{entries}</ul><a class="category" href="/category/sale/">Sale</a>'
        )

    def _listing(self, path: str) -> Reply:
        match path.strip("/").split("/"):
            case ["category", slug] if slug in self._shelves and path.endswith("/"):
                number = 1
            case ["category", slug, page] if slug in self._shelves and page in _numbered_pages():
                number = _numbered_pages().index(page) + 2
            case _:
                return Reply(404, _page("Not here", "<h1>Not here</h1><p>Washed away by the tide.</p>"))
        title = _CATEGORIES[slug][0]
        shelf = self._shelves[slug][(number - 1) * PER_LISTING : number * PER_LISTING]
        entries = "".join(
            f'<li><a class="product" href="{one.path}">{escape(one.name)}</a></li>' for one in shelf
        )
        if number == 2:
            entries += f'<li><a class="product" href="/product/lost-{slug}.html">Lost at sea</a></li>'
        more = number * PER_LISTING < PER_CATEGORY
        onward = f'<a class="next" href="/category/{slug}/page-{number + 1}.html">More</a>' if more else ""
        return Reply(200, _page(title, f'<h1>{title}</h1><ul class="products">{entries}</ul>{onward}'))

    def _details(self, product: Product) -> str:
        stock = f"{product.stock} in stock" if product.stock else "out of stock"
        shelf = self._shelves[product.category]
        beside = shelf[(shelf.index(product) + 1) % len(shelf)]
        return (
            f'<article data-sku="{product.sku}"><h1>{escape(product.name)}</h1>'
            f'<p class="price">£{product.pence / 100:.2f}</p><p class="stock">{stock}</p>'
            f'<p class="rating" data-rating="{product.rating:.1f}">{"★" * round(product.rating)}</p>'
            f'<a href="/cart/add?sku={product.sku}">Put in the cart</a></article>'
            f'<p>Seen beside it: <a href="{beside.path}">{escape(beside.name)}</a></p>'
        )


def _numbered_pages() -> list[str]:
    return [f"page-{number}.html" for number in range(2, -(-PER_CATEGORY // PER_LISTING) + 1)]


def _page(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><header><a href='/'>The Harbour Shop</a></header>"
        f"<main>{body}</main><footer>Made by shoal demo</footer></body></html>"
    )
