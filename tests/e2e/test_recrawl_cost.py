"""What a second generation costs; `make recrawl` measures 10,000 pages."""

import os

from bench.recrawl import compare

FULL = 10_000
PAGES = int(os.environ.get("SHOAL_RECRAWL_PAGES", "1000"))
PAGE_BYTES = 100_000
# Of the CPU time of the first generation. In a short crawl, the start of the processes counts for more.
MOST = 0.40 if PAGES >= FULL else 0.75


def test_unchanged_pages_are_not_sent_and_cost_little() -> None:
    first, second = compare(PAGES, PAGE_BYTES)

    assert (second.requests, second.items) == (first.requests, first.items) == (PAGES, PAGES)
    assert second.body_bytes == 0
    assert first.body_bytes > PAGES * PAGE_BYTES / 2
    assert second.cpu_s <= MOST * first.cpu_s, (first, second)
