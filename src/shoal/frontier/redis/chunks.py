"""Chunks: parts of a lane's tail that are stored outside the server's memory, and the places to store them.

A chunk is written once under a unique name and never changed. It is read only if it is registered in the
store, so one whose writer died before registering it does no harm; it is deleted by age.
"""

import asyncio
import os
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from shoal.model.errors import Misconfigured, Unavailable

RETRIES = 3  # within one call, for ten seconds at most: the call that adds links waits for it
_OBJECT_STORES = ("s3://", "gs://", "az://", "file://")
_CONNECT_TIMEOUT, _ANSWER_TIMEOUT, _RETRY_TIMEOUT = (timedelta(seconds=seconds) for seconds in (5, 30, 10))
ORDINAL_BYTES, COUNTER_BYTES, FP_BYTES = 6, 6, 8  # of an ENTRY

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[list[int], bytes, bytes, list[bytes]]).decode


def pack_chunk(entries: Sequence[bytes]) -> bytes:
    """Pack entries of a lane column by column, which takes a quarter less than row by row."""
    ordinals = [int.from_bytes(entry[:ORDINAL_BYTES]) for entry in entries]
    steps = [ordinal - before for ordinal, before in zip(ordinals, [0, *ordinals], strict=False)]
    rows = [entry[ORDINAL_BYTES:] for entry in entries]
    heads = b"".join(row[:COUNTER_BYTES] for row in rows)
    fps = b"".join(row[COUNTER_BYTES : COUNTER_BYTES + FP_BYTES] for row in rows)
    return zlib.compress(_encode((steps, heads, fps, [row[COUNTER_BYTES + FP_BYTES :] for row in rows])))


def unpack_chunk(body: bytes) -> list[bytes]:
    """Undo `pack_chunk`; raise `ValueError` if that is not possible."""
    try:
        unpacked = zlib.decompress(body)
    except zlib.error as error:
        raise ValueError(f"not a chunk: {error}") from error
    steps, heads, fps, rests = _decode(unpacked)
    entries, ordinal = [], 0
    for number, (step, rest) in enumerate(zip(steps, rests, strict=True)):
        ordinal += step
        head, fp = (
            heads[number * COUNTER_BYTES : (number + 1) * COUNTER_BYTES],
            fps[number * FP_BYTES : (number + 1) * FP_BYTES],
        )
        entries.append(ordinal.to_bytes(ORDINAL_BYTES) + head + fp + rest)
    return entries


class ChunkStore(Protocol):
    """A place for chunks that every worker of a fleet can reach."""

    async def put(self, name: str, body: bytes) -> None:
        """Store a chunk; once this returns, it survives the death of this process."""

    async def get(self, name: str) -> bytes: ...

    async def delete(self, name: str) -> None:
        """Delete a chunk, if it is still there."""

    def older(self, seconds: float) -> AsyncIterator[str]:
        """Yield the names of chunks that were written more than `seconds` ago."""


class FolderChunks:
    """Chunks in a folder that all workers share: one machine, or a network file system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, name: str, body: bytes) -> None:
        await asyncio.to_thread(self._put, self._folder / name, body)

    @staticmethod
    def _put(path: Path, body: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")  # under its final name a chunk is always complete
        part.write_bytes(body)
        os.replace(part, path)

    async def get(self, name: str) -> bytes:
        return await asyncio.to_thread((self._folder / name).read_bytes)

    async def delete(self, name: str) -> None:
        await asyncio.to_thread((self._folder / name).unlink, missing_ok=True)

    async def older(self, seconds: float) -> AsyncIterator[str]:
        before = time.time() - seconds
        for path in await asyncio.to_thread(lambda: list(self._folder.rglob("*"))):
            if path.is_file() and path.stat().st_mtime < before:
                yield path.relative_to(self._folder).as_posix()


def open_chunks(location: str) -> ChunkStore | None:
    """Return the place for chunks beside a fleet's archive; None: chunks stay in the store.

    That is so for an archive that workers may not share, and for one of a third-party package.

    It connects when it is first used: most queues are short, and a process that submits a crawl may need
    nothing else there.
    """
    return ObjectChunks(partial(_connect, location)) if location.startswith(_OBJECT_STORES) else None


def _connect(location: str) -> Any:
    from obstore.store import from_url

    return from_url(
        location,
        client_options={
            "connect_timeout": _CONNECT_TIMEOUT,
            "timeout": _ANSWER_TIMEOUT,
            "allow_http": os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"),
        },
        retry_config={"max_retries": RETRIES, "retry_timeout": _RETRY_TIMEOUT},
    )


class ObjectChunks:
    """Chunks in an object store, below a prefix."""

    def __init__(self, connect: Callable[[], Any], prefix: str = "spilled/") -> None:
        """`connect` returns an obstore store."""
        self._connect = connect
        self._prefix = prefix

    @cached_property
    def _store(self) -> Any:
        return self._connect()

    async def put(self, name: str, body: bytes) -> None:
        with _translated():
            await self._store.put_async(self._prefix + name, body)

    async def get(self, name: str) -> bytes:
        with _translated():
            found = await self._store.get_async(self._prefix + name)
            return bytes(await found.bytes_async())

    async def delete(self, name: str) -> None:
        with suppress(FileNotFoundError), _translated():
            await self._store.delete_async(self._prefix + name)

    async def older(self, seconds: float) -> AsyncIterator[str]:
        before = time.time() - seconds
        with _translated():
            async for batch in self._store.list(self._prefix):
                for found in batch:
                    if found["last_modified"].timestamp() < before:
                        yield found["path"].removeprefix(self._prefix)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        from obstore.exceptions import BaseError
    except ImportError as error:
        raise Misconfigured("archive.location: run  pip install 'shoal[s3]'  first") from error
    try:
        yield
    except (BaseError, ValueError) as error:  # ValueError: an address that it cannot parse
        raise Unavailable(f"spilled chunks: {str(error).splitlines()[0]}") from error
