"""Sloppy responses: the client and curl read the same ones, and read the same bodies."""

import asyncio

from tests.adversary.sloppy_responses import MORE_LENIENT, READABLE, REFUSED_BY_BOTH, STRICTER, TEXT
from tests.servers.process import program
from tests.site.raw import Peer, RawServer, raw_server

from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import DnsResolver
from shoal.fetch.http.guard import Guard
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.limits import FetchLimits
from shoal.model.page import Response

Read = tuple[int, bytes] | None  # status and body; None: refused
LIMITS = FetchLimits(first_byte=5, idle=5, total=10)


class Site:
    def __init__(self, cases: dict[str, bytes]) -> None:
        self.names = list(cases)
        self._responses = list(cases.values())

    async def __call__(self, peer: Peer) -> None:
        request = await peer.request()
        await peer.send(self._responses[int(request.split(b" ", 2)[1][1:])])


async def by_shoal(site: RawServer, count: int) -> list[Read]:
    async with DnsResolver() as resolver, HttpClient(resolver, Guard(PRIVATE)) as client:

        async def one(number: int) -> Read:
            answer = await client.fetch(site.url(f"/{number}"), limits=LIMITS)
            return (answer.status, answer.body) if isinstance(answer, Response) else None

        return await asyncio.gather(*map(one, range(count)))


async def by_curl(site: RawServer, count: int) -> list[Read]:
    curl = program("curl", "curl")
    at_once = asyncio.Semaphore(8)

    async def one(number: int) -> Read:
        async with at_once:
            process = await asyncio.create_subprocess_exec(
                curl, "--disable", "--silent", "--http1.1", "--compressed", "--max-time", "10", "--noproxy", "*",
                "--write-out", "%{stderr}%{http_code}", site.url(f"/{number}"),
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            body, status = await process.communicate()
        return (int(status), body) if process.returncode == 0 else None

    return await asyncio.gather(*map(one, range(count)))


async def read_by_both(cases: dict[str, bytes]) -> dict[str, tuple[Read, Read]]:
    async with raw_server(Site(cases)) as site:
        ours, theirs = await by_shoal(site, len(cases)), await by_curl(site, len(cases))
    return dict(zip(cases, zip(ours, theirs, strict=True), strict=True))


async def test_sloppy_responses_are_read_as_curl_reads_them() -> None:
    for name, (ours, theirs) in (await read_by_both(READABLE)).items():
        assert ours is not None, name
        assert ours == theirs, name
    assert len(READABLE) >= 100


async def test_what_curl_cannot_read_is_a_failure() -> None:
    assert {name: both for name, both in (await read_by_both(REFUSED_BY_BOTH)).items() if any(both)} == {}


async def test_the_deliberate_differences_from_curl() -> None:
    for name, (ours, _) in (await read_by_both(STRICTER)).items():
        assert ours is None, name
    for name, (ours, theirs) in (await read_by_both(MORE_LENIENT)).items():
        assert ours is not None, name
        assert ours[1] == TEXT, name
        assert theirs is None, name
