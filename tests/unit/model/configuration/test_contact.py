"""When a crawl has to name its operator."""

import pytest

from shoal.model.configuration.configure import SettingValue, configure
from shoal.model.configuration.contact import contact_missing
from shoal.model.errors import Misconfigured
from shoal.model.settings import USER_AGENT, CrawlSettings

PUBLIC = ["https://shop.example.org/"]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/",
        "http://[::1]/",
        "http://10.1.2.3/",
        "http://192.168.0.9/",
        "http://169.254.1.1/",
        "http://[fd00::1]/",
        "http://localhost:3000/",
        "http://app.localhost/",
        "http://wiki/",
        "http://printer.local/",
        "http://docs.corp.internal/",
        "http://shop.test/",
    ],
)
def test_a_crawl_of_private_hosts_needs_no_contact(url: str) -> None:
    assert not contact_missing([url], CrawlSettings())


@pytest.mark.parametrize("url", ["https://shop.example.org/", "http://8.8.8.8/", "http://[2606:4700::1]/"])
def test_one_public_start_url_needs_a_contact(url: str) -> None:
    assert contact_missing(["http://127.0.0.1/", url], CrawlSettings())


def test_a_contact_or_a_user_agent_is_enough() -> None:
    assert not contact_missing(PUBLIC, CrawlSettings(contact="me@example.org"))
    assert not contact_missing(PUBLIC, CrawlSettings(user_agent="books/1.0 (+https://example.org)"))


def test_the_default_user_agent_has_the_contact_and_no_other_address() -> None:
    assert CrawlSettings().sent_user_agent == USER_AGENT
    assert "http" not in USER_AGENT
    assert CrawlSettings(contact="me@example.org").sent_user_agent == f"{USER_AGENT} (+me@example.org)"
    assert CrawlSettings(contact="me@example.org", user_agent="books/1.0").sent_user_agent == "books/1.0"


@pytest.mark.parametrize("text", ["https://example.org/bot?a=1", "me+bot@example.org", ""])
def test_a_contact_is_a_url_or_an_address(text: str) -> None:
    assert configure([SettingValue("crawl.contact", text, "--contact")]).crawl.contact == text


@pytest.mark.parametrize(
    "text", ["me", "ftp://example.org/", "https://a b/", "me@example.org\r\nX: 1", "a@b) (", "mé@example.org"]
)
def test_a_bad_contact_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match="--contact: must be a URL"):
        configure([SettingValue("crawl.contact", text, "--contact")])
