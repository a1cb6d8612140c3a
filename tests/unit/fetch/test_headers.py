"""Which headers a request carries."""

import pytest

from shoal.fetch.headers import CrawlHeaders, is_conditional
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
    own = Request(url=PAGE.url, headers={"Cookie": "mine=1"})
    assert dict(crawl.of(own, cookie="a=1"))["Cookie"] == "mine=1"


class TestCredentials:
    SECRETS = {"Authorization": "Bearer x", "Cookie": "s=1", "X-Harmless": "1"}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("url", "trusted"),
        [("https://a.test/", True), ("http://a.test/", False), ("https://a.test:8443/", False)],
    )
    def test_they_go_to_the_origins_named_for_them(self, url: str, trusted: bool) -> None:
        crawl = CrawlHeaders("Bot/1", self.SECRETS, home=["https://a.test"])
        sent = names(crawl.of(Request(url=url)))
        assert ("Authorization" in sent) is trusted
        assert ("Cookie" in sent) is trusted
        assert "X-Harmless" in sent

    def test_without_a_home_they_do_not_follow_a_redirect_to_another_origin(self) -> None:
        crawl = CrawlHeaders("Bot/1", self.SECRETS)
        assert "Authorization" in names(crawl.of(PAGE))
        same = Request(url=PAGE.url, chain=("https://a.test/old",))
        other = Request(url=PAGE.url, chain=("https://a.test/old", "https://b.test/"))
        assert "Authorization" in names(crawl.of(same))
        assert "Authorization" not in names(crawl.of(other))

    def test_the_public_headers_have_none(self) -> None:
        assert names(CrawlHeaders("Bot/1", self.SECRETS).public)[-1] == "X-Harmless"
        assert "Authorization" not in names(CrawlHeaders("Bot/1", self.SECRETS).public)


def test_headers_of_a_host_go_there_and_nowhere_else_over_those_of_the_crawl() -> None:
    crawl = CrawlHeaders("Bot/1", {"X-Key": "common"}, hosts={"a.test": {"x-key": "own"}, "b.test": {}})
    sent = {name.lower(): value for name, value in crawl.of(Request(url="https://a.test/"))}
    assert sent["x-key"] == "own"
    for other in ("https://www.a.test/", "https://a.test:8443/", "https://b.test/"):
        assert dict(crawl.of(Request(url=other)))["X-Key"] == "common"
    assert "own" not in dict(crawl.public).values()


@pytest.mark.parametrize(
    ("header", "answer"), [("if-none-match", True), ("If-Modified-Since", True), ("X", False)]
)
def test_a_request_can_be_conditional_by_itself(header: str, answer: bool) -> None:
    assert is_conditional(Request(url=PAGE.url, headers={header: "x"})) is answer
