"""Servers that lose power: the last part of their append-only file is lost when they start again."""

import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.servers.redis import RedisServer


def log_of(server: RedisServer) -> Path:
    """Return the append-only file that a server writes to now."""
    return max(server.folder.glob("appendonlydir/*.incr.aof"), key=lambda path: path.stat().st_mtime_ns)


class LaggingDisk:
    """A disk that receives nothing more of what its server writes."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self._log = log_of(server)
        self._length = 0

    @classmethod
    async def of(cls, server: RedisServer) -> Self:
        disk = cls(server)
        await server.ask("CONFIG", "SET", "appendfsync", "no")
        disk._length = disk._log.stat().st_size
        return disk

    def cut_the_power(self) -> None:
        """Kill the server and drop what did not reach the disk."""
        self.server.kill()
        with self._log.open("r+b") as log:
            log.truncate(self._length)


# Seconds that `appendfsync everysec` may lose. An output waits longer than this before it writes an item.
SECOND = 1.0
_EVERY = 0.02


class Power:
    """Records how long a server's log was during the last second, in a thread of its process.

    `cut` and `end` drop what the log received within the last second.
    """

    def __init__(self, server: RedisServer) -> None:
        self.lost = 0  # bytes
        self._server = server
        self._loaded: dict[Path, int] = {}  # bytes of the log that the server began with
        self._lengths: deque[tuple[float, Path, int]] = deque(maxlen=round(SECOND / _EVERY) * 10)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    async def cut(self) -> None:
        """Kill the server, and start it again without the last second of its log."""
        self.end()
        await self._server.begin()

    def end(self) -> None:
        """Kill the server, and cut the last second from its log."""
        self._server.kill()
        now, log = time.monotonic(), log_of(self._server)
        old = [size for seen, path, size in list(self._lengths) if path == log and now - seen >= SECOND]
        length = max(old, default=self._loaded.get(log, 0))
        assert length <= log.stat().st_size
        self.lost += log.stat().st_size - length
        with log.open("r+b") as file:
            file.truncate(length)
        self._loaded = {log: length}
        self._lengths.clear()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY):
            with suppress(FileNotFoundError):  # between one log file and the next
                log = log_of(self._server)
                self._lengths.append((time.monotonic(), log, log.stat().st_size))
