"""The send gate: no request leaves sooner than its host's interval allows, measured where it leaves.

The frontier hands out leases at the right pace, but between a lease and its request lie name look-ups,
handshakes and the event loop's other work. So the pace is kept once more, at the moment of writing:

- A turn is asked for with the connection open and the request composed, and nothing is awaited between
  taking it and writing. (uvloop writes to the socket at once.)
- If the process was held up between the two all the same, the next turn moves by as much.
- The server's clock reads the request somewhere between our sending and its first byte. The next turn also
  moves by that time, up to 5 % of the interval, so that the gap in the server's log is not shorter than ours.

A wait of more than `PATIENCE` is not waited for: the request goes back to the frontier until then, and the
slot does something else.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from shoal.model import pace

PATIENCE = 1.0
ALLOWANCE = 0.05
SWEEP_AT = 1_000  # hosts, before the first look for idle ones


@dataclass(frozen=True, slots=True)
class HeldSlots:
    """The request was not sent: its host's turn is too far off."""

    delay: float  # seconds until then


class SendGate:
    """The last send of each host. One gate serves all crawls of a process."""

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self._tat: dict[str, float] = {}
        self._last: dict[str, Turn] = {}
        self._sweep_at = SWEEP_AT

    def __len__(self) -> int:
        return len(self._tat)

    def turn(self, host: str, *, interval: float, burst: int = 1) -> "Turn":
        """Prepare one attempt to send to `host`."""
        return Turn(self, host, interval, burst)

    def ask(self, turn: "Turn") -> float:
        """Take the host's turn and return 0, or return the seconds until it comes."""
        now = self.clock()
        tat = self._tat.get(turn.host, now)
        last = self._last.get(turn.host)
        if last is not None and turn.interval > last.interval:
            tat += turn.interval - last.interval  # the host has slowed down since: its last send counts anew
        wait = pace.next_turn(tat, interval=turn.interval, burst=turn.burst) - now
        if wait > 0:
            return wait
        turn.at = now
        self._tat[turn.host] = pace.take(tat, now=now, interval=turn.interval)
        self._last[turn.host] = turn
        if len(self._tat) > self._sweep_at:
            self._forget_idle(now)
        return 0.0

    def push_back(self, turn: "Turn", seconds: float) -> None:
        """Move the host's next turn, unless somebody has taken it already."""
        if self._last.get(turn.host) is turn:
            self._tat[turn.host] += seconds

    def _forget_idle(self, now: float) -> None:
        # A host may be forgotten once its bucket is full again, and not before: spent burst counts.
        for host in [host for host, tat in self._tat.items() if tat <= now]:
            del self._tat[host], self._last[host]
        self._sweep_at = max(SWEEP_AT, 2 * len(self._tat))


class Turn:
    """Leave to send, for one attempt: asked for before every write, a transparent second one included."""

    __slots__ = ("_gate", "at", "burst", "host", "interval", "sends")

    def __init__(self, gate: SendGate, host: str, interval: float, burst: int) -> None:
        self.host = host
        self.interval = interval
        self.burst = burst
        self.sends = 0
        self._gate = gate
        self.at = 0.0  # the last step: taken, then sent

    async def take(self) -> float:
        """Wait for the turn and take it (0.0: write now), or return how far off it is."""
        while (wait := self._gate.ask(self)) > 0:
            if wait > PATIENCE:
                return wait
            await asyncio.sleep(wait)
        self.sends += 1
        return 0.0

    def sent(self) -> None:
        """Note that the request has been written."""
        now = self._gate.clock()
        self._gate.push_back(self, now - self.at)
        self.at = now

    def answered(self) -> None:
        """Note the first byte of the answer."""
        waited = self._gate.clock() - self.at
        self._gate.push_back(self, min(waited, ALLOWANCE * self.interval))
