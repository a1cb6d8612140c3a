"""Pages: what a handler can read off a response, and where its links lead."""

import pytest
from selectolax.lexbor import LexborHTMLParser
from tests.unit.spider.pages import page

from shoal.model.errors import Bomb
from shoal.model.request import Request
from shoal.spider import page as page_module
from shoal.spider.html.links import MetaTags, all_hrefs
from shoal.spider.page import Page

SHOP = """<!doctype html><html><head><title>Shop</title></head><body>
<a href="/a.html">a</a> <a href="b.html#x">b</a> <a href="b.html#y">b again</a> <a href="mailto:me@x.example">mail</a>
<a name="no-link">x</a> <a href="javascript:void(0)">js</a> <a href="http://[bad">bad</a>
<map><area href="https://other.example/map"></map> <a rel="NoFollow ugc" href="/secret">s</a>
<ul class="pages"><li><a href="?page=2">2</a></li><li><a href="?page=3">3</a></li></ul>
<link rel="next" href="?page=2"><link rel="stylesheet" href="/s.css">
<a href="\n /spaced out ">s</a></body></html>"""


def test_a_page_has_metadata() -> None:
    said = page('<html lang=en><title>T</title><link rel=canonical href="/c"><p>text</html>').metadata()
    assert (said.title, said.canonical, said.language) == ("T", "https://books.example/c", "en")


def test_a_document_that_is_not_html_has_no_metadata() -> None:
    data = page('{"title": "T"}', content_type="application/json")
    assert data.metadata().title == ""
    assert data.article() is None
    assert data.markdown() == ""


def test_the_article_of_a_page_comes_as_text_and_as_markdown() -> None:
    pytest.importorskip("trafilatura", reason="the extra `content` is not installed")
    text = "".join(
        f"<p>On day {n} the harbour was quiet in the morning, and no one had seen boat number {n} leave.</p>"
        for n in range(12)
    )
    shown = page(
        f"<html><title>Boats</title><body><nav>Menu</nav><article><h1>Boats</h1>{text}</article></body>"
    )
    article = shown.article()
    assert article is not None
    assert "boat number 7 leave" in article.text
    assert "Menu" not in article.text
    assert "boat number 7 leave" in shown.markdown()


def urls(requests: object) -> list[str]:
    return [request.url for request in requests]  # type: ignore[attr-defined]


def test_links_are_resolved_unique_and_in_order() -> None:
    assert urls(page(SHOP).links()) == [
        "https://books.example/a.html",
        "https://books.example/catalogue/b.html",
        "https://books.example/catalogue/index.html?page=2",
        "https://books.example/catalogue/index.html?page=3",
        "https://books.example/spaced%20out",
        "https://other.example/map",
    ]


def test_a_selector_selects_links() -> None:
    shop = page(SHOP)
    both = [
        "https://books.example/catalogue/index.html?page=2",
        "https://books.example/catalogue/index.html?page=3",
    ]
    assert urls(shop.links(".pages a")) == both
    assert urls(shop.links(".pages")) == both, "an element with links below it means those"
    assert urls(shop.links(".pages a::attr(href)")) == both
    assert urls(shop.links("li:contains('3') a")) == both[1:]
    assert urls(shop.links("h1")) == []


def test_follow_selects_links_by_url() -> None:
    assert urls(page(SHOP).links(follow=r"page=\d")) == urls(page(SHOP).links(".pages"))


def test_fields_of_links_are_set_on_every_request() -> None:
    [request] = page("<a href=/x>").links(priority=1, route="book", data={"n": 1}, pool="browser")
    assert request == Request(
        url="https://books.example/x", priority=1, route="book", data={"n": 1}, pool="browser"
    )


def test_nofollow_is_respected_unless_the_call_overrides_it() -> None:
    shop = page(SHOP)
    assert "https://books.example/secret" not in urls(shop.links())
    assert "https://books.example/secret" not in urls(shop.links("a"))
    assert "https://books.example/secret" in urls(shop.links(obey_nofollow=False))


@pytest.mark.parametrize(
    ("head", "header", "forbidden"),
    [
        ('<meta name="robots" content="noindex, NOFOLLOW">', "", True),
        ('<META NAME="Robots" CONTENT="none">', "", True),
        ('<meta name="shoal" content="nofollow">', "", True),
        ('<meta name="googlebot" content="nofollow">', "", False),
        ('<meta name="robots" content="noindex">', "", False),
        ('<meta name="robots">', "", False),
        ("", "nofollow", True),
        ("", "noindex, none", True),
        ("", "googlebot: nofollow", False),
        ("", "Shoal: noindex, nofollow", True),
        ("", "unavailable_after: 25 Jun 2030 15:00:00 PST, nofollow", True),
        ("", "noarchive", False),
    ],
)
def test_a_page_can_forbid_following_its_links(head: str, header: str, forbidden: bool) -> None:
    found = page(f"<head>{head}</head><a href=/x>", headers=(("x-robots-tag", header),) if header else ())
    assert found.nofollow is forbidden
    assert urls(found.links()) == ([] if forbidden else ["https://books.example/x"])
    assert urls(found.links(obey_nofollow=False)) == ["https://books.example/x"]


@pytest.mark.parametrize(
    ("bases", "expected"),
    [
        ('<base href="/deep/er/">', "https://books.example/deep/er/x"),
        ('<base href="https://cdn.example/a">', "https://cdn.example/x"),
        ('<base target="_blank"><base href="/one/"><base href="/two/">', "https://books.example/one/x"),
        ('<base href="javascript:0">', "https://books.example/catalogue/x"),
        ('<base href="http://[bad">', "https://books.example/catalogue/x"),
        ('<base href="data:,x"><base href="/ok/">', "https://books.example/ok/x"),
    ],
)
def test_links_are_relative_to_the_first_http_base(bases: str, expected: str) -> None:
    found = page(f"<head>{bases}</head><a href=x>")
    assert urls(found.links()) == [expected]
    assert found.urljoin("x") == expected


@pytest.mark.parametrize("link", ["<a href=''>", "<area href>"])
def test_an_empty_link_leads_to_the_page_or_to_its_base(link: str) -> None:
    at = "https://books.example/catalogue/index.html"
    assert urls(page(link).links()) == [at]
    assert urls(page(f"<base href=/deep/>{link}").links()) == ["https://books.example/deep/"]


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0; url=/next", ["https://books.example/next"]),
        ("3;URL='next.html'", ["https://books.example/catalogue/next.html"]),
        (" 1.5 , https://other.example/", ["https://other.example/"]),
        ("5", []),
        ("0; url=javascript:x", []),
        ("", []),
    ],
)
def test_a_refresh_is_a_link(content: str, target: list[str]) -> None:
    assert urls(page(f'<meta http-equiv="Refresh" content="{content}">').links()) == target


def test_a_handler_can_be_tried_out_on_a_page_made_by_hand() -> None:
    found = Page.of("<h1>Ünï</h1><a href=x>", url="https://a.example/b/", data={"n": 1})
    assert found.css("h1::text").get() == "Ünï"
    assert urls(found.links()) == ["https://a.example/b/x"]
    assert (found.data, found.status, found.headers["content-type"]) == (
        {"n": 1},
        200,
        "text/html; charset=utf-8",
    )


def test_one_link_can_be_followed_by_url_or_selector() -> None:
    shop = page(SHOP)
    second = "https://books.example/catalogue/index.html?page=2"
    for link in ("?page=2", shop.css(".pages a"), shop.css(".pages"), shop.css("li a::attr(href)")[0]):
        request = shop.follow(link, route="list", method="POST", body=b"q")
        assert request == Request(url=second, route="list", method="POST", body=b"q")


def test_there_is_nothing_to_follow_where_there_is_no_link() -> None:
    shop = page(SHOP)
    for link in (None, shop.css("a.next"), shop.css("a.next::attr(href)").get(), "http://[bad"):
        assert shop.follow(link) is None


@pytest.mark.parametrize(
    "content_type", ["application/json", "text/plain", "application/pdf", "application/rss+xml"]
)
def test_only_html_has_links(content_type: str) -> None:
    assert urls(page("<a href=/x>", content_type=content_type).links()) == []


def test_text_is_the_body_and_html_the_repaired_markup() -> None:
    found = page("<p>caf\xe9<b>x".encode("latin-1"), content_type="text/html; charset=iso-8859-1")
    assert found.text == "<p>caf\xe9<b>x"
    assert found.html == "<html><head></head><body><p>caf\xe9<b>x</b></p></body></html>"
    assert found.css("p::text").get() == "caf\xe9"
    assert found.xpath("//p/text()").get() == "caf\xe9"
    assert found.encoding == "windows-1252"


@pytest.mark.parametrize(
    "body",
    ["\ufeff<p>é".encode(), "\ufeff<p>é".encode("utf-16-le"), "<p>é".encode(), "<p>é".encode("cp1252")],
)
def test_selectors_see_characters_however_they_are_encoded(body: bytes) -> None:
    assert page(body, content_type="text/html").css("p::text").getall() == ["é"]


def test_bytes_that_mean_nothing_do_not_raise() -> None:
    broken = page(
        b"<p title='\xff'>\xff\xfe\x80</p><a href='/\xff'>", content_type="text/html; charset=utf-8"
    )
    assert broken.css("p").attrib["title"]
    assert broken.xpath("//p/text()").get()
    assert len(urls(broken.links())) == 1


def test_regular_expressions_search_the_source() -> None:
    assert page('<script>var id = "a&amp;1";</script>').re(r'id = "(.+?)"') == ["a&amp;1"]


def test_json_is_decoded_whatever_its_encoding() -> None:
    assert page('{"a": [1, "é"]}', content_type="application/json").json() == {"a": [1, "é"]}
    assert page('{"a": "é"}'.encode("utf-16"), content_type="application/json").json() == {"a": "é"}
    assert page("[1, 2]").json(list[int]) == [1, 2]


@pytest.mark.parametrize("body", ["", "{", "NaN", "[" * 100_000, '{"a": 1} x'])
def test_malformed_json_is_an_error_and_nothing_worse(body: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        page(body).json()


def test_numbers_too_long_for_json_do_not_hang() -> None:
    with pytest.raises(ValueError, match="out of range"):
        page("1" * 1_000_000).json()


def test_headers_are_found_in_any_case_and_repeats_kept() -> None:
    headers = page("", headers=(("set-cookie", "a=1"), ("set-cookie", "b=2"))).headers
    assert headers["Set-Cookie"] == "a=1"
    assert headers.getall("SET-COOKIE") == ["a=1", "b=2"]
    assert dict(headers) == {"content-type": "text/html; charset=utf-8", "set-cookie": "a=1"}
    assert headers.get("etag") is None
    assert len(headers) == 2


def test_a_page_knows_its_request() -> None:
    found = page("", request=Request(url="https://books.example/old", depth=3, data={"n": 1}))
    assert (found.depth, found.data, found.status, found.fetched_at) == (3, {"n": 1}, 200, 1_700_000_000.5)
    assert repr(found) == "<Page 200 https://books.example/catalogue/index.html>"


def test_binary_pages_have_nothing_to_select() -> None:
    found = page(b"%PDF-1.7 <p>x</p>")
    assert found.css("p").get() is None
    assert found.body.startswith(b"%PDF")


FEED = b"""<?xml version="1.0" encoding="iso-8859-1"?>
<rss xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><item><link>https://a.example/1</link>
<dc:creator>Ren\xe9</dc:creator></item></channel></rss>"""


def test_xml_keeps_its_names_and_namespaces() -> None:
    feed = page(FEED, content_type="application/rss+xml")
    assert feed.css("item > link::text").get() == "https://a.example/1"
    assert (
        feed.xpath("//dc:creator/text()", namespaces={"dc": "http://purl.org/dc/elements/1.1/"}).get()
        == "Ren\xe9"
    )
    feed.root.remove_namespaces()  # type: ignore[attr-defined]
    assert feed.css("creator").get() == "<creator>Ren\xe9</creator>"


@pytest.mark.parametrize(
    "attack",
    [
        '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>',
        '<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd"><x>&e;</x>',
        '<!DOCTYPE x [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]><x/>',
        '<x xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="/etc/passwd" parse="text"/></x>',
    ],
)
def test_xml_fetches_and_reads_nothing(attack: str) -> None:
    found = page(attack, content_type="text/xml")
    assert "root:" not in "".join(found.xpath("//text()").getall())


def test_entities_that_expand_without_limit_are_refused() -> None:
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE x [<!ENTITY e0 "ha">{levels}]><x a="&e11;">&e11;</x>'
    with pytest.raises(Bomb, match="expand without limit"):
        page(bomb, content_type="text/xml").xpath("//text()")


def test_a_few_entities_are_not_a_bomb() -> None:
    harmless = '<!DOCTYPE x [<!ENTITY e "ha">]><x>&e;&e;<y>text</y></x>'
    assert page(harmless, content_type="text/xml").xpath("//y/text()").get() == "text"


def test_a_page_with_more_links_than_fit_into_memory_brings_those_of_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trees: list[object] = []

    def starved(tree: LexborHTMLParser, metas: MetaTags, *, obey_nofollow: bool) -> list[str]:
        trees.append(tree)
        if len(trees) == 1:
            raise MemoryError
        return all_hrefs(tree, metas, obey_nofollow=obey_nofollow)

    monkeypatch.setattr(page_module, "all_hrefs", starved)
    body = "".join(f'<a href="/{number}">x</a>' for number in range(200))
    crowded = Page.of(body)

    found = crowded.links().urls

    assert 0 < len(found) < 200
    assert list(found) == [f"https://page.example/{number}" for number in range(len(found))]
    assert "parse.memory_bytes" in crowded.partial
