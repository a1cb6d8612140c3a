"""Idle connections by origin and exit, the most recently used first, with a limit over all origins.

The guard checked the address of every connection in here when it was opened.
"""

from collections import OrderedDict
from time import monotonic

from shoal.fetch.http.connection import Connection


class ConnectionPool:
    def __init__(self, *, size: int, keep: float) -> None:
        self._size = size
        self._keep = keep
        self._idle: OrderedDict[Connection, None] = OrderedDict()  # longest idle first
        self._by_origin: dict[str, list[Connection]] = {}
        self._by_exit: dict[str, OrderedDict[Connection, None]] = {}  # longest idle first

    def __len__(self) -> int:
        return len(self._idle)

    def count_idle(self, exit: str) -> int:
        """Return the number of idle connections through an exit."""
        return len(self._by_exit.get(exit, ()))

    def close_idle(self, exit: str) -> bool:
        """Close the connection through an exit that has been idle for longest; return False without one."""
        for connection in self._by_exit.get(exit, ()):
            self._drop(connection)
            connection.abort()
            return True
        return False

    def take(self, key: str) -> Connection | None:
        """Return the connection of a `pool_key` that was used last: the least likely to have been closed."""
        stack = self._by_origin.get(key)
        if stack is None:
            return None
        connection = stack.pop()
        if not stack:
            del self._by_origin[key]
        del self._idle[connection]
        self._leave_exit(connection)
        connection.on_close = None
        return connection

    def put(self, connection: Connection) -> None:
        """Keep a connection for the next request. If the pool is full, close the one idle for longest."""
        if connection.closed:
            return
        connection.on_close = self._drop
        connection.idle_since = monotonic()
        self._idle[connection] = None
        self._by_origin.setdefault(connection.pool_key, []).append(connection)
        if connection.via is not None:
            self._by_exit.setdefault(connection.via.name, OrderedDict())[connection] = None
        if len(self._idle) > self._size:
            self._close_oldest()

    def sweep(self, now: float) -> None:
        """Close the connections that have been idle for too long."""
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
        self._leave_exit(connection)
        connection.on_close = None
        stack = self._by_origin[connection.pool_key]
        stack.remove(connection)
        if not stack:
            del self._by_origin[connection.pool_key]

    def _leave_exit(self, connection: Connection) -> None:
        if connection.via is not None:
            idle = self._by_exit[connection.via.name]
            del idle[connection]
            if not idle:
                del self._by_exit[connection.via.name]
