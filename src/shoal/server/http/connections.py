"""Limits on connections, which uvicorn does not have.

- A request line and its headers arrive within `HEAD_TIMEOUT_S`, counted from the opening of the connection or
  the end of the answer before, however many single bytes arrive in between.
- A client that does not read its answer is cut off after `WRITE_TIMEOUT_S`.
- At most `MAX_CONNECTIONS` are open. One more closes the connection that has been idle longest, so that
  thousands of idle connections do not keep a health check out.

Headers are limited by h11: 16 KiB together.
"""

import asyncio
from collections import OrderedDict
from contextlib import suppress

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 512
HEAD_TIMEOUT_S = 10.0
WRITE_TIMEOUT_S = 20.0
MAX_HEAD_BYTES = 16 * 1024


class ConnectionBook:
    """The connections of a server; those without a request in progress in order of their last one."""

    def __init__(self, limit: int = MAX_CONNECTIONS) -> None:
        self.limit = limit
        self.busy: set[LimitedProtocol] = set()
        self.idle: OrderedDict[LimitedProtocol, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self.busy) + len(self.idle)

    def add(self, connection: "LimitedProtocol") -> None:
        """Add a connection; close the one that has been idle longest if there are too many."""
        self.idle[connection] = None
        if len(self) > self.limit:
            oldest = next(iter(self.idle))
            del self.idle[oldest]
            oldest.transport.abort()

    def mark_busy(self, connection: "LimitedProtocol") -> None:
        if connection in self.idle:
            del self.idle[connection]
            self.busy.add(connection)

    def mark_idle(self, connection: "LimitedProtocol") -> None:
        if connection in self.busy:
            self.busy.discard(connection)
            self.idle[connection] = None

    def remove(self, connection: "LimitedProtocol") -> None:
        self.busy.discard(connection)
        self.idle.pop(connection, None)


class LimitedProtocol(H11Protocol):
    book: ConnectionBook  # set by `protocol_for`
    head_timeout_s = HEAD_TIMEOUT_S
    write_timeout_s = WRITE_TIMEOUT_S

    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(self.head_timeout_s, transport.abort)
        self.book.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timers()
        self.book.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.book.mark_busy(self)
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

    def on_response_complete(self) -> None:
        self.book.mark_idle(self)
        if self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self.head_timeout_s, self.transport.abort)
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.write_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        # After an answer has begun, h11 can send no other one.
        with suppress(Exception):
            super().send_400_response(msg)
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: an upgrade that is asked for is not an error of this server."""

    def _cancel_timers(self) -> None:
        for timer in (self._head_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = self._write_timer = None


def protocol_for(
    book: ConnectionBook, *, head_timeout_s: float = HEAD_TIMEOUT_S, write_timeout_s: float = WRITE_TIMEOUT_S
) -> type[LimitedProtocol]:
    """Return the class that uvicorn makes one object of per connection."""
    attributes = {"book": book, "head_timeout_s": head_timeout_s, "write_timeout_s": write_timeout_s}
    return type("BoundProtocol", (LimitedProtocol,), attributes)
