"""A sink, a bus and an archive location as another package would provide them; tests install it as a wheel.

The sink writes netstrings: each item is `<length>:<JSON>,`. The checkpoint is the length of the file and the number of
items. It uses nothing of Shoal but the contracts, the errors and the item. The other two only delegate to built-ins.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from shoal.archive.contract import ArchiveFactory, Segments
from shoal.archive.segments import SegmentFolder
from shoal.bus.contract import Bus, BusFactory, Reannounce
from shoal.bus.redis import RedisBus
from shoal.model.errors import Misconfigured, Rejected, Unavailable
from shoal.model.page import Item
from shoal.redis_client import RedisClient
from shoal.sinks.contract import SinkFactory


class NetstringSink:
    def __init__(self, output: str, /, *, fsync: bool, overwrite: bool) -> None:
        self._path = Path(output)
        self._fsync = fsync
        self._overwrite = overwrite
        self._file = -1
        self._length = self._count = 0
        self._pending: list[bytes] = []

    def restore(self, checkpoint: bytes | None) -> None:
        if checkpoint is None:
            if self._path.exists() and self._path.stat().st_size and not self._overwrite:
                raise Misconfigured(f"output {self._path}: it exists, and is not from this crawl")
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_bytes(b"")
        else:
            self._length, self._count = json.loads(checkpoint)
            if not self._path.exists() or self._path.stat().st_size < self._length:
                raise Misconfigured(
                    f"output {self._path}: it is missing, or shorter than this crawl has left it"
                )
        self._file = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        os.ftruncate(self._file, self._length)

    def write(self, items: Sequence[Item]) -> None:
        self._pending += [item.json for item in items]

    def flush(self) -> bytes:
        if self._pending:
            self._check()
            data = b"".join(b"%d:%b," % (len(text), text) for text in self._pending)
            try:
                written = 0
                while written < len(data):
                    written += os.pwrite(self._file, data[written:], self._length + written)
                if self._fsync:
                    os.fsync(self._file)
            except OSError as error:
                raise Unavailable(f"output {self._path}: {error.strerror}") from error
            self._length, self._count = self._length + len(data), self._count + len(self._pending)
            self._pending.clear()
        return json.dumps([self._length, self._count]).encode()

    def finish(self) -> bytes:
        checkpoint = self.flush()
        self._check()
        return checkpoint

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _check(self) -> None:
        if not self._path.exists() or not os.path.samestat(self._path.stat(), os.fstat(self._file)):
            raise Misconfigured(f"output {self._path}: it was removed or replaced")


def read_items(path: Path) -> Iterator[dict[str, Any]]:
    data, at = path.read_bytes(), 0
    while at < len(data):
        colon = data.index(b":", at)
        end = colon + 1 + int(data[at:colon])
        assert data[end : end + 1] == b","
        yield json.loads(data[colon + 1 : end])
        at = end + 1


def recount(output: str, checkpoint: bytes, /) -> int:
    length, count = json.loads(checkpoint)
    path = Path(output)
    if not path.exists() or path.stat().st_size < length:
        raise Rejected(f"output {output} is missing or too short")
    return int(count)


SINK = SinkFactory(open=NetstringSink, recount=recount)


def open_bus(
    address: str, store: RedisClient, /, *, consumer: str, reannounce: Reannounce, deadline: float
) -> AbstractAsyncContextManager[Bus]:
    del address, reannounce
    return RedisBus.open(store, consumer=consumer, deadline=deadline)


BUS = BusFactory(open=open_bus)


def open_archive(address: str) -> Segments:
    return SegmentFolder(Path(address.removeprefix("shelf://")))


ARCHIVE = ArchiveFactory(open=open_archive)
