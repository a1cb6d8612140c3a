"""The bytes of a connection on the wire, TLS and handshakes included: what an exit bills.

The kernel counts them.
"""

import asyncio
import socket
import struct

_BYTES_AT = 120  # in tcp_info: bytes acknowledged by the peer, then bytes received
_BYTES = struct.Struct("=QQ")


def wire_bytes(transport: asyncio.BaseTransport) -> int:
    """Return the bytes in both directions so far; 0 if it is closed, or the kernel does not count."""
    sock = transport.get_extra_info("socket")
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_AT + _BYTES.size)
        acknowledged, received = _BYTES.unpack_from(info, _BYTES_AT)
        return max(int(acknowledged) + int(received) - 1, 0)  # SYN counts as a byte
    except (AttributeError, OSError, ValueError, struct.error):  # uvloop raises ValueError after closing
        return 0
