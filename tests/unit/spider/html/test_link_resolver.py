"""Destinations: quicker than working a link out, and never another answer."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shoal.model.url import join, resolver
from shoal.spider.html import link_resolver as module
from shoal.spider.html.link_resolver import LinkResolver

BASES = [
    "https://a.example/",
    "https://a.example/x/y.html?q=1",
    "https://a.example//double//slash",
    "http://a.example/x/",
    "https://a.example:8443/x/",
    "https://b.example?only=query",
    "file:///x/y",
    "not a url",
    "",
]
PIECES = [
    "/",
    "//",
    "x",
    "y.html",
    "..",
    "?q=2",
    "#top",
    "\\",
    " ",
    "https:",
    "http:",
    "b.example",
    "mailto:",
]
hrefs = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
visits = st.lists(st.tuples(st.sampled_from(BASES), st.lists(hrefs, max_size=4)), max_size=8)


def web(url: str | None) -> str | None:
    return url if url is not None and url.startswith(("http://", "https://")) else None


@given(visits)
@example([("https://a.example/", ["/x", "//x"]), ("http://a.example/x/", ["/x", "//x"])])
@example([("not a url", ["https://b.example/"]), ("file:///x/y", ["https://b.example/"])])
@example([("https://a.example/", ["https:x"]), ("https://a.example/x/y.html?q=1", ["https:x"])])
def test_the_cache_does_not_change_results(visits: list[tuple[str, list[str]]]) -> None:
    links = LinkResolver()
    for base, hrefs in [*visits, *visits]:
        resolve_link = links.for_page(base, resolver(base))
        assert [resolve_link(href) for href in hrefs] == [web(join(base, href)) for href in hrefs]


def test_an_absolute_link_is_resolved_once_per_origin() -> None:
    links, asked = LinkResolver(), list[str]()

    def resolve(href: str) -> str:
        asked.append(href)
        return f"https://a.example{href}"

    for page in ("https://a.example/x/1", "https://a.example/y/2"):
        resolve_link = links.for_page(page, resolve)
        assert resolve_link("/menu") == "https://a.example/menu"
        assert resolve_link("beside") == "https://a.examplebeside"
    assert asked == ["/menu", "beside", "beside"]


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINKS", 10)
    links = LinkResolver()
    for number in range(100):
        host = f"https://{number % 3}.example/"
        links.for_page(host, resolver(host))(f"/page/{number}")
        assert len(links) <= 10


def test_one_page_cannot_exceed_the_cache_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINKS", 10)
    links = LinkResolver()
    resolve_link = links.for_page("https://a.example/", resolver("https://a.example/"))
    assert [resolve_link(f"/{n}") for n in range(100)] == [f"https://a.example/{n}" for n in range(100)]
    assert len(links) == 10


def test_a_long_link_is_not_kept() -> None:
    links = LinkResolver()
    resolve_link = links.for_page("https://a.example/", resolver("https://a.example/"))
    long = "/" + "x" * module.MAX_LINK_CHARS
    assert [resolve_link(long), resolve_link("/x")] == [f"https://a.example{long}", "https://a.example/x"]
    assert len(links) == 1


def test_the_number_of_cached_origins_is_bounded() -> None:
    links = LinkResolver()
    for number in range(1000):
        host = f"https://{number}.example/"
        links.for_page(host, resolver(host))("/")
        assert len(links) <= module.MAX_ORIGINS
