"""Frames: how messages travel between the pool, its zygote and the children.

A header of four numbers, then the payload. The token is random and known to the two ends only, so that bytes
which user code sprays over its file descriptors are told from an answer; what comes from a process that runs
user code is also checksummed, because such bytes may fall into the middle of one.
"""

import socket
import struct
from enum import IntEnum
from zlib import crc32

HEADER = struct.Struct("<IIII")  # token, kind, payload bytes, checksum
TOKENS = 1 << 32
_FD = struct.Struct("i")


class FrameKind(IntEnum):
    CONTROL = 1  # between pool and zygote
    TASKS = 2
    SCOPE = 3
    RESULT = 4


class Junk(Exception):
    """What was received is not a frame of this conversation."""


def checked(token: int, kind: FrameKind, payload: bytes) -> bytes:
    """Frame what a process with user code in it has to say."""
    return HEADER.pack(token, kind, len(payload), crc32(payload)) + payload


def head(token: int, kind: FrameKind, payload: bytes) -> bytes:
    """Make the header for a payload from the parent: no user code there, so no checksum."""
    return HEADER.pack(token, kind, len(payload), 0)


class FrameReader:
    """Cut a byte stream into the payloads of `checked` frames of one kind."""

    def __init__(self, token: int, kind: FrameKind, *, most: int) -> None:
        self.junk = False  # what came after the last payload is no frame; nothing later is read
        self._token = token
        self._kind = kind
        self._most = most  # payload bytes: a header that claims more is junk
        self._rest = bytearray()
        self._need = HEADER.size

    def feed(self, data: memoryview) -> list[memoryview]:
        """Take bytes in and return the payloads now complete.

        They are views of `data` where possible: use them before its buffer is filled again.
        """
        if self._rest:
            self._rest += data
            if len(self._rest) < self._need:
                return []
            data = memoryview(bytes(self._rest))
            self._rest.clear()
        payloads: list[memoryview] = []
        start, end = 0, len(data)
        self._need = HEADER.size
        while not self.junk and end - start >= HEADER.size:
            token, kind, length, checksum = HEADER.unpack_from(data, start)
            first, last = start + HEADER.size, start + HEADER.size + length
            if token != self._token or kind != self._kind or length > self._most:
                self.junk = True
            elif last > end:
                self._need = HEADER.size + length
                break
            elif crc32(data[first:last]) != checksum:
                self.junk = True
            else:
                payloads.append(data[first:last])
                start = last
        if not self.junk:
            self._rest += data[start:]
        return payloads


def receive(sock: socket.socket, token: int) -> tuple[FrameKind, bytearray, int | None] | None:
    """Block until one frame from the parent is there, and take the file descriptor that came with it, if any.

    None: the parent has hung up. Raises `Junk` if user code got between.
    """
    # A descriptor travels with the first byte of its message. Not socket.recv_fds: it loses the flags.
    header, extras, _, _ = sock.recvmsg(
        HEADER.size, socket.CMSG_SPACE(_FD.size), socket.MSG_CMSG_CLOEXEC | socket.MSG_WAITALL
    )
    if len(header) < HEADER.size:
        return None
    theirs, kind, length, _ = HEADER.unpack(header)
    if theirs != token:
        raise Junk("somebody else has read from the connection")
    payload = bytearray(length)
    view = memoryview(payload)
    while view:
        count = sock.recv_into(view)
        if count == 0:
            return None
        view = view[count:]
    return FrameKind(kind), payload, _FD.unpack(extras[0][2])[0] if extras else None
