"""Attempts through the real client against a server that means no good."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.site.raw import OK, Handler, Peer, RawServer, answer, raw_server

from shoal.fetch.cookies import CookieJar
from shoal.fetch.fetcher import HttpFetcher
from shoal.fetch.gate import SendGate
from shoal.fetch.headers import CrawlHeaders
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import DnsResolver
from shoal.fetch.http.guard import Guard
from shoal.fetch.interpret import RedirectRules
from shoal.fetch.robots import RobotsPolicy
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.failure import FailureClass
from shoal.model.limits import KIB, MIB, FetchLimits
from shoal.model.outcome import Dead, Filtered, Lease
from shoal.model.request import Request
from shoal.model.url import host_key

LIMITS = FetchLimits(wire_bytes=1 * MIB, body_bytes=2 * MIB, first_byte=5, total=10)


def lease(request: Request, attempt: int = 1) -> Lease:
    return Lease("crawl", 1, 1, host_key(request.url), request, attempt, 0, 0, 0.0, 0.0, 1)


@asynccontextmanager
async def fetching(handler: Handler, *, robots: bool = False) -> AsyncIterator[tuple[HttpFetcher, RawServer]]:
    guard = Guard(PRIVATE)
    redirects = RedirectRules(guard)
    async with (
        asyncio.timeout(30),
        raw_server(handler) as server,
        DnsResolver() as resolver,
        HttpClient(resolver, guard, sweep=0.02) as client,
    ):
        asking = RobotsPolicy(client, redirects, token="shoal", limits=LIMITS) if robots else None
        headers = CrawlHeaders("Shoal/1", {})
        yield (
            HttpFetcher(
                client, SendGate(), redirects, headers, robots=asking, jar=CookieJar(), limits=LIMITS
            ),
            server,
        )


def routes(paths: dict[str, bytes]) -> Handler:
    async def handler(peer: Peer) -> None:
        while True:
            path = (await peer.request()).split(b" ", 2)[1].decode()
            await peer.send(paths.get(path, answer(b"", status=404)))

    return handler


async def test_H20_a_chain_of_redirects_ends_after_ten() -> None:
    paths = {f"/{n}": answer(b"", status=302, headers=(("Location", f"/{n + 1}"),)) for n in range(20)}
    async with fetching(routes(paths)) as (fetcher, server):
        request = Request(url=server.url("/0"))
        for _ in range(10):
            attempt = await fetcher.attempt(lease(request))
            assert attempt.following is not None
            request = attempt.following
        attempt = await fetcher.attempt(lease(request))
    assert isinstance(attempt.outcome, Dead)
    assert attempt.outcome.failure.failure_class is FailureClass.REDIRECT
    assert server.paths() == [f"/{n}" for n in range(11)]


async def test_H24_a_redirect_to_cloud_metadata_is_refused_although_private_addresses_are_open() -> None:
    location = (("Location", "http://169.254.169.254/latest/"),)
    async with fetching(routes({"/": answer(b"", status=302, headers=location)})) as (fetcher, server):
        attempt = await fetcher.attempt(lease(Request(url=server.url())))
    assert isinstance(attempt.outcome, Dead)
    assert attempt.outcome.failure.failure_class is FailureClass.REFUSED


async def test_R01_without_a_robots_txt_pages_are_fetched() -> None:
    async with fetching(routes({"/page": OK}), robots=True) as (fetcher, server):
        attempt = await fetcher.attempt(lease(Request(url=server.url("/page"))))
    assert attempt.parse
    assert server.paths() == ["/robots.txt", "/page"]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
async def test_robots_txt_is_obeyed(packed: bool) -> None:
    text = b"User-agent: *\nDisallow: /page"
    body = zlib.compress(text, wbits=31) if packed else text
    headers = (("Content-Encoding", "gzip"),) if packed else ()
    async with fetching(routes({"/robots.txt": answer(body, headers=headers)}), robots=True) as (
        fetcher,
        server,
    ):
        attempt = await fetcher.attempt(lease(Request(url=server.url("/page"))))
    assert isinstance(attempt.outcome, Filtered)
    assert server.paths() == ["/robots.txt"]


async def test_R09_the_first_part_of_a_bomb_or_an_endless_file_counts() -> None:
    rules = b"User-agent: *\nDisallow: /private\n"
    bomb = zlib.compress(rules + bytes(64 * MIB), wbits=31)

    async def endless(peer: Peer) -> None:
        if b"robots.txt" in await peer.request():
            await peer.send(answer(rules, length=False))
            await peer.send_for_ever(b"Disallow: /x\n" * KIB)
        await peer.send(OK)

    large = rules + b"Disallow: /late\n".rjust(20 * MIB)  # above the limit of a page
    routed = [
        {"/robots.txt": answer(bomb, headers=(("Content-Encoding", "gzip"),))},
        {"/robots.txt": answer(large)},
    ]
    for handler in (*(routes({**route, "/late": OK}) for route in routed), endless):
        async with fetching(handler, robots=True) as (fetcher, server):
            forbidden = await fetcher.attempt(lease(Request(url=server.url("/private"))))
            page = await fetcher.attempt(lease(Request(url=server.url("/late"))))
        assert isinstance(forbidden.outcome, Filtered)
        assert page.outcome is None
        assert server.paths() == ["/robots.txt", "/late"]


async def test_R10_many_attempts_at_once_ask_for_robots_txt_once() -> None:
    async with fetching(routes({f"/{n}": OK for n in range(50)}), robots=True) as (fetcher, server):
        async with asyncio.TaskGroup() as group:
            for n in range(50):
                group.create_task(fetcher.attempt(lease(Request(url=server.url(f"/{n}")))))
    assert server.paths().count("/robots.txt") == 1
    assert len(server.requests) == 51


async def test_H22_a_cookie_and_a_header_do_not_follow_to_another_port() -> None:
    async def other(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)

    async with raw_server(other) as elsewhere:
        location = (("Location", elsewhere.url("/target")), ("Set-Cookie", "a=1; Secure"))
        async with fetching(routes({"/": answer(b"", status=302, headers=location)})) as (fetcher, server):
            first = await fetcher.attempt(lease(Request(url=server.url(), headers={"Authorization": "x"})))
            assert first.following is not None
            second = await fetcher.attempt(lease(first.following))
    assert second.parse
    assert b"Authorization" in server.requests[0]
    assert b"Authorization" not in elsewhere.requests[0]
    assert b"Cookie" not in elsewhere.requests[0]
