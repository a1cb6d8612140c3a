"""A network namespace in which every address is this machine, and a record of all that is sent in it.

A thread enters the namespace and runs the work of a test there; programs that it starts are in it, too. Nothing
that they send leaves the machine: `ip route add local default dev lo` delivers every packet here.
"""

import asyncio
import ctypes
import os
import socket
import struct
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar, cast

from tests.needs import missing
from tests.servers.process import program

CLONE_NEWNET = 0x40000000
ETH_P_ALL, ETH_P_IP, ETH_P_IPV6 = 0x0003, 0x0800, 0x86DD
HOP_BY_HOP, ICMP, TCP, UDP, ICMPV6 = 0, 1, 6, 17, 58
SYN, ACK = 0x02, 0x10
SET_UP = (
    "link set lo up",
    # WebRTC sends nothing where there is only a loopback interface.
    "link add outside type veth peer beyond",
    "link set beyond up",
    "addr add 198.51.100.1/24 dev outside",
    "link set outside up",
    "route add local default dev lo",
    "-6 route add local default dev lo",
)

Result = TypeVar("Result")
libc = ctypes.CDLL(None, use_errno=True)


def in_private_network(work: Callable[[], Awaitable[Result]]) -> Result:
    """Run a coroutine in a thread that has a private network; return what it returns."""
    ip = program("ip", "iproute2")

    def run() -> Result:
        if libc.unshare(CLONE_NEWNET) != 0:
            missing(f"no network namespace can be made: {os.strerror(ctypes.get_errno())}")
        for command in SET_UP:
            subprocess.run([ip, *command.split()], check=True)
        return asyncio.run(_awaited(work))

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


async def _awaited(work: Callable[[], Awaitable[Result]]) -> Result:
    return await work()


class Packets:
    """What was sent: protocol, address and port, each as often as it was."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw
        self.sent: list[tuple[str, str, int]] = []

    def read(self) -> None:
        """Take the packets that have come so far."""
        try:
            while True:
                data, (_, kind, direction, *_) = self._raw.recvfrom(65_536)
                if direction == socket.PACKET_OUTGOING and (found := addressed(kind, data)) is not None:
                    self.sent.append(found)
        except BlockingIOError:
            return


def addressed(kind: int, data: bytes) -> tuple[str, str, int] | None:
    """Return where a packet goes; None: it belongs to a connection that exists, or refuses one."""
    if kind == ETH_P_IP:
        protocol, address, rest = (
            data[9],
            socket.inet_ntop(socket.AF_INET, data[16:20]),
            data[(data[0] & 15) * 4 :],
        )
    elif kind == ETH_P_IPV6:
        protocol, address, rest = data[6], socket.inet_ntop(socket.AF_INET6, data[24:40]), data[40:]
        if protocol == HOP_BY_HOP:  # the kernel announces its own addresses so
            protocol, rest = rest[0], rest[8 * (1 + rest[1]) :]
    else:
        return f"ethernet {kind:#x}", "", 0
    if protocol == TCP:
        port, flags = struct.unpack_from("!H", rest, 2)[0], rest[13]
        return ("tcp", address, port) if flags & (SYN | ACK) == SYN else None
    if protocol == UDP:
        return "udp", address, struct.unpack_from("!H", rest, 2)[0]
    return None if protocol in (ICMP, ICMPV6) else (f"protocol {protocol}", address, 0)


@contextmanager
def recording(network_of: int | None = None) -> Iterator[Packets]:
    """Record what is sent in this thread's network, or in that of a process."""
    if network_of is None:
        raw = _raw_socket()
    else:
        with ThreadPoolExecutor(1) as thread:
            raw = thread.submit(_raw_socket_of, network_of).result()
    with raw:
        yield Packets(raw)


def _raw_socket() -> socket.socket:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    raw.setblocking(False)
    return raw


def _raw_socket_of(pid: int) -> socket.socket:
    with Path(f"/proc/{pid}/ns/net").open() as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
            missing(f"the network of a process cannot be entered: {os.strerror(ctypes.get_errno())}")
    return _raw_socket()


class _Queries(asyncio.DatagramProtocol):
    def __init__(self, asked: list[str], address: str) -> None:
        self._asked, self._address = asked, address

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, source: tuple[str, int]) -> None:
        end = data.index(b"\0", 12)
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode("latin-1").lower())
            at += 1 + data[at]
        self._asked.append(".".join(labels))
        found = b""
        if struct.unpack_from("!H", data, end + 1)[0] == 1:
            found = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(self._address)
        head = data[:2] + struct.pack("!HHHHH", 0x8180, 1, bool(found), 0, 0)
        self._transport.sendto(head + data[12 : end + 5] + found, source)


@asynccontextmanager
async def answering_all_names(address: str) -> AsyncIterator[list[str]]:
    """Answer every name of every name server with one address; yields the names that were asked for."""
    asked: list[str] = []
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Queries(asked, address), ("0.0.0.0", 53))
    try:
        yield asked
    finally:
        transport.close()
