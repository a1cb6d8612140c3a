"""No socket left on this machine: requests wait, and no URL, exit or name is charged."""

import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.integration.fetch.test_egress import open_egress
from tests.site.raw import Peer, answer, raw_server

from shoal.fetch.browser.client import BrowserClient
from shoal.fetch.browser.pool import BrowserPool
from shoal.fetch.contract import Client
from shoal.fetch.egress.paced_request import PacedRequest
from shoal.fetch.gate import SendGate
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import Answer, DnsResolver
from shoal.fetch.http.guard import Guard, Origin
from shoal.fetch.http.own_limits import RETRY_S, OutOfSockets
from shoal.fetch.impersonate.client import ImpersonatingClient
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.exits.exit import ChosenExit, parse_exit
from shoal.model.failure import Failure
from shoal.model.limits import FetchLimits
from shoal.model.page import NotSent, Response
from shoal.model.settings import BrowserSettings


@contextmanager
def no_files_left(*, but: int = 0) -> Iterator[None]:
    """Open files until this process may open no more than `but`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    gc.collect()  # what earlier tests have left must not close its files in the meantime
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
    try:
        while True:
            try:
                held.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        for _ in range(but):
            os.close(held.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for file in held:
            os.close(file)


async def serve(peer: Peer) -> None:
    await peer.request()
    await peer.send(answer(b"page"))


class NoNames:
    async def resolve(self, host: str) -> Answer:
        raise OutOfSockets("Too many open files")


class Names:
    async def resolve(self, host: str) -> Answer:
        return ("127.0.0.1",) if "two" not in host else ("127.0.0.1", "::1")


@pytest.mark.parametrize("host", ["127.0.0.1", "two.test"])
async def test_a_request_without_a_socket_is_not_sent_and_not_failed(host: str) -> None:
    async with raw_server(serve) as server, HttpClient(Names(), Guard(PRIVATE)) as client:
        url, via = server.url(host=host), ChosenExit(parse_exit(server.url()))
        with no_files_left():
            waiting = [await client.fetch(url), await client.fetch(url, via=via)]
        sent = await client.fetch(url)

    assert [type(one) for one in waiting] == [NotSent, NotSent]
    assert isinstance(sent, Response)
    assert len(server.requests) == 1


@pytest.mark.parametrize("left", range(4))
async def test_a_name_that_could_not_be_looked_up_is_not_called_unknown(left: int) -> None:
    async with DnsResolver(nameservers=["127.0.0.1:9"]) as resolver:
        with no_files_left(but=left), pytest.raises(OutOfSockets):
            await resolver.resolve("example.test")
        assert isinstance(await resolver.resolve("example.test"), Failure)  # nothing is cached


async def test_clients_behind_the_egress_send_nothing_without_a_socket_for_the_look_up() -> None:
    guard = Guard(PRIVATE)
    async with open_egress() as egress, BrowserPool.open(BrowserSettings()) as pool:
        impersonating = ImpersonatingClient(egress, NoNames(), guard)
        clients: list[Client] = [impersonating, BrowserClient(pool, egress, NoNames(), guard)]
        for client in clients:
            answer = await client.fetch("http://one.test/", headers=(), limits=FetchLimits(), turn=None)
            assert answer == NotSent(RETRY_S)
        impersonating.close()


async def test_a_request_that_the_egress_has_no_socket_for_is_not_sent_and_an_exit_is_not_blamed() -> None:
    guard = Guard(PRIVATE)
    async with raw_server(serve) as server, open_egress() as egress, HttpClient(Names(), guard) as client:
        egress.limits = FetchLimits(connect=0.0)
        origin = guard.origin(server.url())
        assert isinstance(origin, Origin)
        issued = egress.issue()
        paced = issued.paced = PacedRequest(SendGate().turn("127.0.0.1", interval=0.0), origin.key)
        with no_files_left():
            assert await egress.dial(issued, origin) is None
            assert await client.exits.check(ChosenExit(parse_exit(server.url())), FetchLimits()) is None
        assert paced.not_sent == RETRY_S
        egress.limits = FetchLimits()
        opened = await egress.dial(issued, origin)
        assert opened is not None
        assert not isinstance(opened, Failure)
        opened.transport.abort()
