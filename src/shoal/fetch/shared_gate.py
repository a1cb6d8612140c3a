"""The send gate of a fleet: it keeps the pace of a host for all workers together.

The frontier grants leases at the right pace, but a worker may send a request later: after a robots.txt,
behind other requests, or because the machine is busy. Within one process the send gate corrects that; between
processes only the store can. So the worker takes each turn from the store, with the connection open and the
request composed. A turn is valid for `leeway` seconds, counted from before the call; if the call took longer
the turn is lost, and the worker takes another one. The store leaves an interval plus that leeway between two
turns, so two requests are at least an interval apart, no matter which worker is faster.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from shoal.fetch.gate import MAX_WAIT_S

LEEWAY_SHARE = 0.05  # of an interval: how much slower than necessary a fleet is
MIN_LEEWAY_S = 0.01  # a store responds in less than 1 ms, a busy event loop does not


class TakeTurn(Protocol):
    """Takes a turn of a host from the store and returns 0.0, or returns the seconds until it is due."""

    async def __call__(self, host: str, *, interval: float, leeway: float) -> float: ...


class SharedGate:
    """A gate whose turns come from the store."""

    def __init__(self, ask: TakeTurn, *, clock: Callable[[], float] = monotonic) -> None:
        self.ask = ask
        self.clock = clock

    def turn(self, host: str, *, interval: float, burst: int = 1) -> "SharedTurn":
        """Return a turn for one attempt to send to `host`. The store knows the host's burst."""
        return SharedTurn(self, host, interval)


class SharedTurn:
    """Permission to send, for one attempt: taken before every write, a transparent second one included."""

    __slots__ = ("_gate", "_host", "_interval", "sends")

    def __init__(self, gate: SharedGate, host: str, interval: float) -> None:
        self._gate = gate
        self._host = host
        self._interval = interval
        self.sends = 0

    async def take(self) -> float:
        """Wait for the turn, take it and return 0.0; if it is too far away, return the seconds until it."""
        leeway = max(LEEWAY_SHARE * self._interval, MIN_LEEWAY_S)
        while True:
            asked_at = self._gate.clock()
            wait = await self._gate.ask(self._host, interval=self._interval, leeway=leeway)
            if wait > MAX_WAIT_S:
                return wait
            if wait > 0:
                await asyncio.sleep(wait)
            elif self._gate.clock() - asked_at <= leeway:
                self.sends += 1
                return 0.0

    def sent(self) -> None:
        """Do nothing: the leeway covers the time until the request is on the wire."""

    def answered(self) -> None:
        """Do nothing."""
