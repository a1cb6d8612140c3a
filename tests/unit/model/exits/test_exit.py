"""The line that describes an exit, and the user name that a gateway is given."""

from dataclasses import replace

import pytest

from shoal.model.errors import Rejected
from shoal.model.exits.exit import (
    Exit,
    ExitWish,
    is_line,
    login,
    matches,
    name_exits,
    parse_exit,
    split_lines,
)

TEMPLATE = "{user}-type-{type}-country-{geo}-session-{session}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("http://gate.example:8000", Exit("http", "gate.example", 8000, name="gate.example:8000")),
        ("socks5h://h:1", Exit("socks5", "h", 1, name="h:1")),
        ("https://u:p%40x@[2001:DB8::1]:443", Exit("https", "2001:db8::1", 443, "u", "p@x", name="[2001:db8::1]:443")),
        ("192.0.2.8:3128", Exit("http", "192.0.2.8", 3128, name="192.0.2.8:3128")),
        ("192.0.2.8:3128:u:p:q", Exit("http", "192.0.2.8", 3128, "u", "p:q", name="192.0.2.8:3128")),
        (
            "http://h:1 kind=ISP,own country=US inside=yes tunnel=yes price_gb=4.25 price_month=2 connections=4 name=a",
            Exit(
                *("http", "h", 1),
                kinds=("isp", "own"),
                countries=("us",),
                inside=True,
                tunnel=True,
                price_gb=4.25,
                price_month=2.0,
                connections=4,
                name="a",
            ),
        ),
    ],
)  # fmt: skip
def test_a_line_is_an_address_and_options(line: str, expected: Exit) -> None:
    assert parse_exit(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "ftp://u:SECRET@h:1",
        "socks5://" + "u" * 200 + ":SECRET@h:1 template={user}-" + "x" * 50 + "-{session}",
        "http://u:SECRET@h",
        "http://u:SECRET@:80",
        "http://u:SECRET@h:99999",
        "http://u:SECRET@h:1/path",
        "http://u:SECRET@h:1 SECRET",
        "http://u:SECRET@h:1 kind=1",
        "http://u:SECRET@h:1 country=germany",
        "http://u:SECRET@h:1 inside=maybe",
        "http://u:SECRET@h:1 price_gb=nan",
        "http://u:SECRET@h:1 price_gb=-1",
        "http://u:SECRET@h:1 connections=0",
        "http://u:SECRET@h:1 name=a/b",
        "http://u:SECRET@h:1 template={SECRET}",
        "http://u-{sess:SECRET@h:1",
        "http://u:SECRET%0d%0aX@h:1",
        f"http://u:{'SECRET' * 50}@h:1",
        "h:u:SECRET",
        "SECRET",
    ],
)
def test_a_line_that_cannot_be_used_is_rejected_without_its_text(line: str) -> None:
    with pytest.raises(Rejected) as caught:
        parse_exit(line)
    assert "SECRET" not in str(caught.value)


def test_no_credential_is_in_the_text_of_an_exit() -> None:
    exit = parse_exit(f"http://acme:SECRET@h:1 template={TEMPLATE}")
    assert "SECRET" not in repr(exit)
    assert "acme" not in repr(exit)


@pytest.mark.parametrize(
    ("wish", "session", "expected"),
    [
        (ExitWish(), "", "acme"),
        (ExitWish(country="de"), "", "acme-country-de"),
        (ExitWish("isp", "de"), "s1", "acme-type-isp-country-de-session-s1"),
    ],
)
def test_a_gateway_gets_kind_country_and_session_in_its_user_name(
    wish: ExitWish, session: str, expected: str
) -> None:
    exit = parse_exit(f"http://acme:x@h:1 template={TEMPLATE}")
    assert login(exit, wish, session=session) == expected
    assert login(parse_exit("http://acme-{session}:x@h:1"), wish, session="7") == "acme-7"


def test_an_exit_serves_the_kinds_and_countries_of_its_line_and_a_gateway_those_of_its_template() -> None:
    plain = parse_exit("http://h:1 kind=isp country=de,fr")
    gateway = parse_exit(f"http://acme:x@h:1 template={TEMPLATE}")
    limited = replace(gateway, countries=("us",))
    for exit, kind, country, expected in (
        (plain, "", "", True),
        (plain, "isp", "fr", True),
        (plain, "residential", "", False),
        (plain, "", "us", False),
        (gateway, "residential", "us", True),
        (limited, "", "us", True),
        (limited, "", "de", False),
    ):
        assert matches(exit, ExitWish(kind, country)) is expected, (kind, country)


def test_exits_of_one_address_have_different_names() -> None:
    lines = ["http://a:x@h:1", "http://b:x@h:1", "http://a:x@h:2", "http://a:x@h:1"]
    first, second, third = name_exits(map(parse_exit, lines))
    assert third.name == "h:2"
    assert first.name != second.name
    assert first.name.startswith("h:1~")
    with pytest.raises(Rejected):
        name_exits([first, replace(first, password="y")])


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("http://a:1,http://b:2", ["http://a:1", "http://b:2"]),
        ("http://u:p@a:1 kind=isp,own; socks5://b:2", ["http://u:p@a:1 kind=isp,own", "socks5://b:2"]),
        ("a:1, b:2 ,c:3:user:pass", ["a:1", "b:2", "c:3:user:pass"]),
        ("http://u:p,b:2@a:1", ["http://u:p,b:2@a:1"]),
        ("a:1:user:pass,word", ["a:1:user:pass,word"]),
        ("http://a:1 country=us,de", ["http://a:1 country=us,de"]),
    ],
)
def test_a_list_may_have_commas_between_its_lines_but_a_password_and_an_option_are_not_cut(
    entry: str, expected: list[str]
) -> None:
    assert split_lines(entry) == expected
    assert is_line(entry)
