"""Exits: proxies that refuse, mislead, stall, cut or want more than they may know; and TLS behind a good one."""

import asyncio
import re
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from tests.hostile import tls
from tests.hostile.case import Case, Evidence, HostileExit, page, redirect, site
from tests.hostile.network import accept_only, reset
from tests.site.raw import Handler, Peer, answer

GOOD = site({"*": page("<title>behind an exit</title>")})
SOCKS = "socks5://{user}:{password}@{exit}"
HERE = "IP:127.0.0.1"


def says(reply: bytes, *, after: int = 1) -> Handler:
    """Send a reply after some bytes of a request, and nothing more."""

    async def handler(peer: Peer) -> None:
        await peer.reader.readexactly(after)
        await peer.send(reply)
        await peer.hang()

    return handler


def refuses(status: int, *headers: tuple[str, str]) -> Handler:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(b"<title>refused</title>", status=status, headers=headers))

    return handler


def forwards(*, cut_after: int = 1 << 40, address: Callable[[], str] | None = None) -> Handler:
    """Do what a proxy has to do, for at most so many bytes of a response.

    `address` returns the one that a connection comes from.
    """

    async def handler(peer: Peer) -> None:
        method, target = (await peer.request()).decode().split(" ", 2)[:2]
        if method != "CONNECT":  # about the proxy itself
            await peer.send(answer(b"", status=400))
            return
        host, _, port = target.rpartition(":")
        reader, writer = await asyncio.open_connection(
            host, int(port), local_addr=None if address is None else (address(), 0)
        )
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")

        async def up() -> None:
            try:
                while data := await peer.reader.read(65536):
                    writer.write(data)
                    await writer.drain()
            except OSError:
                pass
            finally:
                writer.close()

        sending = asyncio.create_task(up())
        left = cut_after
        try:
            while left > 0 and (data := await reader.read(min(left, 65536))):
                await peer.send(data)
                left -= len(data)
        finally:
            sending.cancel()
            writer.close()

    return handler


async def pretends(peer: Peer) -> None:
    """Open a tunnel, and answer what comes through it with a page."""
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
    await peer.reader.read(1)
    await peer.send(page("<title>not the site</title>"))


async def drips(peer: Peer) -> None:
    await peer.request()
    for byte in b"HTTP/1.1 200 OK\r\n" * 100:
        await peer.send(bytes([byte]))
        await asyncio.sleep(0.5)


async def asks_again(peer: Peer) -> None:
    """Accept a user name and a password, and want them again, without limit."""
    await peer.reader.readexactly(2)
    with suppress(asyncio.IncompleteReadError):
        while True:
            await peer.send(b"\x05\x02")
            await peer.reader.read(1024)


def credentials(requests: list[bytes]) -> set[str]:
    """Return the user names and passwords in requests to a proxy."""
    found = re.findall(rb"(?i)proxy-authorization: basic (\S+)", b"".join(requests))
    return {b64decode(one).decode() for one in found}


def was_asked(evidence: Evidence) -> None:
    """The exit was tried; each exit has seen one login, no two the same, and the site no trace of a proxy."""
    assert all(exit.connections for exit in evidence.exits), "an exit was never asked"
    seen = [credentials(exit.requests) for exit in evidence.exits]
    assert all(len(logins) <= 1 for logins in seen), seen
    assert len(set().union(*seen)) == sum(map(len, seen)), f"one login at two exits: {seen}"
    heads = b"".join(evidence.server.requests).lower()
    assert b"proxy" not in heads, heads[:500]
    assert b"hunter2-" not in heads
    assert b64_of_secret() not in b"".join(evidence.server.requests)


def b64_of_secret() -> bytes:
    return b"aHVudGVyMi"  # hunter2-, at the start of a Base64 text


def never_told(evidence: Evidence) -> None:
    assert all(exit.connections for exit in evidence.exits)
    assert not any(exit.requests for exit in evidence.exits), "it was given a login"


def has_login(*expected: str) -> Callable[[Evidence], None]:
    def check(evidence: Evidence) -> None:
        was_asked(evidence)
        assert [credentials(exit.requests) for exit in evidence.exits] == [{one} for one in expected]

    return check


def asked_only_for(evidence: Evidence) -> None:
    """The exits of a host are asked for this host alone, whatever redirected there."""
    was_asked(evidence)
    targets = {one.split(b" ")[1].decode() for exit in evidence.exits for one in exit.requests} - {"*"}
    assert targets == {f"{evidence.server.host}:{evidence.server.port}"}, targets


def case(
    id: str, what: str, serve: Handler, *, line: str = "", ends: str = "done", slow: bool = False
) -> Case:
    """Return a case whose page comes through the good exit, after its own one has failed."""
    exit = HostileExit(serve, line) if line else HostileExit(serve)
    return Case(id, what, GOOD, ends, exits=(exit,), check=was_asked, slow=slow)


CASES = [
    case("X02 407", "an exit that refuses the password: 407", refuses(407, ("Proxy-Authenticate", "Basic"))),
    case("X02 502", "an exit that answers 502 to CONNECT", refuses(502)),
    case("X02 503", "an exit that answers 503 to CONNECT", refuses(503)),
    case("X02 redirect", "an exit that redirects CONNECT", refuses(302, ("Location", "http://0.0.0.0/"))),
    case("X02 early", "an exit that sends data before the request", says(b"HTTP/1.1 200 OK\r\n\r\nearly")),
    case("X02 endless", "an exit whose answer has no end", says(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000)),
    case("X02 gone", "an exit that resets every connection", reset),
    case("X02 silent", "an exit that accepts and stays silent", accept_only, slow=True),
    case("X02 drip", "an exit that sends a byte each half second", drips, slow=True),
    Case("X02 own 407", "a site that answers 407 itself", page(status=407), "dead http_error"),
    Case("X02 own 502", "a site that answers 502 itself", page(status=502), "dead target_error"),
    Case(
        "X06 first",
        "a redirect to a host with other exits",
        site({"/": redirect("http://{at X06 second}/landed"), "*": page()}),
        "done",
        exits=(HostileExit(forwards()),),
        alone=True,
        check=asked_only_for,
    ),
    Case(
        "X06 second",
        "a redirect to a host with other exits",
        GOOD,
        {"http://{at}/landed": "done"},
        seeds=("http://{at X06 second}/landed",),
        exits=(HostileExit(forwards()),),
        alone=True,
        check=asked_only_for,
    ),
    Case(
        "X07",
        "a retry through another exit",
        GOOD,
        "done",
        exits=(HostileExit(refuses(407)), HostileExit(refuses(403)), HostileExit(forwards())),
        alone=True,
        check=was_asked,
    ),
    Case(
        "X08",
        "a site that records what reaches it",
        GOOD,
        "done",
        exits=(HostileExit(forwards()),),
        alone=True,
        check=was_asked,
    ),
    Case(
        "X09",
        "an exit over TLS whose certificate no authority has signed",
        GOOD,
        "done",
        exits=(HostileExit(forwards(), "https://{user}:{password}@{exit}", lambda ca: ca.self_signed()),),
        check=never_told,
    ),
    case("X10 version", "an exit that speaks SOCKS4", says(b"\x04\x5a\0\0\0\0\0\0"), line=SOCKS),
    case("X10 login", "an exit that asks for the password again and again", asks_again, line=SOCKS),
    case(
        "X10 name",
        "an exit that announces a name of 255 bytes",
        says(b"\x05\x00\x05\x00\x00\x03\xff" + b"x" * 40),
        line=SOCKS,
        slow=True,
    ),
    case(
        "X10 type",
        "an exit with an unknown address type",
        says(b"\x05\x00\x05\x00\x00\x09\0\0\0\0\0\0"),
        line=SOCKS,
    ),
    Case(
        "X11",
        "a user name and a password with special characters",
        GOOD,
        "done",
        exits=(HostileExit(forwards(), "http://us%40er:p%3A%2F%25%20hunter2@{exit}"),),
        alone=True,
        check=has_login("us@er:p:/% hunter2"),
    ),
    Case(
        "X12 cut",
        "an exit that cuts a body",
        GOOD,
        "dead truncated",
        exits=(HostileExit(forwards(cut_after=90)),),
        alone=True,
        check=was_asked,
    ),
    Case(
        "X12 foreign",
        "an exit that answers a TLS handshake with a page",
        GOOD,
        "done",
        bind="127.0.0.1",
        tls=lambda ca: ca.server(HERE),
        exits=(HostileExit(pretends),),
    ),
    *(replace(one, id=f"{one.id} through an exit") for one in tls.CASES),
]
