"""Stand-ins for the two public practice sites that examples crawl: a bookshop, and quotes as JSON."""

import json

from tests.site.server import Answer, Site

CATEGORIES = ("Travel", "Poetry")
PER_CATEGORY = 3
QUOTE_PAGES = 3


def build(spec: str, authorities: list[str]) -> Site:
    """Make the site; the server process calls this."""
    return ToScrape()


class ToScrape:
    def answer(self, host: int, path: str, now: float) -> Answer:
        match path.split("?", maxsplit=1)[0].strip("/").split("/"):
            case [""]:
                links = "".join(f'<li><a href="/catalogue/category/{c}">{c}</a></li>' for c in CATEGORIES)
                nav = f'<div class="side_categories"><ul><li><ul>{links}</ul></li></ul></div>'
                return Answer(200, f"<h1>All products</h1>{nav}{_shelf(CATEGORIES[0])}".encode())
            case ["catalogue", "category", category]:
                return Answer(200, f"<h1>{category}</h1>{_shelf(category)}".encode())
            case ["catalogue", name]:
                return Answer(200, _book(name))
            case ["api", "quotes"]:
                return Answer(200, _quotes(int(path.rpartition("=")[2])), content_type="application/json")
            case _:
                return Answer(404, b"")


def _shelf(category: str) -> str:
    return "".join(
        f'<article><h3><a href="/catalogue/{category}-{n}">{category} {n}</a></h3></article>'
        for n in range(PER_CATEGORY)
    )


def _book(name: str) -> bytes:
    return (
        f'<h1>The {name}</h1><p class="price_color">£9.99</p>'
        f"<table><tr><th>UPC</th><td>upc-{name}</td></tr></table>"
    ).encode()


def _quotes(page: int) -> bytes:
    quotes = [{"text": f"Quote {page}", "author": {"name": "An Author"}, "tags": ["short"]}]
    return json.dumps({"quotes": quotes, "page": page, "has_next": page < QUOTE_PAGES}).encode()
