"""Sites with 300 real pages and any number of addresses: session ids in paths, canonical twins, sub-domains."""

import hashlib
import random
from collections.abc import Callable, Iterator
from itertools import count

from tests.unit.engine.traps.simulated_sites import SitePage

REAL = 300
START = "https://www.shop.test/"
_WORDS = "lamp chair table shelf clock vase rug mirror sofa stool blue red oak steel tall small old new"
WORDS = _WORDS.split()
MENU = "Welcome to our shop. Delivery within two days, returns within two weeks, questions at any time. " * 4

Site = Callable[[str], SitePage]


def about(number: int) -> str:
    """Return the text of a product: its words are always the same."""
    words = random.Random(number).choices(WORDS, k=30)
    return f"{' '.join(words)}, product {number}. {MENU}"


def children(number: int) -> list[int]:
    """Return the products that a product names: all of them are reached from the first."""
    return [n for n in (2 * number, 2 * number + 1) if n <= REAL]


def related(number: int) -> list[int]:
    return [*children(number), *random.Random(-number).sample(range(1, REAL + 1), 3)]


def product_of(url: str) -> int:
    return int(url.partition("?")[0].rpartition("/")[2])


class Minted:
    """Ids that no page has had before."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = count(1)

    def number(self) -> int:
        return next(self._numbers)

    def hex(self) -> str:
        return hashlib.sha256(b"%d" % next(self._numbers)).hexdigest()[:24]

    def letters(self) -> str:
        return self.hex().translate(str.maketrans("0123456789", "ghijklmnop"))


# --- session ids in paths ---------------------------------------------------------------------------------


def one_page_with_sessions() -> Site:
    """The home page alone has sessions, and shows a counter of visitors."""
    ids = Minted()

    def site(url: str) -> SitePage:
        if "/product/" in url:
            return SitePage(about(product_of(url)), [f"/product/{n}" for n in children(product_of(url))])
        return SitePage(
            f"{MENU} visitor {ids.number()}", ["/product/1", *(f"/s/{ids.hex()}/home" for _ in range(4))]
        )

    return site


def all_links_with_sessions() -> Site:
    """Every link of every page has a new session id."""
    ids = Minted()

    def site(url: str) -> SitePage:
        number = product_of(url) if "/product/" in url else 1
        return SitePage(about(number), [f"/{ids.hex()}/product/{n}" for n in related(number)])

    return site


def sessions_of_letters_and_quotes() -> Site:
    """Sessions are letters only, and each answer has another quotation."""
    ids = Minted()

    def site(url: str) -> SitePage:
        number = product_of(url) if "/product/" in url else 1
        quote = random.Random(ids.number()).choice(WORDS)
        links = [f"/{ids.letters()}/product/{n}" for n in related(number)]
        return SitePage(f"{about(number)} Today: {quote}", links)

    return site


# --- canonical twins --------------------------------------------------------------------------------------


def twins_by_query() -> Site:
    """Links say where they were clicked; the page is the same, and says so."""
    ids = Minted()

    def site(url: str) -> SitePage:
        number = product_of(url) if "/product/" in url else 1
        links = [f"/product/{n}?ref={ids.number()}" for n in related(number)]
        return SitePage(about(number), links, canonical=f"https://www.shop.test/product/{number}")

    return site


def twins_by_path() -> Site:
    """Each product is in any number of categories, and recommends others every time."""
    ids = Minted()

    def site(url: str) -> SitePage:
        number = product_of(url) if "/product/" in url else 1
        ads = " ".join(random.Random(ids.number()).choices(WORDS, k=12))
        links = [f"/c/{ids.number()}/product/{n}" for n in related(number)]
        canonical = f"https://www.shop.test/product/{number}"
        return SitePage(f"{about(number)} {ads}", links, canonical=canonical)

    return site


def twins_by_option() -> Site:
    """A choice without end, which the text repeats."""
    ids = Minted()

    def site(url: str) -> SitePage:
        number = product_of(url) if "/product/" in url else 1
        option = url.rpartition("size=")[2] if "size=" in url else "0"
        links = [f"/product/{n}?size={ids.number()}" for n in related(number)]
        text = f"{about(number)} in size {option}"
        return SitePage(text, links, canonical=f"https://www.shop.test/product/{number}")

    return site


# --- endless sub-domains ----------------------------------------------------------------------------------


def one_page_on_any_host() -> Site:
    """A wildcard in the DNS: the home page is on any host, and names it."""
    ids = Minted()

    def site(url: str) -> SitePage:
        if "/product/" in url:
            return SitePage(about(product_of(url)), [f"/product/{n}" for n in children(product_of(url))])
        host = url.split("/", 3)[2]
        links = [f"https://h{ids.hex()}.shop.test/home" for _ in range(4)]
        return SitePage(f"This is {host}. {MENU}", [f"{START}product/1", *links])

    return site


def all_pages_on_any_host() -> Site:
    ids = Minted()

    def site(url: str) -> SitePage:
        number = product_of(url) if "/product/" in url else 1
        return SitePage(
            about(number), [f"https://{ids.letters()}.shop.test/product/{n}" for n in related(number)]
        )

    return site


def numbered_hosts_with_counters() -> Site:
    ids = Minted()

    def site(url: str) -> SitePage:
        number = product_of(url) if "/product/" in url else 1
        links = [f"https://shop{ids.number()}.shop.test/product/{n}" for n in related(number)]
        return SitePage(f"{about(number)} seen {ids.number()} times", links)

    return site


ENDLESS: dict[str, tuple[Callable[[], Site], ...]] = {
    "session ids": (one_page_with_sessions, all_links_with_sessions, sessions_of_letters_and_quotes),
    "twins": (twins_by_query, twins_by_path, twins_by_option),
    "sub-domains": (one_page_on_any_host, all_pages_on_any_host, numbered_hosts_with_counters),
}
