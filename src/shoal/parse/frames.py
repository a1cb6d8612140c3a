"""The frame format of messages between the pool, its fork server and the children.

A header of four numbers, then the payload. The token is random and known to the two ends only, so that bytes
which user code writes to all its file descriptors are not taken for an answer. Frames from a process that
runs user code also have a checksum, because such bytes may land in the middle of one.
"""

import socket
import struct
from enum import IntEnum
from zlib import crc32

HEADER = struct.Struct("<IIII")  # token, kind, payload bytes, checksum
TOKENS = 1 << 32
_FD = struct.Struct("i")


class FrameType(IntEnum):
    CONTROL = 1  # between pool and zygote
    TASKS = 2
    SCOPE = 3
    RESULT = 4


class InvalidFrame(Exception):
    """The received data is not a frame with the right token."""


def checksummed_frame(token: int, kind: FrameType, payload: bytes) -> bytes:
    """Return a frame with a checksum, for a sender that runs user code."""
    return checksummed_header(token, kind, payload) + payload


def checksummed_header(token: int, kind: FrameType, payload: bytes) -> bytes:
    """Return the header of such a frame, for a payload too large to be copied."""
    return HEADER.pack(token, kind, len(payload), crc32(payload))


def header(token: int, kind: FrameType, payload: bytes) -> bytes:
    """Return the header of a frame without a checksum, for the parent, which runs no user code."""
    return HEADER.pack(token, kind, len(payload), 0)


class FrameReader:
    """Splits a byte stream into the payloads of `checksummed_frame`s of one type."""

    def __init__(self, token: int, kind: FrameType, *, most: int) -> None:
        self.invalid = False  # what came after the last payload is no frame; nothing later is read
        self._token = token
        self._kind = kind
        self._most = most  # payload bytes: a header that claims more is junk
        self._rest = bytearray()
        self._need = HEADER.size

    def feed(self, data: memoryview) -> list[memoryview]:
        """Add bytes and return the payloads that are now complete.

        They are views of `data` where possible: use them before its buffer is overwritten.
        """
        if self._rest:
            self._rest += data
            if len(self._rest) < self._need:
                return []
            # Not copied: an answer may be as large as the memory for a page.
            data, self._rest = memoryview(self._rest), bytearray()
        payloads: list[memoryview] = []
        start, end = 0, len(data)
        self._need = HEADER.size
        while not self.invalid and end - start >= HEADER.size:
            token, kind, length, checksum = HEADER.unpack_from(data, start)
            first, last = start + HEADER.size, start + HEADER.size + length
            if token != self._token or kind != self._kind or length > self._most:
                self.invalid = True
            elif last > end:
                self._need = HEADER.size + length
                break
            elif crc32(data[first:last]) != checksum:
                self.invalid = True
            else:
                payloads.append(data[first:last])
                start = last
        if not self.invalid:
            self._rest += data[start:]
        return payloads


def receive(sock: socket.socket, token: int) -> tuple[FrameType, bytearray, int | None] | None:
    """Block until a frame from the parent arrives; return its type, its payload and a file descriptor.

    Returns None if the parent has closed the connection. Raises `InvalidFrame` if user code has read from it.
    """
    # A descriptor travels with the first byte of its message. Not socket.recv_fds: it loses the flags.
    header, extras, _, _ = sock.recvmsg(
        HEADER.size, socket.CMSG_SPACE(_FD.size), socket.MSG_CMSG_CLOEXEC | socket.MSG_WAITALL
    )
    if len(header) < HEADER.size:
        return None
    theirs, kind, length, _ = HEADER.unpack(header)
    if theirs != token:
        raise InvalidFrame("user code has read from the connection")
    payload = bytearray(length)
    view = memoryview(payload)
    while view:
        count = sock.recv_into(view)
        if count == 0:
            return None
        view = view[count:]
    return FrameType(kind), payload, _FD.unpack(extras[0][2])[0] if extras else None
