"""Which headers a request carries."""

import pytest

from shoal.fetch.headers import CrawlHeaders, is_conditional, needs_home
from shoal.fetch.http.decode import ACCEPT_ENCODING
from shoal.model.request import Request

PAGE = Request(url="https://a.test/page")


def names(pairs: tuple[tuple[str, str], ...]) -> list[str]:
    return [name for name, _ in pairs]


def test_a_crawl_has_default_headers() -> None:
    headers = CrawlHeaders("Bot/1", {}).of(PAGE)
    assert names(headers) == ["User-Agent", "Accept", "Accept-Language", "Accept-Encoding"]
    assert dict(headers)["User-Agent"] == "Bot/1"
    assert dict(headers)["Accept-Encoding"] == ACCEPT_ENCODING


def test_plain_requests_share_one_tuple() -> None:
    crawl = CrawlHeaders("Bot/1", {"X-A": "b"})
    assert crawl.of(PAGE) is crawl.of(Request(url="https://b.test/"))


def test_the_crawl_overrides_the_defaults_and_a_request_the_crawl() -> None:
    crawl = CrawlHeaders("Bot/1", {"accept": "text/plain", "X-A": "crawl"})
    headers = dict(crawl.of(Request(url=PAGE.url, headers={"x-a": "request"})))
    assert headers["accept"] == "text/plain"
    assert "Accept" not in headers
    assert headers["x-a"] == "request"
    assert "X-A" not in headers


def test_cookies_and_validators_are_added_unless_the_request_has_its_own() -> None:
    crawl = CrawlHeaders("Bot/1", {})
    headers = dict(crawl.of(PAGE, cookie="a=1", etag='"x"', modified="yesterday"))
    assert (headers["Cookie"], headers["If-None-Match"], headers["If-Modified-Since"]) == (
        "a=1",
        '"x"',
        "yesterday",
    )
    own = Request(url=PAGE.url, headers={"Cookie": "a=mine"})
    assert dict(crawl.of(own, cookie="a=1"))["Cookie"] == "a=mine"


class TestSecrets:
    SECRETS = {"Authorization": "Bearer x", "Cookie": "s=1", "X-Api-Key": "k", "X-Shop-Pass": "p"}  # noqa: RUF012
    HOME = frozenset({"https://a.test", "http://plain.test"})

    @pytest.mark.parametrize(
        ("url", "trusted"),
        [
            ("https://a.test/", True),
            ("https://a.test/any/page?x=1", True),
            ("http://plain.test/", True),
            ("http://a.test/", False),
            ("https://plain.test/", False),
            ("https://a.test:8443/", False),
            ("https://www.a.test/", False),
            ("https://a.test.evil.test/", False),
            ("https://b.test/", False),
        ],
    )
    def test_they_go_to_the_origins_of_the_seeds_only(self, url: str, trusted: bool) -> None:
        crawl = CrawlHeaders("Bot/1", {**self.SECRETS, "Accept-Language": "de"}, home=self.HOME)
        sent = names(crawl.of(Request(url=url)))
        assert [name in sent for name in self.SECRETS] == [trusted] * 4
        assert "Accept-Language" in sent

    def test_an_origin_that_is_added_later_gets_them(self) -> None:
        home: set[str] = set()
        crawl = CrawlHeaders("Bot/1", self.SECRETS, home=home)
        assert "Authorization" not in names(crawl.of(PAGE))
        home.add("https://a.test")
        assert "Authorization" in names(crawl.of(PAGE))

    def test_the_public_headers_have_none(self) -> None:
        crawl = CrawlHeaders("Bot/1", {**self.SECRETS, "DNT": "1"}, home=self.HOME)
        assert names(crawl.public) == ["User-Agent", "Accept", "Accept-Language", "Accept-Encoding", "DNT"]

    def test_those_of_a_host_go_there_over_https_and_nowhere_else(self) -> None:
        crawl = CrawlHeaders(
            "Bot/1",
            {"X-Key": "common"},
            home=["https://a.test", "https://home.test"],
            hosts={"a.test": {"x-key": "own", "Accept": "text/plain"}, "b.test": {}},
        )

        def sent(url: str) -> dict[str, str]:
            return {name.lower(): value for name, value in crawl.of(Request(url=url))}

        assert sent("https://a.test/")["x-key"] == "own"
        assert sent("https://home.test/")["x-key"] == "common"
        for other in ("http://a.test/", "https://www.a.test/", "https://a.test:8443/", "https://b.test/"):
            assert "x-key" not in sent(other)
        assert sent("http://a.test/")["accept"] == "text/plain"  # public

    def test_those_of_a_host_go_over_http_if_a_seed_does(self) -> None:
        crawl = CrawlHeaders("Bot/1", {}, home=["http://a.test"], hosts={"a.test": {"X-Key": "own"}})
        assert "X-Key" in names(crawl.of(Request(url="http://a.test/")))
        assert needs_home({}, [{"X-Key": "own"}])
        assert not needs_home({"Accept": "x"}, [{"DNT": "1"}])


@pytest.mark.parametrize(
    ("header", "answer"), [("if-none-match", True), ("If-Modified-Since", True), ("X", False)]
)
def test_a_request_can_be_conditional_by_itself(header: str, answer: bool) -> None:
    assert is_conditional(Request(url=PAGE.url, headers={header: "x"})) is answer


def test_the_cookies_of_a_request_go_before_those_of_the_jar_and_replace_equal_names() -> None:
    crawl = CrawlHeaders("Bot/1", {})
    request = Request(PAGE.url, cookies={"lang": "de", "own": "1"})
    assert dict(crawl.of(request, cookie="sid=2; lang=en"))["Cookie"] == "lang=de; own=1; sid=2"
    assert dict(crawl.of(request))["Cookie"] == "lang=de; own=1"
