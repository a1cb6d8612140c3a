"""A connection that ends after each byte of a response: no part of it passes as the whole."""

import gzip

import pytest
from tests.site.raw import Peer, raw_server

from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import Answer
from shoal.fetch.http.guard import Guard
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.failure import Failure, FailureClass
from shoal.model.page import Response

BODY = b"<title>page</title>"
PACKED = gzip.compress(BODY)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\n%s\r\na\r\n%s\r\n0\r\n\r\n" % (BODY[:9], BODY[9:])
RESPONSES = {
    "length": HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY,
    "chunked": CHUNKED,
    "line feeds": (HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY)).replace(b"\r\n", b"\n") + BODY,
    "gzip without length": HEAD + b"Content-Encoding: gzip\r\n\r\n" + PACKED,
}


class Names:
    async def resolve(self, host: str) -> Answer:
        return (host,)


@pytest.mark.parametrize("framing", RESPONSES)
async def test_a_response_that_is_cut_anywhere_is_no_page(framing: str) -> None:
    whole, sent = RESPONSES[framing], 0

    async def handler(peer: Peer) -> None:
        await peer.request()
        if sent:
            await peer.send(whole[:sent])

    async with raw_server(handler) as server, HttpClient(Names(), Guard(PRIVATE)) as client:
        for sent in range(len(whole)):
            failure = await client.fetch(server.url())
            assert isinstance(failure, Failure), whole[:sent]
            expected = FailureClass.TRUNCATED if sent else FailureClass.CONNECT
            assert failure.failure_class is expected, whole[:sent]
        sent = len(whole)
        page = await client.fetch(server.url())
    assert isinstance(page, Response)
    assert page.body == BODY
