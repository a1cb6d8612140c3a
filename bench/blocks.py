"""What it costs to look for blocks: microseconds per page, by kind of page.

    python -m bench.blocks [--pages 400]

The pages are those of the whole comparison, and the block pages of the tests; the best of several rounds
counts.
"""

import argparse
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from tests.unit.fetch.block_pages import BLOCKS, CLOUDFLARE, PAGES

from bench.links import best, on_each
from bench.site import page
from shoal.fetch.challenge import find_block
from shoal.model.page import Response

GOAL_US = 15.0


def response(body: bytes, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    usual = (("content-type", "text/html"), ("date", "x"), ("etag", "x"), ("cache-control", "x"), *headers)
    return Response("https://shop.example/p1.html", status, usual, body, body, 0.0, 0.1)


def measured(pages: int) -> dict[str, float]:
    """Return microseconds per page by kind of page."""
    bodies = [page(number, 20_000).encode() for number in range(1, pages + 1)]
    kinds: dict[str, Sequence[Response]] = {
        "pages of a shop, 12 KB and more": [response(body) for body in bodies],
        "the same behind Cloudflare": [response(body, headers=CLOUDFLARE) for body in bodies],
        "short pages, 4 KB": [response(body[:4096]) for body in bodies],
        "short pages behind Cloudflare": [response(body[:4096], headers=CLOUDFLARE) for body in bodies],
        "403, 4 KB": [response(body[:4096], 403) for body in bodies],
        "pages that look like blocks": list(PAGES.values()) * (pages // len(PAGES) + 1),
        "blocks": [block for _, block in BLOCKS.values()] * (pages // len(BLOCKS) + 1),
    }
    return {
        name: next(iter(best({name: on_each(found, find_block)}, len(found)).values()))
        for name, found in kinds.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pages", type=int, default=400)
    figures = measured(parser.parse_args().pages)
    table = Table("", "µs per page", title=f"looking for blocks (goal: {GOAL_US:g} µs)", title_justify="left")
    for name, figure in figures.items():
        table.add_row(name, f"{figure:.2f}")
    Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
