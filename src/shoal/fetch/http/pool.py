"""Idle connections, kept for a while: by origin, newest first, with a cap over all origins.

Which address a connection leads to was settled when it was opened; one that lies here has passed the guard.
"""

from collections import OrderedDict
from time import monotonic

from shoal.fetch.http.connection import Connection


class Pool:
    def __init__(self, *, size: int, keep: float) -> None:
        self._size = size
        self._keep = keep
        self._idle: OrderedDict[Connection, None] = OrderedDict()  # longest idle first
        self._by_origin: dict[str, list[Connection]] = {}

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, origin: str) -> Connection | None:
        """Hand out the connection to `origin` that was used last: the least likely to have gone stale."""
        stack = self._by_origin.get(origin)
        if stack is None:
            return None
        connection = stack.pop()
        if not stack:
            del self._by_origin[origin]
        del self._idle[connection]
        connection.on_close = None
        return connection

    def put(self, connection: Connection) -> None:
        """Keep an open connection for the next request, or close the one idle longest for it."""
        if connection.closed:
            return
        connection.on_close = self._drop
        connection.idle_since = monotonic()
        self._idle[connection] = None
        self._by_origin.setdefault(connection.origin.key, []).append(connection)
        if len(self._idle) > self._size:
            self._close_oldest()

    def sweep(self, now: float) -> None:
        """Close what has been idle for too long."""
        while self._idle and now - next(iter(self._idle)).idle_since > self._keep:
            self._close_oldest()

    def close(self) -> None:
        while self._idle:
            self._close_oldest()

    def _close_oldest(self) -> None:
        connection = next(iter(self._idle))
        self._drop(connection)
        connection.abort()

    def _drop(self, connection: Connection) -> None:
        del self._idle[connection]
        connection.on_close = None
        stack = self._by_origin[connection.origin.key]
        stack.remove(connection)
        if not stack:
            del self._by_origin[connection.origin.key]
