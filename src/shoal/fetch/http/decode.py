"""Content decoding within limits: gzip, deflate, br, zstd, at most two of them on top of one another.

A body is decoded after it has arrived, because its wire bytes are kept anyway and are themselves limited.
The usual page is done in one call. What turns out larger is decoded again in bounded pieces, one body at a
time, giving way to the event loop between two pieces: a hundred bombs at once take the memory of one.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol

import brotli
from backports import zstd
from isal import igzip_lib

from shoal.model.errors import Rejected
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import KIB, MIB, FetchLimits

ACCEPT_ENCODING = "gzip, deflate, br, zstd"

SMALL = 1 * MIB  # decoded at once, without giving way
PIECE = 256 * KIB  # under 1 ms of decoding
MEMBERS = 64  # concatenated gzip members or zstd frames; nobody honest comes near


class Decoder:
    """Decodes the bodies of one client; keeps large ones in single file."""

    def __init__(self) -> None:
        self._large = asyncio.Lock()

    async def decode(self, wire: bytes, content_encoding: str, limits: FetchLimits) -> bytes | Failure:
        """Undo `content_encoding`: the header, its lines joined by commas."""
        encodings = _encodings(content_encoding, limits)
        if isinstance(encodings, Failure):
            return encodings
        if not encodings or not wire:
            return wire
        body = _at_once(wire, encodings, limits)
        if body is not None:
            return body
        async with self._large:
            for state in _in_pieces(wire, encodings, limits):
                if state is not None:
                    return state
                await asyncio.sleep(0)
        raise AssertionError("decoding ended without a result")


def decode_archived(wire: bytes, encodings: list[str]) -> bytes:
    """Undo `encodings`, listed as applied, of a body fetched earlier; raise `Rejected` if that fails."""
    limits = FetchLimits()
    names = _encodings(",".join(encodings), limits)
    if isinstance(names, Failure):
        raise Rejected(names.reason)
    body = next(state for state in _in_pieces(wire, names, limits) if state is not None)
    if isinstance(body, Failure):
        raise Rejected(body.reason)
    return body


def _encodings(header: str, limits: FetchLimits) -> list[str] | Failure:
    """Name the encodings to undo, the last applied first."""
    names = [name for part in header.lower().split(",") if (name := part.strip()) and name != "identity"]
    if len(names) > limits.encodings:
        return Failure(FailureClass.BOMB, f"{len(names)} content encodings, limit {limits.encodings}")
    for name in names:
        if name not in _STREAMS:
            return Failure(FailureClass.DECODE, f"content encoding {name[:32]!r} is unknown")
    return names[::-1]


def _at_once(wire: bytes, encodings: list[str], limits: FetchLimits) -> bytes | Failure | None:
    """Decode a body that stays small; None: it does not."""
    body = wire
    for name in encodings:
        parts = []
        size = 0
        try:
            for part in _pieces(name, body, SMALL):
                parts.append(part)
                size += len(part)
                if size >= SMALL:
                    return None
        except _Fault as fault:
            return fault.failure
        if failure := _too_much(size, len(wire), limits):
            return failure
        body = parts[0] if len(parts) == 1 else b"".join(parts)
    return body


def _in_pieces(wire: bytes, encodings: list[str], limits: FetchLimits) -> Iterator[bytes | Failure | None]:
    """Decode a large body: None after each piece, the result at the end."""
    body = wire
    for name in encodings:
        out = bytearray()
        try:
            for part in _pieces(name, body, PIECE):
                out += part
                if failure := _too_much(len(out), len(wire), limits):
                    yield failure
                    return
                yield None
        except _Fault as fault:
            yield fault.failure
            return
        body = bytes(out)
    yield body


def _too_much(decoded: int, wire: int, limits: FetchLimits) -> Failure | None:
    if decoded > limits.body_bytes:
        return Failure(FailureClass.BOMB, f"decoded body above {limits.body_bytes} bytes")
    if decoded > limits.ratio_from and decoded > limits.ratio * wire:
        return Failure(FailureClass.BOMB, f"decoded body above {limits.ratio} times its wire size")
    return None


class _Fault(Exception):
    def __init__(self, kind: FailureClass, reason: str) -> None:
        self.failure = Failure(kind, reason)


class _Stream(Protocol):
    """What isal and zstd decompressors have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


_ERRORS: tuple[type[Exception], ...] = (igzip_lib.error, brotli.error, zstd.ZstdError)  # type: ignore[assignment]


def _pieces(name: str, data: bytes, step: int) -> Iterator[bytes]:
    """Decode `data` in pieces of about `step` bytes. What follows the last member is ignored."""
    make, magic = _STREAMS[name]
    for _ in range(MEMBERS):
        try:
            stream = make(data)
            yield stream.decompress(data, step)
            while not stream.eof:
                # `needs_input` would not do: isal sets it while output is still to come.
                piece = stream.decompress(b"", step)
                if not piece and not stream.eof:
                    raise _Fault(FailureClass.TRUNCATED, f"the {name} body ends early")
                yield piece
        except _ERRORS as error:
            # A zstd frame names the memory it wants up front, and is refused for it.
            kind = FailureClass.BOMB if "too much memory" in str(error) else FailureClass.DECODE
            raise _Fault(kind, f"the {name} body cannot be decoded: {error}") from None
        data = stream.unused_data
        if not magic or not data.startswith(magic):
            return
    raise _Fault(FailureClass.DECODE, f"more than {MEMBERS} {name} members")


class _Brotli:
    """Brotli's decompressor in the shape of the others."""

    unused_data = b""  # it refuses trailing bytes by itself

    def __init__(self) -> None:
        self._inner = brotli.Decompressor()
        self.eof = False

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece: bytes = self._inner.process(data, output_buffer_limit=max_length)
        self.eof = self._inner.is_finished()
        return piece


def _gzip(data: bytes) -> _Stream:
    return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)


def _deflate(data: bytes) -> _Stream:
    # The standard says zlib; enough servers send bare deflate that every browser accepts both.
    zlib = len(data) >= 2 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
    flag = igzip_lib.DECOMP_ZLIB if zlib else igzip_lib.DECOMP_DEFLATE
    return igzip_lib.IgzipDecompressor(flag=flag)


def _brotli(data: bytes) -> _Stream:
    return _Brotli()


# RFC 9659: a window above 8 MiB must not be sent.
_ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}


def _zstd(data: bytes) -> _Stream:
    return zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)


_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_STREAMS: dict[str, tuple[Callable[[bytes], _Stream], bytes]] = {
    "gzip": (_gzip, _GZIP_MAGIC),
    "x-gzip": (_gzip, _GZIP_MAGIC),
    "deflate": (_deflate, b""),
    "br": (_brotli, b""),
    "zstd": (_zstd, _ZSTD_MAGIC),
}
