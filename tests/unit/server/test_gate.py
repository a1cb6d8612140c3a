"""Host, Origin and cookies: what names this server and what does not."""

import pytest

from shoal.model.configuration.listen_address import host_of
from shoal.server.access.gate import (
    LOOPBACK_NAMES,
    MAX_SESSIONS,
    MAX_SESSIONS_OF_ONE_TOKEN,
    Sessions,
    accepts_host,
    is_foreign,
    read_cookie,
)


@pytest.mark.parametrize(
    ("authority", "name"),
    [
        ("127.0.0.1:8787", "127.0.0.1"),
        ("LOCALHOST", "localhost"),
        ("localhost.:80", "localhost"),
        ("[::1]:8787", "::1"),
        ("user@127.0.0.1", ""),
        ("127.0.0.1:99999", ""),
        ("127.0.0.1:x", ""),
        ("127.0.0.1/../x", ""),
        ("", ""),
        ("127.0.0.1#", ""),
    ],
)
def test_the_name_in_a_host_header(authority: str, name: str) -> None:
    assert host_of(authority) == name


@pytest.mark.parametrize(
    ("name", "any_address", "accepted"),
    [
        ("localhost", False, True),
        ("evil.example", False, False),
        ("10.0.0.5", False, False),
        ("10.0.0.5", True, True),  # it listens on all addresses: rebinding needs a name
        ("evil.example", True, False),
        ("", True, False),
    ],
)
def test_which_hosts_are_accepted(name: str, any_address: bool, accepted: bool) -> None:
    assert accepts_host(name, LOOPBACK_NAMES, any_address=any_address) is accepted


@pytest.mark.parametrize(
    ("headers", "foreign"),
    [
        ({}, False),
        ({"origin": "http://127.0.0.1:8787"}, False),
        ({"origin": "https://127.0.0.1:8787"}, False),  # behind a proxy that speaks TLS
        ({"origin": "https://evil.example"}, True),
        ({"origin": "ftp://127.0.0.1:8787"}, True),
        ({"origin": "http://127.0.0.1:9999"}, True),
        ({"origin": "null"}, True),
        ({"referer": "http://127.0.0.1:8787/ui/x"}, False),
        ({"referer": "http://evil.example/127.0.0.1:8787"}, True),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "cross-site"}, True),
    ],
)
def test_which_requests_come_from_another_site(headers: dict[str, str], foreign: bool) -> None:
    assert is_foreign({"host": "127.0.0.1:8787", **headers}) is foreign


def test_a_cookie_is_found_among_others() -> None:
    headers = {"cookie": "a=1; shoal_session=x=y ;b"}
    assert read_cookie(headers, "shoal_session") == "x=y"
    assert read_cookie({}, "shoal_session") == ""


def test_many_sessions_of_one_token_end_its_own_oldest_and_no_other() -> None:
    sessions = Sessions()
    other, _ = sessions.create("other", 0.0)
    own = [sessions.create("own", 0.0)[0] for _ in range(MAX_SESSIONS + 100)]

    assert sessions.find(other, 1.0) is not None
    assert [key for key in own if sessions.find(key, 1.0)] == own[-MAX_SESSIONS_OF_ONE_TOKEN:]


def test_sessions_of_all_tokens_are_limited_and_the_token_with_most_gives_one_up() -> None:
    sessions = Sessions()
    most, _ = sessions.create("most", 0.0)
    for _ in range(MAX_SESSIONS_OF_ONE_TOKEN - 1):
        sessions.create("most", 0.0)
    single = [sessions.create(f"token {number}", 0.0)[0] for number in range(MAX_SESSIONS)]

    kept = [key for key in [most, *single] if sessions.find(key, 1.0)]
    assert most not in kept
    assert (
        sum(sessions.find(key, 1.0) is not None for key in single) >= MAX_SESSIONS - MAX_SESSIONS_OF_ONE_TOKEN
    )
