"""Settings: who wins, and what every complaint says."""

import tomllib
from dataclasses import fields
from typing import Any

import pytest

from shoal.model.configuration.configure import TYPES, SettingValue, configure, from_environment, from_tree
from shoal.model.errors import Misconfigured
from shoal.model.settings import CrawlSettings, HostSettings, Settings


def from_toml(text: str) -> Settings:
    return configure(from_tree(tomllib.loads(text), "shoal.toml"))


def complaint(text: str) -> str:
    with pytest.raises(Misconfigured) as caught:
        from_toml(text)
    return str(caught.value)


def test_no_settings_at_all_give_the_defaults() -> None:
    assert configure([]) == Settings()


def test_every_field_of_the_tree_has_a_key() -> None:
    assert {key.removeprefix("crawl.") for key in TYPES if key.startswith("crawl.")} == {
        field.name for field in fields(CrawlSettings)
    }


def test_a_file_sets_values_at_every_level() -> None:
    settings = from_toml(
        "store = 'x'\n[crawl]\nrate = 3\ndepth = 2\n[crawl.headers]\nA = 'b'\n[retry]\nmax_retries = 0\n"
    )

    assert settings.store == "x"
    assert (settings.crawl.rate, settings.crawl.depth, settings.crawl.headers) == (3.0, 2, {"A": "b"})
    assert settings.retry.max_retries == 0


def test_a_whole_number_becomes_a_float_where_one_is_wanted() -> None:
    assert isinstance(from_toml("[crawl]\nrate = 3").crawl.rate, float)


def test_the_environment_sets_any_key_and_an_empty_variable_sets_nothing() -> None:
    environ = {
        "SHOAL_STORE": "here",
        "SHOAL_CRAWL_MAX_PAGES": "7",
        "SHOAL_CRAWL_ROBOTS": "no",
        "SHOAL_CRAWL_HEADERS": "X-One: 1\nX-Two: a:b",
        "SHOAL_CRAWL_RATE": "",
        "SHOAL_DEBUG": "1",
        "PATH": "/bin",
    }

    settings = configure(from_environment(environ, besides=["SHOAL_DEBUG"]))

    assert (settings.store, settings.crawl.max_pages, settings.crawl.robots) == ("here", 7, False)
    assert settings.crawl.headers == {"X-One": "1", "X-Two": "a:b"}
    assert settings.crawl.rate == CrawlSettings().rate


def test_later_values_win() -> None:
    given = [
        SettingValue("crawl.rate", 1, "file"),
        SettingValue("crawl.rate", 2, "environment"),
        SettingValue("crawl.rate", 3, "--rate"),
    ]
    assert configure(given).crawl.rate == 3


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("sore = 'x'", ["shoal.toml", "sore", "did you mean store?"]),
        ("[crwl]\nrate = 1", ["crwl", "did you mean crawl?"]),
        ("[crawl]\nmax_page = 1", ["crawl.max_page", "did you mean crawl.max_pages?"]),
        ("[crawl]\nzzzzzzzz = 1", ["unknown key crawl.zzzzzzzz"]),
        ("crawl = 3", ["crawl must be a table"]),
    ],
)
def test_an_unknown_key_is_refused_with_the_file_and_the_nearest_known_one(
    text: str, names: list[str]
) -> None:
    message = complaint(text)
    assert all(name in message for name in names), message


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[crawl]\nrate = -1", ["crawl.rate", "from 0.0001 to 100,000", "-1"]),
        ("[crawl]\nrate = nan", ["crawl.rate", "a number", "nan"]),
        ("[crawl]\nrate = inf", ["crawl.rate", "a number", "inf"]),
        ("[crawl]\nrate = 'fast'", ["crawl.rate", "a number", "'fast'"]),
        ("[crawl]\nper_host = 0", ["crawl.per_host", "from 1 to 10,000", "not 0"]),
        ("[crawl]\nmax_pages = 1.5", ["crawl.max_pages", "whole number", "1.5"]),
        ("[crawl]\nmax_pages = true", ["crawl.max_pages", "whole number", "true"]),
        ("[crawl]\nmax_pages = 9223372036854775807", ["crawl.max_pages", "9223372036854775807"]),
        ("[crawl]\nrobots = 1", ["crawl.robots", "true or false", "not 1"]),
        ("[crawl]\nfollow = '('", ["crawl.follow", "not a regular expression", "'('"]),
        ('[crawl]\nuser_agent = "a\\r\\nb"', ["crawl.user_agent", "one line"]),
        ("[crawl]\nheaders = 'a'", ["crawl.headers", "table"]),
        ("[crawl.headers]\n'a b' = 'c'", ["crawl.headers", "header 1", "name"]),
        ("store = ''", ["store", "non-empty"]),
    ],
)
def test_a_wrong_value_is_refused_with_its_key_and_what_is_allowed(text: str, names: list[str]) -> None:
    message = complaint(text)
    assert all(name in message for name in names), message
    assert "\n" not in message


@pytest.mark.parametrize("value", [123, "secret\r\nInjected: yes", ["secret"]])
def test_the_value_of_a_header_is_never_repeated(value: Any) -> None:
    with pytest.raises(Misconfigured) as caught:
        configure([SettingValue("crawl.headers", {"Authorization": value}, "shoal.toml: crawl.headers")])
    assert "secret" not in str(caught.value)
    assert "crawl.headers: header 1" in str(caught.value)


def test_a_block_for_a_host_holds_what_is_different_there() -> None:
    settings = from_toml(
        '[hosts."Shop.example"]\nrate = 1\nper_host = 2\n[hosts."Shop.example".headers]\nX-A = "b"\n'
        '[hosts."a.test:8080"]\nburst = 3\n'
    )
    assert settings.hosts == {
        "shop.example": HostSettings(rate=1.0, per_host=2, headers={"X-A": "b"}),
        "a.test:8080": HostSettings(burst=3),
    }
    assert "X-A" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('[hosts."a.test"]\nrat = 1', ["hosts.a.test", "unknown key rat", "did you mean rate?"]),
        ('[hosts."a.test"]\nrate = -1', ["hosts.a.test.rate", "from 0.0001 to 100,000", "-1"]),
        ('[hosts."a.test"]\nper_host = 0', ["hosts.a.test.per_host", "from 1 to 10,000"]),
        ('[hosts."https://a.test/"]\nrate = 1', ["'https://a.test/' is not a host", "shop.example"]),
        ('[hosts]\n"a.test" = 1', ["hosts.a.test must be a table"]),
        ("hosts = 1", ["hosts must be tables"]),
        ('[hosts."a.test".headers]\n"a b" = "c"', ["hosts.a.test.headers", "header 1"]),
    ],
)
def test_a_wrong_block_is_refused_with_its_host_and_key(text: str, names: list[str]) -> None:
    message = complaint(text)
    assert all(name in message for name in names), message


@pytest.mark.parametrize("value", ["a b", "secret;more", "secret\n", 7])
def test_a_cookie_that_cannot_be_sent_is_refused_without_showing_it(value: object) -> None:
    with pytest.raises(Misconfigured, match=r"crawl\.cookies: cookie 1: the value must be") as caught:
        configure([SettingValue("crawl.cookies", {"id": value}, "shoal.toml: crawl.cookies")])
    assert "secret" not in str(caught.value)


def test_a_wrong_variable_is_named_as_the_person_wrote_it() -> None:
    with pytest.raises(
        Misconfigured, match=r"SHOAL_CRAWL_RATE: must be 0, or a number from 0.0001 to 100,000, not 'fast'"
    ):
        configure(from_environment({"SHOAL_CRAWL_RATE": "fast"}))


def test_an_unknown_variable_is_a_warning_that_names_the_nearest(caplog: pytest.LogCaptureFixture) -> None:
    configure(from_environment({"SHOAL_CRAWL_RAT": "1", "SHOAL_SERVICE_HOST": "10.0.0.1"}))
    [record] = caplog.records
    assert record.message == "environment.unknown"
    assert "SHOAL_CRAWL_RAT; did you mean SHOAL_CRAWL_RATE?" in str(vars(record)["variable"])


def test_headers_do_not_show_up_when_settings_are_printed() -> None:
    settings = from_toml("[crawl.headers]\nAuthorization = 'secret'")
    assert "secret" not in repr(settings)
