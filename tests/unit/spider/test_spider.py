"""Spiders: what can be said to one, and which handler a page goes to."""

import re

import pytest

import shoal
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.request import Request
from shoal.spider.spider import Spider


def handler_of(spider: Spider, url: str, route: str = "") -> str | None:
    found = spider.route_for(Request(url=url, route=route), url)
    return found.name if found else None


def test_the_public_names_are_those_of_the_package() -> None:
    assert shoal.Spider is Spider
    assert shoal.Request is Request
    of_spiders = {"Spider", "Request", "Page", "FailedRequest", "Selector", "SelectorList"}
    of_spiders |= {"Drop", "Form", "secret", "Rendering", "Click", "Fill", "ScrollToEnd", "WaitFor"}
    of_programs = {"run", "arun", "stream", "Result", "Stream", "Client", "errors"}
    assert of_spiders | of_programs | {"__version__"} == set(shoal.__all__)
    for name in shoal.__all__:
        assert getattr(shoal, name)
    assert dir(shoal) == sorted(shoal.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Spidr'"):
        shoal.Spidr  # noqa: B018


def test_start_takes_urls_and_requests() -> None:
    spider = Spider(
        "s", ["HTTPS://Books.example/a/../b#x", Request(url="https://books.example/c", priority=1)]
    )
    assert [request.url for request in spider.start] == ["https://books.example/b", "https://books.example/c"]
    assert spider.start[1].priority == 1
    assert [request.url for request in Spider("s", "https://books.example/").start] == [
        "https://books.example/"
    ]
    assert Spider("s").start == ()


@pytest.mark.parametrize("start", ["books.example", "ftp://books.example/", "http://[bad", "mailto:a@b", 7])
def test_a_start_that_is_not_an_http_url_is_refused(start: object) -> None:
    with pytest.raises(Misconfigured, match="spider 's': start"):
        Spider("s", [start])  # type: ignore[list-item]


def test_a_forgotten_scheme_is_pointed_out() -> None:
    with pytest.raises(Misconfigured, match=re.escape("did you mean https://books.example ?")):
        Spider("s", "books.example")


def test_options_are_settings_of_a_crawl() -> None:
    spider = Spider("s", rate=1, depth=3, headers={"accept-language": "de"}, same_host=False, follow="/a/")
    assert spider.options == {
        "rate": 1.0,
        "depth": 3,
        "headers": {"accept-language": "de"},
        "same_host": False,
        "follow": "/a/",
    }


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"rates": 1}, "unknown option 'rates'; did you mean 'rate'?"),
        ({"host": ["a"]}, "unknown option 'host'; did you mean 'hosts'?"),
        ({"zzz": 1}, "unknown option 'zzz'"),
        ({"rate": "fast"}, "rate: must be 0, or a number"),
        ({"depth": -1}, "depth: must be a whole number"),
        ({"follow": "("}, "follow: not a regular expression"),
        ({"allow_private": True}, "set crawl.allow_private in shoal.toml or SHOAL_CRAWL_ALLOW_PRIVATE"),
        ({"ca_file": "ca.pem"}, "ca_file is not an option of a spider"),
        ({"nameservers": "127.0.0.1"}, "nameservers is not an option of a spider"),
        ({"cookie_file": "/etc/passwd"}, "cookie_file is not an option of a spider"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(Misconfigured, match=re.escape(complaint)):
        Spider("s", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "  ", None])
def test_a_spider_has_a_name(name: object) -> None:
    with pytest.raises(Misconfigured, match="name"):
        Spider(name)  # type: ignore[arg-type]


def routed() -> Spider:
    spider = Spider("s", key="sku")

    @spider.page(r"/book/\d+")
    def book(page: shoal.Page) -> None: ...

    @spider.page(re.compile(r"/BOOK/", re.IGNORECASE), key=("isbn", "lang"))
    def any_book(page: shoal.Page) -> None: ...

    @spider.page(name="detail")
    def only_by_name(page: shoal.Page) -> None: ...

    @spider.page
    def rest(page: shoal.Page) -> None: ...

    return spider


def test_the_first_pattern_that_matches_wins() -> None:
    spider = routed()
    assert handler_of(spider, "https://a.example/book/7") == "book"
    assert handler_of(spider, "https://a.example/Book/x") == "any_book"


def test_a_handler_without_a_pattern_takes_the_other_pages() -> None:
    assert handler_of(routed(), "https://a.example/about") == "rest"


def test_a_page_that_no_handler_matches_has_no_route() -> None:
    spider = Spider("s")
    spider.page(r"/x")(print)
    assert handler_of(spider, "https://a.example/y") is None


def test_a_request_can_name_its_handler() -> None:
    spider = routed()
    assert handler_of(spider, "https://a.example/book/7", route="detail") == "detail"
    assert handler_of(spider, "https://a.example/book/7", route="rest") == "rest"
    with pytest.raises(Rejected, match=r"no handler is called 'detial'; did you mean 'detail'\?"):
        handler_of(spider, "https://a.example/", route="detial")


def test_keys_are_the_spiders_unless_the_handler_has_its_own() -> None:
    spider = routed()
    assert spider.routes["book"].key == ("sku",)
    assert spider.routes["any_book"].key == ("isbn", "lang")


def test_two_handlers_cannot_share_a_name() -> None:
    spider = routed()
    with pytest.raises(Misconfigured, match="two handlers are called 'book'"):
        spider.page("x", name="book")(print)


def test_a_pattern_must_be_a_regular_expression() -> None:
    with pytest.raises(Misconfigured, match=re.escape("page('(')")):
        Spider("s").page("(")(print)


def test_a_handler_stays_the_function_it_was() -> None:
    def parse(page: shoal.Page) -> str:
        return "made"

    spider = Spider("s")
    assert repr(spider) == "<Spider 's': no handlers>"
    assert spider.page(r"x")(parse) is parse
    assert repr(spider) == "<Spider 's': parse>"
