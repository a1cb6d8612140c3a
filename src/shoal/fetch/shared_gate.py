"""The send gate of a fleet: the pace of a host, kept for all workers together where requests leave.

The frontier hands out leases at the right pace, but a request leaves when its worker comes to it: after a
robots.txt, behind others, or late because the machine is busy. Within one process the send gate evens that
out; between processes only the store can. So a turn is asked of the store, with the connection open and the
request composed. It is good for `leeway` seconds, counted from before the question; where the answer took
longer the turn is lost, and another one is asked for. The store leaves an interval and that leeway between
two turns: requests are an interval apart at least, whichever of two workers was the quicker one.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from shoal.fetch.gate import PATIENCE

LEEWAY = 0.05  # of an interval: what a fleet is slower than it would have to be
LEAST_LEEWAY = 0.01  # seconds; a store answers in less than one millisecond, a busy event loop does not


class Ask(Protocol):
    """Take a turn of a host and return 0, or return the seconds until it comes."""

    async def __call__(self, host: str, *, interval: float, leeway: float) -> float: ...


class SharedGate:
    """The pace of hosts, as a store keeps it."""

    def __init__(self, ask: Ask, *, clock: Callable[[], float] = monotonic) -> None:
        self.ask = ask
        self.clock = clock

    def turn(self, host: str, *, interval: float, burst: int = 1) -> "SharedTurn":
        """Prepare one attempt to send to `host`; how large its burst is, the store knows."""
        return SharedTurn(self, host, interval)


class SharedTurn:
    """Leave to send, for one attempt: asked for before every write, a transparent second one included."""

    __slots__ = ("_gate", "_host", "_interval", "sends")

    def __init__(self, gate: SharedGate, host: str, interval: float) -> None:
        self._gate = gate
        self._host = host
        self._interval = interval
        self.sends = 0

    async def take(self) -> float:
        """Wait for the turn and take it (0.0: write now), or return how far off it is."""
        leeway = max(LEEWAY * self._interval, LEAST_LEEWAY)
        while True:
            asked_at = self._gate.clock()
            wait = await self._gate.ask(self._host, interval=self._interval, leeway=leeway)
            if wait > PATIENCE:
                return wait
            if wait > 0:
                await asyncio.sleep(wait)
            elif self._gate.clock() - asked_at <= leeway:
                self.sends += 1
                return 0.0

    def sent(self) -> None:
        """Note nothing: the leeway covers the way to the wire."""

    def answered(self) -> None:
        """Note nothing."""
