"""The site that is crawled: a static shop, the same bytes on every machine.

A page is about 12 KB with 30 links: eight to pages that only it is sure to lead to (so the whole shop is
reachable from its first page), the rest anywhere, written in the ways sites write them.
"""

import random
import shutil
from pathlib import Path

CACHE = Path(__file__).parents[1] / ".cache"
VERSION = 1  # of the generator: a change here makes the site anew
BRANCHES = 8
LINKS = 30
PAGE_BYTES = 12_000
WORDS = 600

FIELDS = {"title": "h1", "price": ".price", "sku": ".sku", "stock": ".stock", "rating": ".rating"}
"""What the job extracts, as name and CSS selector: the text of the first match."""


def path_of(number: int) -> str:
    return f"/shop/c{number % 97}/p{number}.html" if number else "/"


def page(number: int, pages: int) -> str:
    """Write one page of a shop of `pages` pages."""
    rng = random.Random(number)
    children = [n for n in range(number * BRANCHES + 1, number * BRANCHES + 1 + BRANCHES) if n < pages]
    others = [rng.randrange(pages) for _ in range(LINKS - len(children))]
    targets = children + others
    rng.shuffle(targets)
    links = "\n".join(
        f'<li class="card"><a class="card-link" href="{_href(number, target, rng)}">{_words(rng, 4)}</a>'
        f'<span class="note">{_words(rng, 5)}</span></li>'
        for target in targets
    )
    parts = [
        f"<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<title>{number} | Shop</title>\n"
        f'<link rel=stylesheet href="/style.css">\n</head>\n<body>\n<main>\n<h1>Product {number}</h1>\n'
        f'<dl class="facts"><dt>Price</dt><dd class="price">£{rng.randrange(100, 99999) / 100:.2f}</dd>'
        f'<dt>SKU</dt><dd class="sku">SKU-{number:07d}</dd>'
        f'<dt>Stock</dt><dd class="stock">{rng.randrange(500)}</dd>'
        f'<dt>Rating</dt><dd class="rating">{rng.randrange(10, 51) / 10}</dd></dl>\n',
        f'<ul class="related">\n{links}\n</ul>\n',
    ]
    size = sum(map(len, parts))
    while size < PAGE_BYTES - 100:
        paragraph = f'<section class="text"><h3>{_words(rng, 3)}</h3><p>{_words(rng, 40)}</p></section>\n'
        parts.append(paragraph)
        size += len(paragraph)
    parts.append("</main>\n<footer>Shop</footer>\n</body>\n</html>\n")
    return "".join(parts)


def _href(number: int, target: int, rng: random.Random) -> str:
    path = path_of(target)
    match rng.randrange(10):
        case 0:
            return f"{path}#reviews"
        case 1 if number and target:
            return f"../c{target % 97}/p{target}.html"
        case _:
            return path


_VOCABULARY_RNG = random.Random(0)
_VOCABULARY = [
    "".join(_VOCABULARY_RNG.choice("aeioulnrstdmkgp") for _ in range(_VOCABULARY_RNG.randrange(3, 10)))
    for _ in range(WORDS)
]


def _words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(_VOCABULARY, k=count))


def made(pages: int) -> Path:
    """Return the folder of a shop of `pages` pages, writing it first if it is not there."""
    folder = CACHE / "bench-site" / f"v{VERSION}-{pages}"
    if (folder / "complete").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    for number in range(pages):
        path = path_of(number)
        file = folder / (path.lstrip("/") if number else "index.html")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page(number, pages), encoding="utf-8")
    (folder / "robots.txt").write_text("User-agent: *\nDisallow: /basket/\n")
    (folder / "style.css").write_text("body { font: 16px sans-serif }\n")
    (folder / "complete").touch()
    return folder
