"""The least a crawler in Python can do: the reference for Shoal's own cost.

One event loop, HTTP/1.1 over uvloop and httptools, Lexbor, a set of the URLs seen. One host, no robots.txt,
no politeness, no retries, no archive, no durability; any error ends it. With two processes, each owns half
of the pages by hash and sends the other's links over. Run as `python -m bench.minimal URL OUT`.
"""

import argparse
import asyncio
import mmap
import os
import re
import socket
import zlib
from collections import deque
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import urlsplit

import ada_url
import httptools
import msgspec
import uvloop
from selectolax.lexbor import LexborHTMLParser

from bench.site import FIELDS

PLAIN = re.compile(r"/(?:[\w-]+[./])*[\w-]*", re.ASCII).fullmatch  # a path in which nothing is to be resolved
POLL = 0.02  # seconds between looks at whether both processes are through


class Crawler:
    """Everything but the wire: what has been seen, what waits, what comes out."""

    def __init__(self, start: str, out: BinaryIO, connections: int) -> None:
        parts = urlsplit(start)
        self.authority = parts.netloc
        self.waiting: deque[str] = deque()  # paths
        self.idle: list[Connection] = []
        self._connections = connections
        self.finished = asyncio.get_running_loop().create_future()
        self.peer: Peer | None = None
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._seen: set[str] = set()
        self._out = out
        self._encode = msgspec.json.Encoder().encode

    @property
    def through(self) -> bool:
        return not self.waiting and len(self.idle) == self._connections

    def add(self, path: str) -> None:
        """Queue a page that is new, or send it to the process that owns it."""
        if path not in self._seen:
            self._seen.add(path)
            if self.peer is None or self.peer.keeps(path):
                self.waiting.append(path)

    def page(self, path: str, body: bytes) -> None:
        """Write the fields of a page and queue its links."""
        tree = LexborHTMLParser(body)
        url = self._origin + path
        item = {"url": url}
        for name, selector in FIELDS.items():
            node = tree.css_first(selector)
            assert node is not None
            item[name] = node.text()
        self._out.write(self._encode(item) + b"\n")
        for node in tree.css("a[href]"):
            self._follow(url, node.attributes["href"] or "")

    def _follow(self, url: str, href: str) -> None:
        if href in self._seen:  # most links are written as plain paths, and most are known
            return
        link = href.partition("#")[0]
        if PLAIN(link):
            self.add(link)
        elif (joined := ada_url.join_url(url, link)).startswith(self._origin):
            self.add(joined.removeprefix(self._origin))

    def go_on(self) -> None:
        """Assign waiting pages to idle connections; detect the end."""
        while self.waiting and self.idle:
            self.idle.pop().fetch(self.waiting.popleft())
        if self.peer is None and self.through:
            self.finished.set_result(None)


class Connection(asyncio.Protocol):
    """One connection; it asks for the next page as soon as it has the last one."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._path = ""
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpResponseParser(self)
        self._crawler.idle.append(self)

    def fetch(self, path: str) -> None:
        self._path = path
        self._transport.write(f"GET {path} HTTP/1.1\r\nHost: {self._crawler.authority}\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, piece: bytes) -> None:
        self._body.append(piece)

    def on_message_complete(self) -> None:
        assert self._parser.get_status_code() == 200, self._path
        body, self._body = b"".join(self._body), []
        self._crawler.page(self._path, body)
        self._crawler.idle.append(self)
        self._crawler.go_on()


class Peer(asyncio.Protocol):
    """The other process: links go over in batches, shared counters tell when both are through."""

    def __init__(self, crawler: Crawler, me: int, counters: memoryview) -> None:
        self._crawler, self._me = crawler, me
        self._counters = counters  # of each process: links sent, links taken, busy
        self._outbox: list[str] = []
        self._rest = b""
        self._last_look: list[int] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._tick()

    def keeps(self, path: str) -> bool:
        """Return True if this process owns a page; otherwise send it to the other."""
        if zlib.crc32(path.encode()) & 1 == self._me:
            return True
        self._outbox.append(path)
        if len(self._outbox) >= 64:
            self._flush()
        return False

    def data_received(self, data: bytes) -> None:
        self._counters[3 * self._me + 2] = 1
        *paths, self._rest = (self._rest + data).split(b"\n")
        self._counters[3 * self._me + 1] += len(paths)
        for path in paths:
            self._crawler.add(path.decode())
        self._crawler.go_on()

    def _flush(self) -> None:
        self._counters[3 * self._me] += len(self._outbox)
        self._transport.write("".join(f"{path}\n" for path in self._outbox).encode())
        self._outbox.clear()

    def _tick(self) -> None:
        if self._outbox:
            self._flush()
        self._counters[3 * self._me + 2] = not self._crawler.through
        # Two equal readings of counters that only grow, everything sent was taken and no connection is busy:
        # nothing can happen any more.
        look = self._counters.tolist()
        sent, taken, busy = (sum(look[n::3]) for n in range(3))
        if look == self._last_look and sent == taken and not busy:
            self._crawler.finished.set_result(None)
        else:
            self._last_look = look
            asyncio.get_running_loop().call_later(POLL, self._tick)


Link = tuple[int, socket.socket, memoryview]
"""Which of two processes this is, the wire to the other, and the counters they share."""


async def crawl(start: str, out: Path, *, connections: int, link: Link | None) -> None:
    """Crawl what can be reached from `start` on its host; write one JSON line per page."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(give_up)
    parts = urlsplit(start)
    address = parts.hostname or "", parts.port or 80
    with out.open("wb", buffering=1 << 20) as file:
        crawler = Crawler(start, file, connections)
        for _ in range(connections):
            await loop.create_connection(lambda: Connection(crawler), *address)
        if link is not None:
            me, wire, counters = link
            crawler.peer = peer = Peer(crawler, me, counters)
        if link is None or me == 0:
            crawler.add(parts.path)
        if link is not None:
            await loop.create_connection(lambda: peer, sock=wire)  # from here on it may find itself through
        crawler.go_on()
        await crawler.finished


def give_up(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    loop.default_exception_handler(context)
    os._exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.minimal", description="Crawl one host at the least cost."
    )
    parser.add_argument("url")
    parser.add_argument("out", type=Path)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--processes", type=int, choices=(1, 2), default=1)
    args = parser.parse_args()
    out: Path = args.out
    if args.processes == 1:
        return uvloop.run(crawl(args.url, out, connections=args.concurrency, link=None))
    wires = socket.socketpair()
    counters = memoryview(mmap.mmap(-1, 6 * 8)).cast("q")
    counters[2] = counters[5] = 1  # busy until they have begun
    child = os.fork()
    me = 0 if child else 1
    if me:
        out = out.with_name(f"{out.name}.2")
    uvloop.run(crawl(args.url, out, connections=args.concurrency // 2, link=(me, wires[me], counters)))
    if child:
        os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    main()
