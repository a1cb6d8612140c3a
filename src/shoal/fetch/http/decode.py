"""Decode bodies within limits: gzip, deflate, br, zstd, at most two of them on one body.

A body is decoded after it has been received, because its wire bytes are kept anyway and are limited
themselves. A typical page is decoded in one call. A larger one is decoded again in bounded pieces, one body
at a time, and the event loop runs between two pieces: a hundred bombs at once take the memory of one.

The client and the reader of the archive use the same rules: a body is decoded to its end or it is a failure,
an empty body is an empty page, and names that are not content codings (`none`, `utf-8`) are ignored, as
browsers do.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from typing import Protocol

import brotli
from backports import zstd
from isal import igzip_lib

from shoal.fetch.http.body_memory import BodyMemory
from shoal.model.errors import Rejected
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import KIB, MIB, FetchLimits

ACCEPT_ENCODING = "gzip, deflate, br, zstd"

SMALL_BYTES = 1 * MIB  # decoded in one call
PIECE_BYTES = 256 * KIB  # under 1 ms of decoding
MAX_MEMBERS = 64  # concatenated gzip members or zstd frames; ordinary bodies have one

# For archived pages whose decoded size is not recorded: they may have been fetched under any limits.
UNRECORDED_BYTES = 256 * MIB
_UNLIMITED = 1 << 62


class Decoder:
    """Decodes the bodies of one client; large ones one at a time, within the memory for bodies."""

    def __init__(self, memory: BodyMemory | None = None) -> None:
        self._large = asyncio.Lock()
        self._memory = memory or BodyMemory()

    async def decode(
        self, wire: bytes, content_encoding: str, limits: FetchLimits, *, may_be_empty: bool = True
    ) -> bytes | Failure:
        """Decode a body by `content_encoding`: the header's value, several lines joined by commas.

        `may_be_empty`: its length was announced. Otherwise nothing at all is a body that ended early.
        """
        encodings = _encodings(content_encoding, limits)
        if isinstance(encodings, Failure):
            return encodings
        if encodings and not wire and not may_be_empty:
            return Failure(FailureClass.TRUNCATED, f"the {encodings[0]} body ends early")
        if not encodings or not wire:
            return wire
        body = _at_once(wire, encodings, limits)
        if body is not None:
            return body
        largest = min(limits.body_bytes, max(limits.ratio_from, limits.ratio * len(wire)))
        async with self._large:
            reserved = await self._memory.reserve(largest)
            try:
                for state in _in_pieces(wire, encodings, limits):
                    if state is not None:
                        return state
                    await asyncio.sleep(0)
            finally:
                self._memory.release(reserved)
        raise AssertionError("decoding ended without a result")


def decode_first(wire: bytes, content_encoding: str, limits: FetchLimits, size: int) -> bytes | Failure:
    """Decode about `size` bytes of a body that may end early. Bounded by `size`, so it is done at once."""
    encodings = _encodings(content_encoding, limits)
    if isinstance(encodings, Failure):
        return encodings
    body = wire
    for name in encodings:
        out = bytearray()
        try:
            for part in _pieces(name, body, min(size, PIECE_BYTES)):
                out += part
                if len(out) >= size:
                    break
        except _Fault as fault:
            if not out:
                return fault.failure
        body = bytes(out)
    return body


def decode_archived(wire: bytes, content_encoding: str, decoded_bytes: int | None) -> bytes:
    """Decode a body from the archive, of `decoded_bytes` as recorded with the page. Raises `Rejected`."""
    limits = FetchLimits(
        body_bytes=UNRECORDED_BYTES if decoded_bytes is None else decoded_bytes,
        ratio=_UNLIMITED,
        encodings=_UNLIMITED,
    )
    names = _encodings(content_encoding, limits)
    assert not isinstance(names, Failure)
    if not names or not wire:
        return wire
    # The recorded size is that of the page. What the layers around it decode to may be larger: a body that is
    # compressed twice grows by the second time.
    layer = replace(limits, body_bytes=max(UNRECORDED_BYTES, 2 * limits.body_bytes))
    body = next(state for state in _in_pieces(wire, names, limits, layer) if state is not None)
    if isinstance(body, Failure):
        raise Rejected(body.reason)
    if decoded_bytes is not None and len(body) != decoded_bytes:
        raise Rejected(f"decoded to {len(body)} bytes, {decoded_bytes} are recorded")
    return body


def is_known(content_encoding: str) -> bool:
    """Return whether every name in a Content-Encoding header is a content coding that is decoded here."""
    names = map(str.strip, content_encoding.lower().split(","))
    return all(name in _STREAMS or name in ("", "identity") for name in names)


def _encodings(header: str, limits: FetchLimits) -> list[str] | Failure:
    """Return the encodings, the last applied first."""
    names = [name for part in header.lower().split(",") if (name := part.strip()) and name != "identity"]
    if len(names) > limits.encodings:
        return Failure(FailureClass.BOMB, f"{len(names)} content encodings, limit {limits.encodings}")
    return [name for name in reversed(names) if name in _STREAMS]


def _at_once(wire: bytes, encodings: list[str], limits: FetchLimits) -> bytes | Failure | None:
    """Decode a small body; None if it turns out not to be small."""
    body = wire
    for name in encodings:
        parts = []
        size = 0
        try:
            for part in _pieces(name, body, SMALL_BYTES):
                parts.append(part)
                size += len(part)
                if size >= SMALL_BYTES:
                    return None
        except _Fault as fault:
            return fault.failure
        if failure := _too_much(size, len(wire), limits):
            return failure
        body = parts[0] if len(parts) == 1 else b"".join(parts)
    return body


def _in_pieces(
    wire: bytes, encodings: list[str], limits: FetchLimits, outer: FetchLimits | None = None
) -> Iterator[bytes | Failure | None]:
    """Decode a large body: yield None after each piece, and the result at the end.

    `outer`: the limits for all encodings but the last one to be undone; None: those of the body.
    """
    body = wire
    for left, name in zip(reversed(range(len(encodings))), encodings, strict=True):
        bounds = outer if left and outer is not None else limits
        out = BytesIO()  # its value is not copied
        try:
            for part in _pieces(name, body, PIECE_BYTES):
                out.write(part)
                if failure := _too_much(out.tell(), len(wire), bounds):
                    yield failure
                    return
                yield None
        except _Fault as fault:
            yield fault.failure
            return
        body = out.getvalue()
    yield body


def _too_much(decoded: int, wire: int, limits: FetchLimits) -> Failure | None:
    if decoded > limits.body_bytes:
        return Failure(FailureClass.BOMB, f"decoded body above {limits.body_bytes} bytes")
    if decoded > limits.ratio_from and decoded > limits.ratio * wire:
        return Failure(FailureClass.BOMB, f"decoded body above {limits.ratio} times its wire size")
    return None


class _Fault(Exception):
    def __init__(self, failure_class: FailureClass, reason: str) -> None:
        self.failure = Failure(failure_class, reason)


class _Stream(Protocol):
    """What isal and zstd decompressors have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


_ERRORS: tuple[type[Exception], ...] = (igzip_lib.error, brotli.error, zstd.ZstdError)  # type: ignore[assignment]


def _pieces(name: str, data: bytes, step: int) -> Iterator[bytes]:
    """Yield the decoded `data` in pieces of about `step` bytes. Data after the last member is ignored."""
    make, magics = _STREAMS[name]
    for _ in range(MAX_MEMBERS):
        try:
            stream = make(data)
            yield stream.decompress(data, step)
            while not stream.eof:
                # Not `needs_input`: isal sets it while there is still output to come.
                piece = stream.decompress(b"", step)
                if not piece and not stream.eof:
                    raise _Fault(FailureClass.TRUNCATED, f"the {name} body ends early")
                yield piece
        except _ERRORS as error:
            # A zstd frame declares the memory that it needs, and is refused if that is too much.
            too_much = "too much memory" in str(error)
            failure_class = FailureClass.BOMB if too_much else FailureClass.DECODE
            raise _Fault(failure_class, f"the {name} body cannot be decoded: {error}") from None
        data = stream.unused_data
        if not data.startswith(magics):
            if data and any(magic.startswith(data) for magic in magics):
                raise _Fault(FailureClass.TRUNCATED, f"the {name} body ends early")
            return
    raise _Fault(FailureClass.DECODE, f"more than {MAX_MEMBERS} {name} members")


class _Brotli:
    """Brotli's decompressor with the interface of the others."""

    unused_data = b""  # it refuses trailing bytes itself

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
    # The standard demands zlib, but enough servers send raw deflate that every browser accepts both.
    zlib = len(data) >= 2 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
    flag = igzip_lib.DECOMP_ZLIB if zlib else igzip_lib.DECOMP_DEFLATE
    return igzip_lib.IgzipDecompressor(flag=flag)


def _brotli(data: bytes) -> _Stream:
    return _Brotli()


# RFC 9659: a window above 8 MiB must not be sent.
_ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}


def _zstd(data: bytes) -> _Stream:
    return zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)


_GZIP_MAGICS = (b"\x1f\x8b",)
# A frame with data, or one of the sixteen kinds to skip, which decompress to nothing.
_ZSTD_MAGICS = (b"\x28\xb5\x2f\xfd", *(bytes([kind]) + b"\x2a\x4d\x18" for kind in range(0x50, 0x60)))
_STREAMS: dict[str, tuple[Callable[[bytes], _Stream], tuple[bytes, ...]]] = {
    "gzip": (_gzip, _GZIP_MAGICS),
    "x-gzip": (_gzip, _GZIP_MAGICS),
    "deflate": (_deflate, ()),
    "br": (_brotli, ()),
    "zstd": (_zstd, _ZSTD_MAGICS),
}
