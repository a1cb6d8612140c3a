"""The parsers of what servers send below the page: responses, encoded bodies, cookies, robots.txt; to be fuzzed."""

import gzip
import zlib

import brotli
from backports import zstd
from tests.adversary.sloppy_responses import READABLE, REFUSED_BY_BOTH, STRICTER
from tests.fuzzing import KIB, MIB, Parser

from shoal.fetch.cookies import CookieJar
from shoal.fetch.http.decode import decode_archived
from shoal.fetch.http.exchange import Exchange
from shoal.fetch.robots_txt import parse as parse_robots
from shoal.model.errors import Rejected
from shoal.model.limits import FetchLimits

LIMITS = FetchLimits()
NOW = 1_800_000_000.0


def _receive(data: bytes, piece: int) -> None:
    exchange = Exchange()
    exchange.begin(LIMITS, started_at=0.0)
    for at in range(0, len(data), piece):
        if exchange.feed(data[at : at + piece]):
            break
    else:
        exchange.end(reset=False)
    assert exchange.complete or exchange.failure is not None
    assert not (exchange.lenient and exchange.reusable)
    _ = exchange.body, exchange.headers
    exchange.close()


def _response(data: bytes) -> None:
    _receive(data, max(1, len(data)))


def _response_in_pieces(data: bytes) -> None:
    _receive(data, 7)


def _response_by_bytes(data: bytes) -> None:
    _receive(data, 1)


def _decode(data: bytes) -> None:
    kind = data[:1] + b" "
    name = {b"\x1f": "gzip", b"(": "zstd", b"x": "deflate"}.get(kind[:1], "br")
    decode_archived(data, name, None)


def _cookies(data: bytes) -> None:
    jar = CookieJar()
    for url in ("https://www.shop.example.com/a/b", "http://evil.example.com/", "http://127.0.0.1/"):
        jar.store(url, data.decode("latin-1").split("\n"), NOW)
        jar.header(url, NOW)
    CookieJar.load(jar.dump())


def _robots(data: bytes) -> None:
    rules = parse_robots(data, "shoal")
    rules.allows("/a/b/c?d=e")


_RESPONSES = (*READABLE.values(), *REFUSED_BY_BOTH.values(), *STRICTER.values())
_HTTP_TOKENS = (
    *(
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100 X\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 5\r\n",
    ),
    *(
        b"X-A: b\r\n",
        b" folded\r\n",
        b": v\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b"5\r\nhello\r\n",
        b"5 \n",
        b"0\r\n\r\n",
    ),
    *(b"1;x=y\r\n", b"hello", b"Content-Range: bytes 0-4/5\r\n", b"Content-Encoding: gzip\r\n"),
)
_BODY = b"<title>page</title>" * 40
_ENCODED = (
    gzip.compress(_BODY),
    gzip.compress(_BODY) * 3,
    zlib.compress(_BODY),
    brotli.compress(_BODY),
    zstd.compress(_BODY),
    zstd.compress(_BODY) + b"\x50\x2a\x4d\x18\x04\0\0\0skip" + zstd.compress(_BODY),
)
_SET_COOKIE = (
    b"sid=31d4; Domain=example.com; Path=/; Secure; HttpOnly; Max-Age=100",
    b"a=b; Expires=Wed, 09 Jun 2027 10:18:14 GMT; SameSite=Lax",
    b"__Host-x=1; Secure; Path=/",
    b"plain\na=1\nb=2; Domain=.shop.example.com",
)
_COOKIE_TOKENS = (
    b"a=b",
    b";",
    b"=",
    b" ",
    b"\n",
    b"Domain=",
    b".example.com",
    b"Path=/",
    b"Max-Age=9",
    b"Expires=",
    b"\xff",
)
_ROBOTS = (
    b"User-agent: *\nDisallow: /private\nAllow: /private/a*.html$\nCrawl-delay: 2\n",
    b"User-agent: shoal\nUser-agent: other\nDisallow: /*?*sort=*&*\nSitemap: https://a.example/s.xml\n",
)
_ROBOTS_TOKENS = (
    b"User-agent: *\n",
    b"Disallow: ",
    b"Allow: ",
    b"/a",
    b"*",
    b"$",
    b"\n",
    b"#",
    b"%2f",
    b"\xef\xbb\xbf",
    b":",
)

PARSERS = [
    Parser("responses", _response, _RESPONSES, _HTTP_TOKENS, max_bytes=1 * MIB),
    Parser("responses in pieces", _response_in_pieces, _RESPONSES, _HTTP_TOKENS, max_bytes=256 * KIB),
    Parser(
        "responses byte by byte",
        _response_by_bytes,
        _RESPONSES,
        _HTTP_TOKENS,
        max_bytes=64 * KIB,
        seconds_per_mib=8.0,
    ),
    Parser("encoded bodies", _decode, _ENCODED, (*_ENCODED, b"\0", b"\xff"), (Rejected,), memory_factor=4000),
    Parser("Set-Cookie", _cookies, _SET_COOKIE, _COOKIE_TOKENS, max_bytes=64 * KIB),
    Parser("robots.txt", _robots, _ROBOTS, _ROBOTS_TOKENS, max_bytes=500 * KIB),
]
