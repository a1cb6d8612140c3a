"""What pages over HTTPS cost, by client: many hosts with few pages each, and one host with many.

    python -m bench.https [--hosts 1000] [--pages 3] [--rounds 3]

A server with TLS and HTTP/2 runs beside the client, in another process. CPU time is that of the client's
process, the egress of the impersonating client included. `user` is the part of it that our code and its
libraries use; the rest is the kernel's, which also wakes the server or the exit on its account. Ways are run
in turn; the median round counts.

Exits are real proxies on this machine, chosen as in a crawl, with as many connections as our client keeps
without an exit. They take their CPU time from the same cores, so pages per second say less than CPU time.
"""

import argparse
import resource
import statistics
import tempfile
import time
from asyncio import TaskGroup
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import uvloop
from rich.console import Console
from rich.table import Table
from tests.servers.nginx import secure_nginx
from tests.servers.proxies import Microsocks, Tinyproxy, proxy_server
from tests.site.certificates import make_authority

from shoal.fetch.contract import Client
from shoal.fetch.egress.egress import Egress
from shoal.fetch.exits.exit_pool import ExitPool
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import Answer
from shoal.fetch.http.guard import Guard
from shoal.fetch.impersonate.client import ImpersonatingClient
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.exits.exit import Exit, ExitWish, parse_exit
from shoal.model.limits import FetchLimits
from shoal.model.page import Response
from shoal.model.settings import ProxySettings

LIMITS = FetchLimits()
CONCURRENCY = 32
CONNECTIONS = 256 + CONCURRENCY  # as many are idle at most, and in use
GUARD = Guard(PRIVATE)
ANY = ExitWish()


class OneAddress:
    """Every name has the address of the server."""

    async def resolve(self, host: str) -> Answer:
        return ("127.0.0.1",)


OWN = "own"
THROUGH = {"own through tinyproxy": Tinyproxy, "own through microsocks": Microsocks}
WAYS = (OWN, *THROUGH, "HTTP/2, not impersonating", "impersonating")


class Figures(NamedTuple):
    cpu: float  # microseconds per page
    user: float  # of them, outside of the kernel
    pages_per_s: float


@asynccontextmanager
async def open_client(way: str, ca_file: str) -> AsyncIterator[Client]:
    resolver = OneAddress()
    async with AsyncExitStack() as stack:
        own = await stack.enter_async_context(HttpClient(resolver, GUARD, ca_file=ca_file))
        if way.startswith(OWN):
            yield own
            return
        egress = await stack.enter_async_context(Egress(resolver, GUARD, own.exits).listen())
        profile = "chrome" if way == "impersonating" else "plain"
        client = ImpersonatingClient(egress, resolver, GUARD, profile=profile, ca_file=ca_file)
        stack.callback(client.close)
        yield client


async def fetch_all(client: Client, urls: Sequence[str], exits: ExitPool | None) -> None:
    waiting = iter(urls)

    async def work() -> None:
        for url in waiting:
            send = partial(client.fetch, url, headers=(), limits=LIMITS, turn=None)
            if exits is None:
                answer = await send()
            else:
                answer, _ = await exits.send(lambda via: send(via=via), host=url.split("/")[2], wish=ANY)  # noqa: B023
            assert isinstance(answer, Response), answer
            assert answer.status == 200

    async with TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(work())


async def measure(way: str, urls: Sequence[str], ca_file: str, exit: Exit | None) -> Figures:
    exits = None if exit is None else ExitPool([exit], ProxySettings(), worker="bench")
    async with open_client(way, ca_file) as client:
        await fetch_all(client, urls[:1], exits)
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        await fetch_all(client, urls, exits)
        after, took = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - began
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return Figures((user + system) / len(urls) * 1e6, user / len(urls) * 1e6, len(urls) / took)


async def compare(hosts: int, pages: int, rounds: int) -> dict[str, dict[str, Figures]]:
    """Return the figures by job and way: the medians."""
    found: dict[str, dict[str, list[Figures]]] = defaultdict(lambda: defaultdict(list))
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-https-")))
        authority = make_authority(folder)
        certificate, key = authority.issue("DNS:*.bench.test,DNS:bench.test")
        server = await stack.enter_async_context(
            secure_nginx(folder / "nginx", certificate=certificate, key=key)
        )
        exits = {}
        for way, make in THROUGH.items():
            proxy = await stack.enter_async_context(proxy_server(make, folder / make.__name__))
            exits[way] = parse_exit(f"{proxy.line} tunnel=yes connections={CONNECTIONS}")
        names = [f"https://h{host}.bench.test:{server.port}" for host in range(hosts)]
        many = [f"{name}/{page}" for page in range(pages) for name in names]
        one = [f"https://bench.test:{server.port}/{page}" for page in range(hosts * pages)]
        jobs = {f"{hosts:,} hosts, {pages} pages each": many, f"one host, {len(one):,} pages": one}
        for _ in range(rounds):
            for job, urls in jobs.items():
                for way in WAYS:
                    found[job][way].append(await measure(way, urls, authority.file, exits.get(way)))
    return {
        job: {way: Figures(*map(statistics.median, zip(*all_, strict=True))) for way, all_ in ways.items()}
        for job, ways in found.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--pages", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    console = Console()
    for job, ways in uvloop.run(compare(args.hosts, args.pages, args.rounds)).items():
        columns = ("CPU µs/page", "÷ own", "user µs/page", "÷ own", "pages/s", "÷ own")
        table = Table("", *columns, title=job, title_justify="left")
        for way, figures in ways.items():
            pairs = zip(figures, ways[OWN], strict=True)
            table.add_row(way, *(text for one, own in pairs for text in (f"{one:,.0f}", f"{one / own:.2f}")))
        console.print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
