"""Small bodies that become large ones, made without ever being large here."""

import zlib
from functools import cache

import brotli
from backports import zstd

ZEROS = bytes(1 << 20)


@cache
def deflated(megabytes: int, *, wbits: int) -> bytes:
    """Compress so many MiB of zeros, a kilobyte each: one flushed block, repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    first = packer.compress(ZEROS) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(ZEROS) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + again * (megabytes - 1)  # without an end: no client should read that far


def gzip_bomb(megabytes: int) -> bytes:
    return deflated(megabytes, wbits=31)


def deflate_bomb(megabytes: int) -> bytes:
    return deflated(megabytes, wbits=15)


@cache
def brotli_bomb(megabytes: int) -> bytes:
    packer = brotli.Compressor(quality=5, lgwin=24)
    first: bytes = packer.process(ZEROS * 16) + packer.flush()
    again: bytes = packer.process(ZEROS * 16) + packer.flush()
    return first + again * (megabytes // 16 - 1)


@cache
def zstd_bomb(megabytes: int) -> bytes:
    packer = zstd.ZstdCompressor(3)
    first = packer.compress(ZEROS, packer.FLUSH_BLOCK)
    again = packer.compress(ZEROS, packer.FLUSH_BLOCK)
    return first + again * (megabytes - 1)


@cache
def zstd_window() -> bytes:
    """Compress so that unpacking wants 128 MiB of memory before the first byte."""
    return zstd.compress(ZEROS * 8, options={zstd.CompressionParameter.window_log: 27})


def layered(body: bytes, times: int) -> bytes:
    for _ in range(times):
        body = zlib.compress(body, wbits=31)
    return body
