"""The bookshop that the documentation talks about: listings of ten, pages of books, a next link."""

from tests.site.server import Answer, Site

BOOKS = 30
PER_PAGE = 10


def build(spec: str, authorities: list[str]) -> Site:
    """Make the site; the server process calls this."""
    return BookSite()


class BookSite:
    def __init__(self, missing: tuple[int, ...] = ()) -> None:
        self._missing = missing  # listed, but answered with 404

    def answer(self, host: int, path: str, now: float) -> Answer:
        match path.strip("/").split("/"):
            case ["robots.txt"]:
                return Answer(200, b"User-agent: *\nDisallow: /basket\n", content_type="text/plain")
            case [""]:
                return Answer(200, _listing(1, self._missing))
            case ["catalogue", name] if name.startswith("page-"):
                number = int(name.removeprefix("page-").removesuffix(".html"))
                return Answer(200, _listing(number, self._missing))
            case ["catalogue", "book-404", "index.html"]:
                return Answer(404, b"<h1>Not found</h1>")
            case ["catalogue", "book-500", "index.html"]:
                return Answer(500, b"<h1>Out of order</h1>")
            case ["catalogue", name, "index.html"]:
                return Answer(200, _book(int(name.removeprefix("book-"))))
            case _:
                return Answer(404, b"<h1>Not found</h1>")


def _listing(number: int, missing: tuple[int, ...]) -> bytes:
    first = (number - 1) * PER_PAGE + 1
    shown = [*range(first, first + PER_PAGE), *(missing if number * PER_PAGE == BOOKS else ())]
    books = "".join(f'<h3><a href="/catalogue/book-{n}/index.html">Book {n}</a></h3>' for n in shown)
    following = f'<p class="next"><a href="/catalogue/page-{number + 1}.html">next</a></p>'
    more = following if number * PER_PAGE < BOOKS else ""
    return f"<!doctype html><title>Books</title>{books}{more}<a href=/basket>Basket</a>".encode()


def _book(number: int) -> bytes:
    return (
        f"<!doctype html><title>Book {number}</title><h1>Book {number}</h1>"
        f'<p class="price">£{number}.99</p><a href="/">All books</a>'
    ).encode()
