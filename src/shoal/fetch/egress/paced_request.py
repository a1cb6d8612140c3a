"""Hold the request of a client that is not ours at the egress, until the turn of its host has come.

Such a client writes its request itself. A turn that is taken before the client is called is used a handshake
later, and another worker may have sent by then. But the egress sees the bytes pass. It lets the handshake
pass and holds what follows: a request in absolute form, or the first TLS record that is not part of the
handshake in clear. In TLS 1.3 that record ends the handshake, and the request follows it without waiting for
the server.

One connection at a time carries the request. Another one that has something to send to the same host waits:

- When the request has been answered, everything may pass: what follows belongs to the page.
- When the connection that carried the request closes without an answer, the client sends the request a second
  time: that takes a separate turn.
- After `STRAY_S` it takes a turn as well: the client may have opened two connections and use the second.
"""

import asyncio
from time import monotonic

from shoal.fetch.http.send_turn import SendTurn

STRAY_S = 1.0
_HANDSHAKE = frozenset({20, 21, 22})  # TLS record types: change of cipher, alert, handshake
_HEADER_BYTES = 5


class PacedRequest:
    """One request of a client, for which one turn or more are taken."""

    def __init__(self, turn: SendTurn, origin: str) -> None:
        """`origin` is the one that the request is for; connections to others are not held."""
        self.origin = origin
        self.not_sent = 0.0  # seconds until the request may be tried again; it was dropped before it was sent
        self.error: Exception | None = None  # raised while the turn was taken
        self.sent_at: float | None = None  # monotonic
        self._turn = turn
        self._carrier: object | None = None  # the connection that took the turn
        self._answered = False
        self._changed = asyncio.Event()

    def opened(self, connect_s: float, tls_s: float) -> None:
        """Record how long a connection took; look-up of the name and exit are part of `connect_s`."""
        self._turn.timing.connect += connect_s
        self._turn.timing.tls += tls_s

    async def may_send(self, connection: object, address: str) -> bool:
        """Wait for the turn. Return whether to send what is held; if not, the connection has to end."""
        while not self._answered and self._carrier is not connection:
            if self.not_sent or self.error is not None:
                return False
            if self._carrier is None:
                return await self._take(connection, address)
            try:
                async with asyncio.timeout(STRAY_S):
                    await self._changed.wait()
            except TimeoutError:
                self._carrier = None
        return True

    async def _take(self, connection: object, address: str) -> bool:
        self._carrier = connection
        began, granted = monotonic(), False
        try:
            self.not_sent = await self._turn.take(address)
            granted = not self.not_sent
        except Exception as error:  # of the store, for the caller of the client: see `check`
            self.error = error
        finally:
            self._turn.timing.queue += monotonic() - began
            if not granted:
                self.closed(connection)
        return granted

    def drop(self, origin: str, seconds: float) -> bool:
        """Record when the request may be tried again; return whether it is this one, and not yet sent."""
        if origin != self.origin or self.sent_at is not None:
            return False
        self.not_sent = seconds
        return True

    def sent(self, connection: object) -> None:
        """Record that what was held has been written."""
        if self._carrier is connection and not self._answered:
            self.sent_at = monotonic()
            self._turn.sent()

    def answered(self) -> None:
        """Record the first byte of the response."""
        if not self._answered:
            self._answered = True
            self._notify()
            if self.sent_at is not None:
                self._turn.answered()

    def closed(self, connection: object) -> None:
        """Record that a connection has ended."""
        if self._carrier is connection:
            self._carrier = None
            self._notify()

    def check(self) -> None:
        """Raise what was raised while the turn was taken."""
        if self.error is not None:
            raise self.error

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Handshake:
    """Finds the end of a TLS handshake in what a client sends."""

    def __init__(self) -> None:
        self._header = b""
        self._left = 0  # bytes of the record that has begun
        self.has_ended = False

    def length(self, data: bytes) -> int:
        """Return how many of the bytes belong to the handshake; 0 for what is not TLS."""
        at = 0
        while at < len(data) and not self.has_ended:
            if self._left:
                read = min(self._left, len(data) - at)
                self._left -= read
                at += read
            elif not self._header and data[at] not in _HANDSHAKE:
                self.has_ended = True
            else:
                part = data[at : at + _HEADER_BYTES - len(self._header)]
                self._header += part
                at += len(part)
                if len(self._header) == _HEADER_BYTES:
                    self._left, self._header = int.from_bytes(self._header[3:]), b""
        return at
