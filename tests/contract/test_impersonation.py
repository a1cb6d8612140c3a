"""The impersonating client: its greeting is that of its profile, its guard and certificates are ours."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.contract.test_client import LIMITS, Names, impersonating_client
from tests.site.certificates import Authority, make_authority
from tests.site.fingerprints import SETTINGS, ClientHello, recording_server
from tests.site.raw import OK, raw_server, replies

from shoal.fetch.contract import Client
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.guard import Guard
from shoal.fetch.impersonate.profiles import PROFILES
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.configuration.configure import BROWSERS
from shoal.model.failure import Failure, FailureClass
from shoal.model.page import Response

BOT = (("User-Agent", "Shoal/1 (+https://a.test)"), ("Accept", "*/*"), ("X-Own", "yes"))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"))


@asynccontextmanager
async def client_of(profile: str, authority: Authority) -> AsyncIterator[Client]:
    if profile == "own":
        async with HttpClient(Names(), Guard(PRIVATE), ca_file=authority.file) as own:
            yield own
    else:
        async with impersonating_client(Guard(PRIVATE), profile=profile, ca_file=authority.file) as client:
            yield client


async def greetings(profile: str, authority: Authority) -> tuple[ClientHello, object]:
    """Return the ClientHello and the first frames of HTTP/2 of a new client."""
    async with (
        recording_server(authority.server("IP:127.0.0.1")) as server,
        client_of(profile, authority) as client,
    ):
        await client.fetch(server.url, headers=(), limits=LIMITS, turn=None)
    return server.hellos[0], server.http2[0] if server.http2 else None


def test_the_settings_name_the_profiles_that_there_are() -> None:
    assert {name for name in PROFILES if name != "plain"} == set(BROWSERS)


async def test_every_profile_greets_alike_each_time_and_unlike_any_other(authority: Authority) -> None:
    profiles = ("own", *PROFILES)
    first = {profile: await greetings(profile, authority) for profile in profiles}
    again = {profile: await greetings(profile, authority) for profile in profiles}
    assert first == again
    hellos = {profile: hello for profile, (hello, _) in first.items()}
    for profile in ("firefox", "safari", "plain", "own"):
        assert hellos[profile] not in [hello for other, hello in hellos.items() if other != profile], profile
    assert hellos["chrome"].alpn == ("h2", "http/1.1")
    assert (hellos["own"].alpn, first["own"][1]) == (("http/1.1",), None)


async def test_the_frames_of_http_2_are_those_of_the_browser(authority: Authority) -> None:
    found = {}
    for profile in ("chrome", "firefox", "safari"):
        _, frames = await greetings(profile, authority)
        assert isinstance(frames, tuple)
        [settings] = [payload for kind, payload in frames if kind == SETTINGS]
        found[profile] = {
            int.from_bytes(settings[at : at + 2]): int.from_bytes(settings[at + 2 : at + 6])
            for at in range(0, len(settings), 6)
        }
    assert found["chrome"] == {1: 65536, 2: 0, 4: 6291456, 6: 262144}
    assert found["firefox"] == {1: 65536, 2: 0, 4: 131072, 5: 16384}
    assert {key: found["safari"][key] for key in (2, 3, 4)} == {2: 0, 3: 100, 4: 2097152}


async def test_headers_and_their_order_are_those_of_the_profile(authority: Authority) -> None:
    async with (
        recording_server(authority.server("IP:127.0.0.1"), http2=False) as server,
        impersonating_client(Guard(PRIVATE), profile="chrome", ca_file=authority.file) as client,
    ):
        fetched = await client.fetch(server.url, headers=BOT, limits=LIMITS)
        shown = client.sent_headers(BOT)
    assert isinstance(fetched, Response)
    lines = server.requests[0].decode().split("\r\n")[1:-2]
    names = [line.partition(":")[0] for line in lines]
    assert names[:7] == [
        "Host", "Connection", "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform", "Upgrade-Insecure-Requests",
        "User-Agent",
    ]  # fmt: skip
    sent = dict(line.split(": ", 1) for line in lines)
    assert "Chrome/154" in sent["User-Agent"]
    assert "154" in sent["sec-ch-ua"]
    assert "Shoal" not in server.requests[0].decode()
    assert {name.lower(): value for name, value in shown} == {
        name.lower(): value for name, value in sent.items() if name != "Host"
    }


async def test_without_impersonation_our_own_headers_are_sent(authority: Authority) -> None:
    async with (
        recording_server(authority.server("IP:127.0.0.1"), http2=False) as server,
        impersonating_client(Guard(PRIVATE), profile="plain", ca_file=authority.file) as client,
    ):
        await client.fetch(server.url, headers=BOT, limits=LIMITS)
    assert b"user-agent: Shoal/1 (+https://a.test)" in server.requests[0]


@pytest.mark.parametrize("names", ["IP:127.0.0.9", "DNS:other.test"])
async def test_T02_a_certificate_for_another_name_is_a_tls_failure(authority: Authority, names: str) -> None:
    async with raw_server(replies(OK), tls=authority.server(names)) as server:
        async with client_of("chrome", authority) as client:
            result = await client.fetch(server.url(), headers=(), limits=LIMITS, turn=None)
    assert isinstance(result, Failure)
    assert result.failure_class is FailureClass.TLS
    assert not server.requests


async def test_T03_an_unknown_authority_is_a_tls_failure(authority: Authority) -> None:
    async with raw_server(replies(OK), tls=authority.server("IP:127.0.0.1")) as server:
        async with impersonating_client(Guard(PRIVATE), profile="chrome") as client:
            result = await client.fetch(server.url(), limits=LIMITS)
    assert isinstance(result, Failure)
    assert result.failure_class is FailureClass.TLS


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_name_with_a_forbidden_address_is_refused_without_a_connection(scheme: str) -> None:
    names = Names(sly=("93.184.216.34", "127.0.0.1"))
    async with raw_server(replies(OK)) as server:
        async with impersonating_client(Guard(), profile="chrome", names=names) as client:
            result = await client.fetch(f"{scheme}://sly.test:{server.port}/", limits=LIMITS)
    assert isinstance(result, Failure)
    assert result.failure_class is FailureClass.REFUSED
    assert server.connections == 0
