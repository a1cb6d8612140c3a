"""Sockets: peers that stall, vanish, talk out of turn or never stop; names that do not resolve."""

import asyncio

from tests.hostile.case import Case, Evidence, links, page, site
from tests.site.raw import Handler, Peer, swallowing_server

MIB = 1 << 20
CROWD = {f"http://127.8.{n // 250}.{1 + n % 250}:{{port}}/": "dead timeout" for n in range(5000)}


async def accept_only(peer: Peer) -> None:
    await peer.hang()


async def reset(peer: Peer) -> None:
    peer.reset()


async def half(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 500)
    await asyncio.sleep(0.05)
    peer.reset()


def drip(prefix: bytes, every: float) -> Handler:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(prefix)
        while True:
            await peer.send(b"x")
            await asyncio.sleep(every)

    return handler


async def endless(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
    await peer.send_for_ever(b"x" * 65536)


async def forgetful(peer: Peer) -> None:
    """Keep the connection, then close it just as it is used again."""
    await peer.request()
    await peer.send(links("/second"))
    await peer.request()


def one_connection_forgets() -> Handler:
    connections = 0

    async def handler(peer: Peer) -> None:
        nonlocal connections
        connections += 1
        await (forgetful(peer) if connections == 1 else site({"*": page("<title>second</title>")})(peer))

    return handler


async def talkative(peer: Peer) -> None:
    while True:
        request = await peer.request()
        if b" / " in request:
            await peer.send(links("/second") + page("<title>not requested</title>"))
        else:
            await peer.send(page("<title>asked</title>"))


def never_drained(evidence: Evidence) -> None:
    # The limit is 16 MiB; what a busy kernel buffers comes on top.
    assert evidence.server.sent < 64 * MIB, "read on after the limit"


def asked_again_at_no_charge(evidence: Evidence) -> None:
    assert evidence.server.connections == 2, evidence.server.connections


def only_what_was_asked_for(evidence: Evidence) -> None:
    titles = [item.get("title") for item in evidence.items]
    assert "not requested" not in titles, titles
    assert "asked" in titles, titles


def one_slot(evidence: Evidence) -> None:
    assert evidence.server.connections <= 3


def not_stored(evidence: Evidence) -> None:
    assert not evidence.items


def within_the_cap(evidence: Evidence) -> None:
    assert evidence.server.most <= 1000, evidence.server.most


DNS = {
    "nxdomain": "a name that does not exist",
    "servfail": "a name server that fails",
    "empty": "a name without an address",
    "huge": "an answer of 65,000 bytes",
    "loop": "a name that is an alias of itself",
}

CASES = [
    Case(
        "N02",
        "packets swallowed while connecting",
        page(),
        "dead timeout",
        reason="connect",
        opened=lambda _: swallowing_server(),
        slow=True,
    ),
    Case("N03", "accepts and never answers", accept_only, "dead timeout", reason="first byte"),
    Case("N04", "resets every connection at once", reset, "dead connect"),
    Case("N06", "resets after half of the body", half, "dead truncated", check=not_stored),
    Case(
        "N08",
        "headers at one byte a second",
        drip(b"HTTP/1.1 200 OK\r\nX: ", 1.0),
        "dead timeout",
        check=one_slot,
        slow=True,
    ),
    Case(
        "N09",
        "a body that drips just faster than the idle time-out",
        drip(b"HTTP/1.1 200 OK\r\n\r\n", 0.5),
        "dead timeout",
        reason="slow",
        slow=True,
    ),
    Case("N10", "an endless fast body", endless, "dead too_large", check=never_drained),
    Case(
        "N14",
        "a kept connection that is closed as it is used again",
        one_connection_forgets(),
        {"http://{at}/": "done", "http://{at}/second": "done"},
        check=asked_again_at_no_charge,
    ),
    Case(
        "N15",
        "a second answer that was not requested",
        talkative,
        {"http://{at}/": "done", "http://{at}/second": "done"},
        check=only_what_was_asked_for,
    ),
    *(
        Case(f"N11 {name}", what, page(), {f"http://{name}.test:{{port}}/": "dead dns"})
        for name, what in DNS.items()
    ),
]

CROWDED = [
    Case(
        "N16",
        "5,000 hosts that never answer, where 1,000 requests may be out at once",
        accept_only,
        CROWD,
        seeds=tuple(CROWD),
        bind="0.0.0.0",
        check=within_the_cap,
        slow=True,
    ),
]
