"""HTTP: false framing, headers without end, redirects to nowhere, bodies that explode."""

import asyncio
import re
import ssl
from collections.abc import Callable
from time import monotonic

from tests.hostile.case import ATTEMPTS, Case, Evidence, Route, Several, once, page, redirect, site
from tests.site.bombs import brotli_bomb, deflate_bomb, gzip_bomb, layered, zstd_bomb, zstd_window
from tests.site.certificates import Authority
from tests.site.raw import Handler, Peer, answer

MIB = 1 << 20
GZIP = ("Content-Encoding", "gzip")


def pouring(start: bytes, piece: bytes, times: int) -> Handler:
    """Send a start, then a piece `times` times, while the client is connected."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(start)
        for _ in range(times):
            await peer.send(piece)
            await asyncio.sleep(0)

    return handler


def raw(head: str, body: bytes = b"ok") -> Handler:
    return once(f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{head}\r\n\r\n".encode("latin-1") + body)


def chunked(body: bytes) -> Handler:
    return raw("Transfer-Encoding: chunked", body)


def sent_at_most(size: int) -> Callable[[Evidence], None]:
    def check(evidence: Evidence) -> None:
        # What the kernels on both sides hold comes on top of what was read.
        assert evidence.server.sent < size + 16 * MIB * ATTEMPTS, evidence.server.sent

    return check


def requests_at_most(count: int) -> Callable[[Evidence], None]:
    def check(evidence: Evidence) -> None:
        assert len(evidence.server.requests) <= count, evidence.server.paths()

    return check


def cookies_kept(evidence: Evidence) -> None:
    [second] = [request for request in evidence.server.requests if b" /second " in request]
    [line] = [line for line in second.split(b"\r\n") if line.lower().startswith(b"cookie:")]
    assert line.count(b"=") <= 50, line
    assert len(second) < 8192


def no_cookie(evidence: Evidence) -> None:
    [second] = [request for request in evidence.server.requests if b" /second " in request]
    assert b"cookie:" not in second.lower()


def credentials_stay(evidence: Evidence) -> None:
    """What was meant for the first origin never reaches the second."""
    second = [request for request in evidence.server.requests if b" /landed " in request]
    assert second
    for request in second:
        assert b"authorization:" not in request.lower(), request
        assert b"session=" not in request.lower(), request


def bodies(method: bytes, body: bytes) -> Callable[[Evidence], None]:
    def check(evidence: Evidence) -> None:
        [landed] = [request for request in evidence.server.requests if b" /landed " in request]
        assert landed.startswith(method + b" "), landed
        assert landed.endswith(b"\r\n\r\n" + body), landed

    return check


def never_landed(evidence: Evidence) -> None:
    assert not [request for request in evidence.server.requests if b" /landed " in request]


def unparsed(evidence: Evidence) -> None:
    assert not evidence.items


def to_host(host: str, path: str, *headers: tuple[str, str], status: int = 302) -> Route:
    """Redirect to another host of the same server."""

    def route(peer: Peer, request: bytes) -> bytes:
        port = peer.writer.get_extra_info("sockname")[1]
        return answer(b"", status=status, headers=(("Location", f"http://{host}:{port}{path}"), *headers))

    return route


async def which_protocol(peer: Peer) -> None:
    await peer.request()
    chosen = peer.writer.get_extra_info("ssl_object").selected_alpn_protocol()
    await peer.send(page(f"<title>{chosen}</title>"))


def only_http_2(authority: Authority) -> ssl.SSLContext:
    context = authority.server("IP:127.0.0.1")
    context.set_alpn_protocols(["h2"])
    return context


def not_http_2(evidence: Evidence) -> None:
    [item] = evidence.items
    assert item["title"] == "None", item


class Resting:
    """Answer 429 to a client that comes back within `seconds` of the last 429."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._told_at: float | None = None

    def __call__(self, peer: Peer, request: bytes) -> bytes:
        if self._told_at is not None and monotonic() - self._told_at >= self._seconds:
            return page()
        self._told_at = monotonic()
        return page("", ("Retry-After", f"{self._seconds:g}"), status=429)


LOCATIONS = {
    "file": "file:///etc/passwd",
    "data": "data:text/html,x",
    "javascript": "javascript:alert(1)",
    "ftp": "ftp://example.com/",
    "s3": "s3://bucket/key",
    "gopher": "gopher://127.0.0.1:6379/_FLUSHALL",
    "internal": "http://169.254.169.254/latest/meta-data/",
    "canary": "http://0.0.0.0:{canary}/",
    "mapped": "http://[::ffff:127.0.0.1]:{canary}/",
    "long": "/" + "x" * 60_000,
    "empty": "",
    "junk": "http://\xff\xfe/",
    "port": "http://127.0.0.1:6379/",
}

LENGTHS = {"negative": "-1", "signed": "+5", "hex": "0x10", "huge": "1" + "0" * 30}

CHUNKS = {
    "negative": b"-1\r\nx\r\n0\r\n\r\n",
    "overflow": b"10000000000000000\r\nx\r\n0\r\n\r\n",
    "letters": b"zz\r\nx\r\n0\r\n\r\n",
    "no end of line": b"1\r\nxY0\r\n\r\n",
}

RESTS = {
    "negative": "-1",
    "exponent": "1e9",
    "letters": "abc",
    "next millennium": "Fri, 31 Dec 9999 23:59:59 GMT",
    "last century": "Thu, 01 Jan 1970 00:00:00 GMT",
    "long": "9" * 10_240,
}


def refresh_loop(peer: Peer, request: bytes) -> bytes:
    number = int(re.findall(rb"\d+", request.split(b" ", 2)[1])[0])
    return page("<title>again</title>", ("Refresh", f"0; url=/{number + 1}"))


def markup_loop(peer: Peer, request: bytes) -> bytes:
    number = int(re.findall(rb"\d+", request.split(b" ", 2)[1])[0])
    return page(f'<meta http-equiv="refresh" content="0; url=/{number + 1}">')


class Changing:
    """Break off in the middle the first time, and have other bytes the next."""

    def __init__(self) -> None:
        self._asked = 0

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        self._asked += 1
        if self._asked > 1:
            await peer.send(page("<title>whole</title>", ("ETag", '"2"')))
            return
        head = 'HTTP/1.1 200 X\r\nETag: "1"\r\nAccept-Ranges: bytes\r\nContent-Type: text/html\r\n'
        await peer.send(f"{head}Content-Length: 100000\r\n\r\n<title>half".encode())
        await asyncio.sleep(0.05)
        peer.reset()


def length_and_chunks() -> bytes:
    """Return a response with a length and chunks, and one behind it that was not asked for."""
    body = b'<title>first</title><a href="/second">x</a>'
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"
    )
    return b"%b\r\n%x\r\n%b\r\n0\r\n\r\n%b" % (head, len(body), body, page("<title>smuggled</title>"))


def never_smuggled(evidence: Evidence) -> None:
    assert sorted(item["title"] for item in evidence.items) == ["first", "second"], evidence.items


def never_spliced(evidence: Evidence) -> None:
    assert not any(b"\r\nrange:" in request.lower() for request in evidence.server.requests)
    assert [item["title"] for item in evidence.items] == ["whole"], evidence.items


CASES = [
    Case(
        "H04",
        "200,000 header lines",
        pouring(b"HTTP/1.1 200 OK\r\n", b"X-Line: 1\r\n" * 1000, 200),
        "dead too_large",
        check=sent_at_most(64 * 1024),
    ),
    Case(
        "H05",
        "one header line of 100 MiB",
        pouring(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65536, 1600),
        "dead too_large",
        check=sent_at_most(64 * 1024),
    ),
    Case(
        "H07 lengths", "two different lengths", raw("Content-Length: 2\r\nContent-Length: 3"), "dead protocol"
    ),
    Case(
        "H07 both",
        "a length and chunks",
        site({"/": length_and_chunks(), "/second": page("<title>second</title>")}),
        {"http://{at}/": "done", "http://{at}/second": "done"},
        check=never_smuggled,
    ),
    *(
        Case(f"H08 {name}", f"a length of {value[:5]}", raw(f"Content-Length: {value}"), "dead protocol")
        for name, value in LENGTHS.items()
    ),
    *(
        Case(f"H10 {name}", "a chunk that makes no sense", chunked(body), "dead protocol")
        for name, body in CHUNKS.items()
    ),
    Case(
        "H10 extension",
        "10 MiB of chunk extension",
        pouring(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x" * 65536, 160),
        "dead protocol",
        check=sent_at_most(64 * 1024),
    ),
    Case("H10 no last chunk", "no last chunk", chunked(b"2\r\nok\r\n"), "dead truncated"),
    Case(
        "H12",
        "1,000,000 trailer lines",
        pouring(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
            b"X-T: 1\r\n" * 10_000,
            100,
        ),
        "dead too_large",
        check=sent_at_most(128 * 1024),
    ),
    Case(
        "H13 204",
        "204 with a body",
        once(b"HTTP/1.1 204 X\r\nContent-Length: 4\r\n\r\nbody"),
        "done",
        check=unparsed,
    ),
    Case(
        "H13 304", "304 without a conditional request", once(b"HTTP/1.1 304 X\r\n\r\nbody"), "dead protocol"
    ),
    Case(
        "H13 HEAD",
        "HEAD answered with a body",
        site({"/ask/head": page("<title>ask</title>"), "/landed": page("<title>body</title>")}),
        {"http://{at}/ask/head": "done", "HEAD http://{at}/landed": "done"},
    ),
    Case(
        "H14",
        "header values that look like code",
        once(
            page(
                "<title>headers</title>",
                ("Referrer-Policy", "sys.exit"),
                ("Link", "<javascript:alert(1)>; rel=next"),
                ("Refresh", "__import__('os')"),
            )
        ),
        "done",
    ),
    Case("H15 absent", "no content type", once(answer(b"<title>sniffed</title>")), "done"),
    Case(
        "H15 long",
        "a content type of 60 KB",
        once(page("x", ("Content-Type", "text/html;" + "x" * 60_000))),
        "done",
    ),
    Case(
        "H15 charsets",
        "3,000 charsets in one content type",
        once(page("x", ("Content-Type", "text/html" + ";charset=" * 3000))),
        "done",
    ),
    Case(
        "H15 longer",
        "a content type of 1 MiB",
        once(page("x", ("Content-Type", "text/html;" + "x" * MIB))),
        "dead too_large",
    ),
    Case(
        "H15 more charsets",
        "10,000 charsets in one content type",
        once(page("x", ("Content-Type", "text/html" + ";charset=" * 10_000))),
        "dead too_large",
    ),
    Case(
        "H16 flood",
        "10,000 cookies at once",
        once(page("x", *(("Set-Cookie", f"c{n}=v") for n in range(10_000)))),
        "dead too_large",
    ),
    Case(
        "H16 kept",
        "200 cookies at once: 50 are kept",
        site(
            {
                "/": page('<a href="/second">x</a>', *(("Set-Cookie", f"c{n}=v") for n in range(200))),
                "/second": page(),
            }
        ),
        {"http://{at}/": "done", "http://{at}/second": "done"},
        check=cookies_kept,
    ),
    Case(
        "H17 longer",
        "a cookie of 1 MiB",
        once(page("x", ("Set-Cookie", "c=" + "v" * MIB))),
        "dead too_large",
    ),
    Case(
        "H17 kept",
        "a cookie of 32 KB: none is kept",
        site({"/": page('<a href="/second">x</a>', ("Set-Cookie", "c=" + "v" * 32_000)), "/second": page()}),
        {"http://{at}/": "done", "http://{at}/second": "done"},
        check=no_cookie,
    ),
    Case("H20 self", "a redirect to itself", once(redirect("/")), "dead redirect"),
    Case(
        "H20 pair",
        "two pages that redirect to each other",
        site({"/a": redirect("/b"), "/b": redirect("/a")}),
        {"http://{at}/a": "done", "http://{at}/b": "dead redirect"},
    ),
    Case(
        "H20 chain",
        "a chain of 12 redirects",
        site({f"/{n}": redirect(f"/{n + 1}") for n in range(13)}),
        {
            "http://{at}/0": "done",
            "http://{at}/9": "done",
            "http://{at}/10": "dead redirect",
            "http://{at}/11": "nowhere",
        },
    ),
    Case(
        "H20 hosts",
        "a chain of redirects across 12 hosts",
        site({f"/{n}": to_host(f"127.9.0.{n + 2}", f"/{n + 1}") for n in range(13)}),
        {
            "http://127.9.0.1:{port}/0": "done",
            "http://127.9.0.11:{port}/10": "dead redirect",
            "http://127.9.0.12:{port}/11": "nowhere",
        },
        bind="0.0.0.0",
    ),
    Case(
        "H22 scheme",
        "a redirect from https to http at another port, with credentials",
        site(
            {
                "/ask/secret": page("<title>ask</title>"),
                "/first": answer(
                    b"",
                    status=302,
                    headers=(
                        ("Location", "http://{at H22 plain}/landed"),
                        ("Set-Cookie", "session=1; Secure"),
                    ),
                ),
            }
        ),
        {"https://{at}/ask/secret": "done", "https://{at}/first": "done"},
        bind="127.0.0.1",
        tls=lambda authority: authority.server("IP:127.0.0.1"),
    ),
    Case(
        "H22 plain",
        "where it leads to: neither header nor Secure cookie arrives",
        site({"*": page()}),
        {"http://{at}/": "done", "http://{at}/landed": "done"},
        bind="127.0.0.1",
        check=credentials_stay,
    ),
    Case(
        "H22 host",
        "a redirect to another host, with credentials",
        site(
            {
                "/ask/secret": page("<title>ask</title>"),
                "/first": to_host("127.9.1.1", "/landed", ("Set-Cookie", "session=1; Secure")),
                "/landed": page(),
            }
        ),
        {
            "http://{at}/ask/secret": "done",
            "http://{at}/first": "done",
            "http://127.9.1.1:{port}/landed": "done",
        },
        bind="0.0.0.0",
        check=credentials_stay,
    ),
    *(
        Case(
            f"H24 {name}", f"a redirect: {value[:44]!r}", once(redirect(value)), "dead refused|dead redirect"
        )
        for name, value in LOCATIONS.items()
    ),
    Case(
        "H25 301",
        "301 of a POST: a GET without the body",
        site(
            {"/ask/post": page("<title>ask</title>"), "/first": redirect("/landed", 301), "/landed": page()}
        ),
        {"http://{at}/ask/post": "done", "http://{at}/landed": "done"},
        check=bodies(b"GET", b""),
    ),
    Case(
        "H25 307",
        "307 of a POST at the same origin: the body again",
        site(
            {"/ask/post": page("<title>ask</title>"), "/first": redirect("/landed", 307), "/landed": page()}
        ),
        {"http://{at}/ask/post": "done", "POST http://{at}/landed body": "done"},
        check=bodies(b"POST", b"body"),
    ),
    Case(
        "H25 elsewhere",
        "307 of a POST to another origin",
        site(
            {
                "/ask/post": page("<title>ask</title>"),
                "/first": to_host("127.9.1.2", "/landed", status=307),
                "/landed": page(),
            }
        ),
        {"http://{at}/ask/post": "done", "POST http://{at}/first body": "dead redirect"},
        bind="0.0.0.0",
        check=never_landed,
    ),
    Case(
        "H26 header",
        "pages that refresh to the next without end",
        site({"*": refresh_loop}),
        {"http://{at}/0": "done"},
        check=requests_at_most(11),
    ),
    Case(
        "H26 markup",
        "a page that refreshes to itself",
        once(page('<meta http-equiv="refresh" content="0;url=/">')),
        "done",
        check=requests_at_most(1),
    ),
    Case(
        "H26 chain",
        "pages whose markup refreshes to the next without end",
        site({"*": markup_loop}),
        {"http://{at}/0": "done"},
        check=requests_at_most(41),
    ),
    Case(
        "H27",
        "429, to be left alone for two seconds",
        site({"/": Resting(2.0)}),
        "done",
        check=requests_at_most(2),
    ),
    *(
        Case(
            f"H28 {name}",
            f"Retry-After: {value[:30]}",
            site({"/": Several([page("", ("Retry-After", value), status=429), page()])}),
            "done",
        )
        for name, value in RESTS.items()
    ),
    Case("H30", "gzip: 10 MB that become 10 GB", once(page(gzip_bomb(10_240), GZIP)), "dead bomb"),
    Case(
        "H31 br",
        "brotli that becomes 64 GiB",
        once(page(brotli_bomb(65_536), ("Content-Encoding", "br"))),
        "dead bomb",
    ),
    Case(
        "H31 deflate",
        "deflate that becomes 10 GB",
        once(page(deflate_bomb(10_240), ("Content-Encoding", "deflate"))),
        "dead bomb",
    ),
    Case(
        "H31 zstd",
        "zstd that becomes 10 GB",
        once(page(zstd_bomb(10_240), ("Content-Encoding", "zstd"))),
        "dead bomb",
    ),
    Case(
        "H31 window",
        "zstd that wants a window of 128 MiB",
        once(page(zstd_window(), ("Content-Encoding", "zstd"))),
        "dead bomb",
    ),
    Case(
        "H32 fifty",
        "50 encodings on top of one another",
        once(page(layered(b"x", 5), ("Content-Encoding", ", ".join(["gzip"] * 50)))),
        "dead bomb",
    ),
    Case(
        "H32 identity",
        "identity, gzip",
        once(page(layered(b"<title>x</title>", 1), ("Content-Encoding", "identity, gzip"))),
        "done",
    ),
    Case("H32 unknown", "an unknown encoding", once(page("x", ("Content-Encoding", "sdch"))), "done"),
    Case(
        "H33 truncated",
        "gzip that ends early",
        once(page(layered(bytes(range(256)) * 9, 1)[:-20], GZIP)),
        "dead truncated|dead decode",
    ),
    Case(
        "H33 checksum",
        "gzip with a wrong checksum",
        once(page(layered(b"x", 1)[:-8] + bytes(8), GZIP)),
        "dead decode",
    ),
    Case(
        "H33 trailing",
        "gzip with 8 MiB of junk behind it",
        once(page(layered(b"<title>x</title>", 1) + b"j" * 8 * MIB, GZIP)),
        "done",
    ),
    Case(
        "H33 more trailing",
        "gzip with 100 MiB of junk behind it",
        pouring(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + layered(b"x", 1), b"j" * 65536, 1600),
        "dead too_large",
        check=sent_at_most(16 * MIB),
        slow=True,
    ),
    Case(
        "H33 members",
        "750,000 gzip members, as many as fit",
        once(page(layered(b"x", 1) * 750_000, GZIP)),
        "dead decode|dead bomb",
        slow=True,
    ),
    Case(
        "H33 more members",
        "1,000,000 gzip members",
        pouring(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", layered(b"x", 1) * 10_000, 100),
        "dead too_large",
        check=sent_at_most(16 * MIB),
        slow=True,
    ),
    Case("H34 404", "a bomb in a 404", once(page(gzip_bomb(1024), GZIP, status=404)), "dead bomb"),
    Case(
        "H34 302",
        "a bomb in a redirect",
        once(page(gzip_bomb(1024), GZIP, ("Location", "/x"), status=302)),
        "dead bomb",
    ),
    Case(
        "H34 drain",
        "a bomb behind the announcement of 1 GB",
        pouring(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1000000000\r\n\r\n",
            gzip_bomb(64),
            4000,
        ),
        "dead too_large",
        check=sent_at_most(64 * 1024),
    ),
    Case(
        "H36 frames",
        "HTTP/2 frames in answer to HTTP/1.1",
        once(b"\0\0\x12\x04\0\0\0\0\0" * 100),
        "dead protocol",
    ),
    Case(
        "H36 offer",
        "a server that wants HTTP/2",
        which_protocol,
        "done",
        bind="127.0.0.1",
        tls=only_http_2,
        check=not_http_2,
    ),
    Case(
        "H38 unasked",
        "a partial response to a request without a range",
        once(page("x", ("Content-Range", "bytes 0-0/2"), status=206)),
        "dead truncated",
    ),
    Case(
        "H38 whole",
        "206 with the whole page to a request without a range",
        once(page("x", ("Content-Range", "bytes 0-0/1"), status=206)),
        "done",
    ),
    Case(
        "H38 parts",
        "10,000 parts in one body",
        once(
            page(
                "--x\r\n\r\n<a href='/y'>x</a>\r\n" * 10_000,
                ("Content-Type", "multipart/byteranges; boundary=x"),
            )
        ),
        "done",
        check=unparsed,
    ),
    Case(
        "H39",
        "a body that breaks off, and is another one the next time",
        Changing(),
        "done",
        check=never_spliced,
    ),
]
