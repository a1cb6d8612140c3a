"""No socket left on this machine: requests wait, and no URL, exit or name is charged."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.site.raw import Peer, answer, raw_server

from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import Answer, DnsResolver
from shoal.fetch.http.guard import Guard
from shoal.fetch.http.own_limits import OutOfSockets
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.exits.exit import ChosenExit, parse_exit
from shoal.model.failure import Failure
from shoal.model.page import NotSent, Response


@contextmanager
def no_files_left(*, but: int = 0) -> Iterator[None]:
    """Open files until this process may open no more than `but`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
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
