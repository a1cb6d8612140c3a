"""Selectors and links on real pages: Shoal against parsel, and against lxml with the standard library."""

from collections import Counter
from collections.abc import Iterator

import pytest
from tests.corpora.browser_rules import is_broken
from tests.corpora.links import links_by_lxml
from tests.corpora.selectors import QUERIES, UNEXPLAINED, differences
from tests.corpora.trees import CUT, TREES, WHOLE

from shoal.spider.page import Page

PAGES = 400 if WHOLE else 100  # of each tree, at most


def real_pages() -> Iterator[tuple[str, bytes]]:
    for tree in TREES if WHOLE else CUT:
        yield from tree.pages(PAGES)


def test_selectors_find_what_parsel_finds() -> None:
    reasons: Counter[str] = Counter()
    pages = 0
    for path, body in real_pages():
        pages += 1
        for query, reason in differences(body):
            reasons[reason] += 1
            print(f"{path}: {query}: {reason}")
    asked = pages * len(QUERIES)
    print(f"{pages:,} pages, {asked:,} answers, {reasons.total()} differences: {dict(reasons)}")
    assert len(QUERIES) == 20
    assert pages >= (5000 if WHOLE else 200)
    assert reasons[UNEXPLAINED] == 0
    assert reasons.total() <= asked / 1000


def test_a_selector_that_finds_something_else_is_noticed() -> None:
    wrong = {"p": lambda page: ["a"] if isinstance(page, Page) else ["b"]}
    assert list(differences(b"<p>fine</p>", wrong)) == [("p", UNEXPLAINED)]


@pytest.mark.parametrize(
    ("markup", "broken"),
    [
        ("<ul><li>a<li>b</ul><p>c<br><p>d", False),
        ("<!doctype html><title>t</title><p><b>x</b></p>", False),
        ("<b><i>x</b></i>", True),
        ("<h2>never closed<p>x", True),
        ("<p>x</p></div>", True),
        ("<a name=x />", True),
    ],
)
def test_only_markup_that_is_not_nested_counts_as_broken(markup: str, broken: bool) -> None:
    assert is_broken(markup) is broken


def test_links_are_those_that_lxml_finds() -> None:
    pages, links, different = 0, 0, []
    for path, body in real_pages():
        url = f"http://site.test/{path}"
        found = Page.of(body, url=url, content_type="text/html").links().urls
        assert len(set(found)) == len(found)
        pages += 1
        links += len(found)
        if set(found) != links_by_lxml(body, url):
            different.append(path)
    print(f"{pages:,} pages, {links:,} links, {len(different)} pages differ: {different}")
    assert len(different) <= pages / 1000
