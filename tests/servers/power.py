"""A server that loses power: what its log got within the last second is gone when it starts again."""

import threading
import time
from collections import deque
from pathlib import Path
from typing import Self

from tests.servers.redis import RedisServer

# What `appendfsync everysec` may lose. An output waits longer than this before it writes an item.
SECOND = 1.0
_EVERY = 0.02


class Power:
    """Knows how long a server's log was a moment ago: a thread looks at it, whatever the tests are busy with."""

    def __init__(self, server: RedisServer, folder: Path) -> None:
        self.lost = 0  # bytes
        self._server = server
        self._folder = folder
        self._loaded = 0  # bytes of the log that the server began with
        self._lengths: deque[tuple[float, int]] = deque(maxlen=round(SECOND / _EVERY) * 10)
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
        self._server.kill()
        now, lengths = time.monotonic(), list(self._lengths)
        length = max((size for seen, size in lengths if now - seen >= SECOND), default=self._loaded)
        assert length <= self._log.stat().st_size
        self.lost += self._log.stat().st_size - length
        with self._log.open("r+b") as log:
            log.truncate(length)
        self._loaded = length
        self._lengths.clear()
        await self._server.begin()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY):
            self._lengths.append((time.monotonic(), self._log.stat().st_size))

    @property
    def _log(self) -> Path:
        [log] = self._folder.glob("appendonlydir/*.incr.aof")
        return log
