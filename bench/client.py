"""What one page costs the HTTP client: CPU per request on keep-alive connections, 12 KB pages.

    python -m bench.client [requests per round] [concurrency]

"hand" is the least that can be done by hand on the same event loop and parser: nothing checked, no limits, no
headers kept. "attempt" is what a crawl pays: a lease in, an attempt out, robots.txt and headers included.
All ways are run in turn, many times. "gzip" is the decoding of one page alone.
"""

import asyncio
import gzip
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import httptools
import uvloop

from bench.web_server import serving
from shoal.fetch.cookies import CookieJar
from shoal.fetch.fetcher import HttpFetcher
from shoal.fetch.gate import SendGate
from shoal.fetch.headers import CrawlHeaders
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.decode import Decoder
from shoal.fetch.http.dns import DnsResolver
from shoal.fetch.http.guard import Guard
from shoal.fetch.interpret import RedirectRules
from shoal.fetch.robots import RobotsPolicy
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.limits import FetchLimits
from shoal.model.outcome import Lease
from shoal.model.page import Response
from shoal.model.request import Request

ROUNDS = 20  # short ones: on a machine with other work, the best of many says more than one long run
HEADERS = (("User-Agent", "bench"), ("Accept", "text/html"), ("Accept-Encoding", "gzip, deflate, br, zstd"))

Work = Callable[[], Awaitable[None]]


def page() -> bytes:
    dice = random.Random(1)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(2, 9))) for _ in range(800)]
    return ("<!doctype html><title>page</title><p>" + " ".join(dice.choices(words, k=3000)))[:12_000].encode()


class Hand(asyncio.Protocol):
    """The least that can be done by hand on the same parser: no limits, no time-outs, no headers kept."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.parser = httptools.HttpResponseParser(self)

    def get(self, message: bytes) -> asyncio.Future[bytes]:
        self.done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.body = b""
        self.transport.write(message)
        return self.done

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.done.set_result(self.body)


def by_hand(idle: list[Hand], message: bytes) -> Work:
    async def work() -> None:
        connection = idle.pop()
        await connection.get(message)
        idle.append(connection)

    return work


def fetch(client: HttpClient, url: str) -> Work:
    async def work() -> None:
        answer = await client.fetch(url, headers=HEADERS)
        assert isinstance(answer, Response), answer

    return work


def attempt(client: HttpClient, url: str) -> Work:
    redirects = RedirectRules(Guard(PRIVATE))
    robots = RobotsPolicy(client, redirects, token="bench")
    fetcher = HttpFetcher(
        client, SendGate(), redirects, CrawlHeaders("bench", {}), robots=robots, jar=CookieJar()
    )
    host = urlsplit(url).netloc
    lease = Lease("bench", 1, 1, host, Request(url=url), 1, 0, 0, 0.0, 0.0, 1)

    async def work() -> None:
        attempt = await fetcher.attempt(lease)
        assert attempt.parse, attempt

    return work


async def spend(work: Work, requests: int, concurrency: int) -> tuple[float, float]:
    """Run `work` in so many slots; return CPU and wall seconds."""
    left = requests

    async def slot() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await work()

    cpu, wall = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(slot())
    return time.process_time() - cpu, time.perf_counter() - wall


async def measure(url: str, requests: int, concurrency: int) -> None:
    loop = asyncio.get_running_loop()
    where = urlsplit(url)
    message = f"GET {where.path} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode()
    async with DnsResolver() as resolver, HttpClient(resolver, Guard(PRIVATE)) as client:
        assert where.hostname
        assert where.port
        idle = [
            (await loop.create_connection(Hand, where.hostname, where.port))[1] for _ in range(concurrency)
        ]
        ways = {"hand": by_hand(idle, message), "client": fetch(client, url), "attempt": attempt(client, url)}
        runs: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, work in ways.items():
                await spend(work, concurrency * 2, concurrency)  # opens the connections
                runs[way].append(await spend(work, requests, concurrency))
        for connection in idle:
            connection.transport.abort()
    for way, figures in runs.items():
        cpu = [cpu / requests * 1e6 for cpu, _ in figures]
        rate = requests / statistics.median(wall for _, wall in figures)
        print(
            f"{way:8} {statistics.median(cpu):6.1f} µs CPU per page, best {min(cpu):.1f}; {rate:7.0f} pages/s"
        )


async def measure_decoding() -> None:
    decoder, wire, limits, count = Decoder(), gzip.compress(page(), 6), FetchLimits(), 3_000
    cpu = time.process_time()
    for _ in range(count):
        await decoder.decode(wire, "gzip", limits)
    print(f"gzip     {(time.process_time() - cpu) / count * 1e6:6.1f} µs CPU per page")


def main() -> None:
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    concurrency = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "page.html").write_bytes(page())
        Path(folder).chmod(0o755)
        with serving(Path(folder), core=cores[0]) as server:
            os.sched_setaffinity(0, cores[-1:])
            uvloop.run(measure(server.url.rstrip("/") + "/page.html", requests, concurrency))
    uvloop.run(measure_decoding())


if __name__ == "__main__":
    main()
