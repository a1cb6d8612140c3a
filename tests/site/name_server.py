"""A small DNS server over UDP that gives false answers, no answers, and different answers each time."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

A, CNAME = 1, 5
SERVFAIL, NXDOMAIN = 2, 3

Zone = Callable[[str], "int | list[str]"]
"""Answers a name: a code, or addresses."""


class NameServer(asyncio.DatagramProtocol):
    def __init__(self, zone: Zone) -> None:
        self._zone = zone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        end = data.index(b"\0", 12)
        raw, kind = data[12 : end + 1], struct.unpack_from("!H", data, end + 1)[0]
        name = _text(raw)
        if kind != A:
            answer: int | list[str] = [] if name != "nxdomain.test" else NXDOMAIN
        else:
            answer = self._zone(name)
        if name == "loop.test":
            records = [_record(raw, CNAME, raw)]
        elif name == "huge.test":
            records = [_record(raw, 16, b"\xff" * 255)] * 240
        else:
            records = (
                [_record(raw, A, socket.inet_aton(ip)) for ip in answer] if isinstance(answer, list) else []
            )
        code = answer if isinstance(answer, int) else 0
        head = data[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, len(records), 0, 0)
        self._transport.sendto(head + data[12 : end + 5] + b"".join(records), address)


def _text(raw: bytes) -> str:
    labels, at = [], 0
    while raw[at]:
        labels.append(raw[at + 1 : at + 1 + raw[at]].decode("latin-1").lower())
        at += 1 + raw[at]
    return ".".join(labels)


def _record(name: bytes, kind: int, data: bytes) -> bytes:
    return name + struct.pack("!HHIH", kind, 1, 0, len(data)) + data  # TTL 0: ask again each time


@asynccontextmanager
async def name_server(zone: Zone) -> AsyncIterator[str]:
    """Run a server; gives its address and port, as resolvers like it."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: NameServer(zone), ("127.0.0.1", 0))
    try:
        yield f"127.0.0.1:{transport.get_extra_info('sockname')[1]}"
    finally:
        transport.close()
