"""Attacks that no list has: interim answers, smuggled headers, cookies for others, disguised names, terminal codes."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from tests.hostile.case import Case, Evidence, Route, Several, links, once, page, redirect, site
from tests.hostile.http import pouring, raw, requests_at_most, sent_at_most, to_host
from tests.hostile.robots import PRIVATE, TWO, says, with_rules
from tests.hostile.sitemaps import ITSELF, LISTED, listed, served
from tests.site.bombs import layered
from tests.site.raw import Handler, Peer, answer

MIB = 1 << 20
OK = "HTTP/1.1 200 OK"


def status_line(line: str) -> bytes:
    return f"{line}\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok".encode("latin-1")


STATUS_LINES = {
    "0.9": "<html>hello",
    "letters": "HTTP/1.1 20O OK",
    "minus": "HTTP/1.1 -200 OK",
    "five digits": "HTTP/1.1 20000 OK",
    "zero": "HTTP/1.1 000 OK",
    "version": "HTTP/9.9 200 OK",
}

SLOPPY = {
    "space": "Content-Length : 2",
    "folded": "X: a\r\n Content-Length: 2",
    "bare line feed": "X: a\nContent-Length: 2",
    "bare return": "X: a\rContent-Length: 2",
    "no name": ": value\r\nContent-Length: 2",
}

SMUGGLED = {
    "NUL": "X: a\0b\r\nContent-Length: 2",
    "list": "Content-Length: 2, 3",
    "chunks twice": "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "almost chunks": "Transfer-Encoding: xchunked",
    "hidden chunks": "Transfer-Encoding: \x0bchunked",
    "chunks and more": "Transfer-Encoding: chunked, gzip",
}


def sloppy(line: str) -> Handler:
    """Answer every request of a connection with a response that two parsers would read in two ways."""
    response = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{line}\r\n\r\nok".encode("latin-1")

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(response + page("<title>planted</title>"))
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await peer.request()  # the client must not come back on this connection

    return handler


def one_request_each(evidence: Evidence) -> None:
    assert evidence.server.connections >= len(evidence.server.requests) >= 2


COOKIES = {
    "nameless": "=value",
    "endless": "a=b; Max-Age=" + "9" * 1000,
    "past": "a=b; Max-Age=-" + "9" * 1000,
    "date": "a=b; Expires=Fri, 99 Foo 99999 99:99:99 GMT",
    "attributes": "a=b" + "; x" * 2000,
    "path": "a=b; Path=" + "/x" * 2000,
    "prefix": "__Host-a=b; Domain=test; Path=/x",
    "bytes": "a=\x80\xff\xfe",
}

NAMES = {
    "punycode": "http://xn--a-ecp.test\xad/",
    "empty punycode": "http://xn--/",
    "long label": f"http://{'a' * 64}.test/",
    "long name": f"http://{'a.' * 200}test/",
    "empty label": "http://a..test/",
    "zone": "http://[fe80::1%25lo]/",
    "zone of loopback": "http://[::1%25lo]:{canary}/",
    "hex": "http://0x0.0x0.0x0.0x0g:{canary}/",
    "percent": "http://%30.0.0.0%00:{canary}/",
}

DISGUISES = {
    "wide digits": "http://０.０.０.０:{canary}/",
    "other dots": "http://0。0。0。0:{canary}/",
    "circled": "http://⓪.⓪.⓪.⓪:{canary}/",
    "percent": "http://%30.0.0.0:{canary}/",
    "octal": "http://00.00.00.00:{canary}/",
    "hex": "http://0x0:{canary}/",
    "last dot": "http://0.0.0.0.:{canary}/",
}

BASES = ("data:text/html,x", "ftp://elsewhere.test/", "file:///etc/", "http://", "mailto:a@b", "blob:x")


def never_injected(evidence: Evidence) -> None:
    for request in evidence.server.requests:
        assert b"\r\ninjected" not in request.lower(), request


def no_request_is_authorized(evidence: Evidence) -> None:
    assert all(b"authorization:" not in request.lower() for request in evidence.server.requests[1:])
    assert "password" not in str(evidence.items)


def each_once(*paths: str) -> Callable[[Evidence], None]:
    def check(evidence: Evidence) -> None:
        assert sorted(evidence.server.paths()) == sorted(paths), evidence.server.paths()

    return check


def no_cookie_but(*kept: bytes) -> Callable[[Evidence], None]:
    def check(evidence: Evidence) -> None:
        [later] = [request for request in evidence.server.requests if b" /second " in request]
        sent = [line for line in later.split(b"\r\n") if line.lower().startswith(b"cookie:")]
        assert all(any(one in line for one in kept) for line in sent), sent

    return check


def with_cookie(value: str) -> dict[str, Route]:
    return {"/": page('<a href="/second">x</a>', ("Set-Cookie", value)), "/second": page()}


def spelled(peer: Peer, request: bytes) -> bytes:
    """One page, in a thousand spellings."""
    at = request.lower().split(b"\r\nhost: ")[1].split(b"\r")[0].decode()
    return links(
        *(f"/same#{n}" for n in range(300)),
        *(f"/{'x/../' * n}same" for n in range(1, 300)),
        *(f"{'./' * n}same" for n in range(300)),
        f"HTTP://{at.upper()}/same",
        f"http://user:word@{at}/same",
        f"//{at}/same",
    )


async def early_hints(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 103 Early Hints\r\nSet-Cookie: early=1\r\nLink: </x>\r\n\r\n")
    await peer.send(page("<title>late</title>"))


async def too_short(peer: Peer) -> None:
    """Announce more than comes, and keep the connection."""
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok")
    await peer.hang()


async def crumbs(peer: Peer) -> None:
    """Send a body in chunks of one byte with an extension each, without end."""
    await peer.request()
    await peer.send(f"{OK}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    while True:
        await peer.send((b"1;" + b"x" * 1000 + b"\r\na\r\n") * 64)
        await asyncio.sleep(0)


CASES = [
    Case(
        "M01 flood",
        "interim answers without end",
        pouring(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, 100_000),
        "dead too_large",
        check=sent_at_most(64 * 1024),
    ),
    Case("M01 hints", "early hints with a cookie, then the page", early_hints, "done"),
    Case(
        "M01 upgrade",
        "another protocol that was not requested",
        once(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n\0\0\0"),
        "dead protocol",
    ),
    *(
        Case(
            f"M02 {name}",
            "an invalid status line",
            once(status_line(line)),
            "dead protocol",
        )
        for name, line in STATUS_LINES.items()
    ),
    *(
        Case(
            f"M03 {name}",
            "a header that two parsers would read in two ways",
            raw(line),
            "dead protocol|dead truncated",
        )
        for name, line in SMUGGLED.items()
    ),
    *(
        Case(
            f"M03 {name}",
            "a header that is read as browsers do, on a connection that ends with it",
            sloppy(line),
            {"http://{at}/": "done", "http://{at}/second": "done"},
            seeds=["http://{at}/", "http://{at}/second"],
            check=one_request_each,
        )
        for name, line in SLOPPY.items()
    ),
    Case(
        "M04 crumbs",
        "chunks of one byte with an extension each, without end",
        crumbs,
        "dead protocol|dead too_large",
        check=sent_at_most(MIB),
    ),
    Case(
        "M04 trailers",
        "a cookie and a place in the trailers",
        site(
            {
                "/": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"17\r\n<a href='/second'>x</a>\r\n0\r\n"
                b"Set-Cookie: trailer=1\r\nLocation: /x\r\nContent-Type: text/plain\r\n\r\n",
                "/second": page(),
            }
        ),
        {"http://{at}/": "done", "http://{at}/second": "done"},
        check=no_cookie_but(),
    ),
    Case("M04 short", "less than was announced, then no more data", too_short, "dead timeout|dead truncated"),
    Case(
        "M05 location",
        "line breaks in a redirect, spelled and raw",
        site(
            {
                "/": redirect("/next%0d%0aInjected:%20yes"),
                "/next%0d%0aInjected:%20yes": redirect("/last\tInjected: yes"),
                "*": page(),
            }
        ),
        {"http://{at}/": "done", "http://{at}/next%0d%0aInjected:%20yes": "done"},
        check=never_injected,
    ),
    Case(
        "M05 link",
        "line breaks in a link",
        site({"/": links("/x&#13;&#10;Injected: yes", "/y%0d%0aInjected:%20yes"), "*": page()}),
        "done",
        check=never_injected,
    ),
    Case(
        "M06",
        "names and passwords in links and redirects",
        site(
            {
                "/": lambda peer, request: links(
                    f"http://user:password@{':'.join(map(str, peer.writer.get_extra_info('sockname')))}/a"
                ),
                "/a": lambda peer, request: redirect(
                    f"http://user:password@{':'.join(map(str, peer.writer.get_extra_info('sockname')))}/b"
                ),
                "*": page(),
            }
        ),
        {"http://{at}/": "done", "http://{at}/a": "dead refused", "http://{at}/b": "nowhere"},
    ),
    Case(
        "M07 cycle",
        "sitemaps that list one another and themselves",
        site(
            {
                **served(
                    listed(
                        "<sitemapindex><sitemap><loc>http://HERE/sitemap.xml</loc></sitemap>"
                        "<sitemap><loc>http://HERE/two.xml</loc></sitemap></sitemapindex>"
                    )
                ),
                "/two.xml": listed(
                    "<sitemapindex><sitemap><loc>http://HERE/sitemap.xml</loc></sitemap>"
                    "<sitemap><loc>http://HERE/two.xml#again</loc></sitemap></sitemapindex>"
                ),
            }
        ),
        {LISTED: "done", ITSELF: "done", "http://{at}/two.xml": "done"},
        check=each_once("/ask/sitemap", "/sitemap.xml", "/two.xml"),
    ),
    Case(
        "M08",
        "bases that lead out of the web",
        site(
            {
                "/": page("".join(f'<base href="{base}">' for base in BASES) + '<a href="leaf">x</a>'),
                "*": page(),
            }
        ),
        {"http://{at}/": "done"},
        check=requests_at_most(2),
    ),
    *(
        Case(
            f"M10 {name}",
            "a link to an invalid name",
            site({"/": links(url)}),
            "done",
            check=requests_at_most(1),
        )
        for name, url in NAMES.items()
    ),
    *(
        Case(
            f"M11 {name}", f"an address in disguise: {url.partition(':{')[0]}", page(), {url: "dead refused"}
        )
        for name, url in DISGUISES.items()
    ),
    *(
        Case(
            f"M12 {name}",
            "a cookie that makes no sense",
            site(with_cookie(value)),
            {"http://{at}/": "done", "http://{at}/second": "done"},
        )
        for name, value in COOKIES.items()
    ),
    Case(
        "M12 others",
        "a cookie for everybody below test",
        site(
            {"/": to_host("a.wild.test", "/second", ("Set-Cookie", "all=1; Domain=test")), "/second": page()}
        ),
        {"http://named.test:{port}/": "done", "http://a.wild.test:{port}/second": "done"},
        bind="127.0.0.1",
        check=no_cookie_but(),
    ),
    Case(
        "M13 lines",
        "more encodings than two, spread over lines",
        once(page(layered(b"x", 3), *(("Content-Encoding", "gzip"),) * 3)),
        "dead bomb",
    ),
    Case(
        "M14 reason",
        "a status that clears the screen",
        once(b"HTTP/1.1 500 \x1b[2J\x1b]0;owned\x07\r\nContent-Length: 0\r\n\r\n"),
        "dead target_error|dead protocol",
    ),
    Case(
        "M14 title",
        "a title and an address that rewrite the terminal",
        site(
            {
                "/": page('<title>\x1b[2J\u202e</title><a href="/%1b[2J\u202e">x</a>'),
                "*": page("", status=400),
            }
        ),
        "done",
    ),
    Case(
        "M15",
        "a validator of 60 KB",
        once(page("<title>x</title>", ("ETag", '"' + "x" * 60_000 + '"'))),
        "done",
    ),
    Case(
        "M16",
        "one page in a thousand spellings",
        site({"/": spelled, "*": page()}),
        {"http://{at}/": "done", "http://{at}/same": "done"},
        check=each_once("/", "/same"),
    ),
    Case(
        "M17",
        "a redirect to a part of itself",
        once(redirect("#part")),
        "dead redirect",
    ),
]

PAGES = [
    Case(
        "M09 links",
        "1,000,000 links on one page",
        site({"/": page("".join(f"<a href=/{n}>" for n in range(1_000_000)))}),
        "done|dead poison|dead parse_error",
    ),
    Case(
        "M09 srcset",
        "pictures in 500,000 sizes",
        once(page(f'<title>x</title><img srcset="{"/x 1x," * 500_000}">')),
        "done",
        check=requests_at_most(1),
    ),
    Case(
        "M09 attributes",
        "an element with 1,000,000 attributes",
        once(page("<title>x</title><a " + " ".join(f"a{n}=1" for n in range(1_000_000)) + ">")),
        "done|dead poison",
        slow=True,
    ),
    Case(
        "M09 refresh",
        "100,000 refreshes on one page",
        site({"/": page("".join(f'<meta http-equiv=refresh content="0;url=/{n}">' for n in range(100_000)))}),
        "done",
        check=requests_at_most(100),
    ),
]

ROBOTS = [
    Case(
        "M20 canary",
        "robots.txt redirects to a forbidden address",
        site({"/robots.txt": redirect("http://0.0.0.0:{canary}/robots.txt"), "*": page()}),
        "done|dead target_error|dead refused",
    ),
    Case(
        "M20 loop",
        "robots.txt redirects to itself",
        site({"/robots.txt": redirect("/robots.txt"), "*": page()}),
        "done|dead target_error",
    ),
    Case(
        "M20 marks",
        "two byte order marks before the rules",
        site(with_rules(b"\xef\xbb\xbf" * 2 + PRIVATE.encode())),
        {"http://{at}/": "done", "http://{at}/private": "filtered robots|done"},
    ),
    Case(
        "M20 wide",
        "rules in UTF-16",
        site(with_rules(PRIVATE.encode("utf-16"))),
        {"http://{at}/": "done", "http://{at}/private": "filtered robots|done"},
    ),
    Case(
        "M20 delay",
        "a Crawl-delay of a million years",
        site(with_rules(PRIVATE + "Crawl-delay: 99999999999999\nCrawl-delay: nan\nCrawl-delay: -1\n")),
        TWO,
    ),
    Case(
        "M20 forbidden sitemap",
        "a sitemap at a forbidden address",
        site(with_rules(PRIVATE + "Sitemap: http://0.0.0.0:{canary}/\nSitemap: file:///etc/passwd\n")),
        TWO,
    ),
    Case(
        "M20 late",
        "robots.txt that changes to everything is forbidden",
        site(
            {
                "/robots.txt": Several([answer(b"", status=503), says(PRIVATE)]),
                "/": links("/private"),
                "*": page(),
            }
        ),
        TWO,
    ),
]
