"""Servers that lose power: what their logs got last is gone when they start again."""

import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.servers.redis import RedisServer


def log_of(server: RedisServer) -> Path:
    """Find the file that a server writes its changes to."""
    return max(server.folder.glob("appendonlydir/*.incr.aof"), key=lambda path: path.stat().st_mtime_ns)


class LaggingDisk:
    """A disk that gets nothing any more of what its server writes."""

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
        """End the server, and with it what is not on disk."""
        self.server.kill()
        with self._log.open("r+b") as log:
            log.truncate(self._length)


# What `appendfsync everysec` may lose. An output waits longer than this before it writes an item.
SECOND = 1.0
_EVERY = 0.02


class Power:
    """Knows how long a server's log was a moment ago: a thread looks at it, whatever the tests are busy with.

    What the log got within the last second is lost when the power is cut.
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
        """End the server, and start it again without the last second."""
        self.end()
        await self._server.begin()

    def end(self) -> None:
        """End the server, and take the last second from its log."""
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
            with suppress(FileNotFoundError):  # one log gives way to the next
                log = log_of(self._server)
                self._lengths.append((time.monotonic(), log, log.stat().st_size))
