"""The send gate: no request is sent sooner than its host's interval allows, measured when it is sent.

The frontier grants leases at the right pace, but DNS lookups, handshakes and other work of the event loop
come between a lease and its request. So the pace is enforced again at the moment of writing:

- The client takes a turn with the connection open and the request composed, and awaits nothing between taking
  it
  and writing. (uvloop writes to the socket at once.)
- If the process was delayed between the two anyway, the next turn moves by the same time.
- The server logs the request at some time between our sending and its first byte. The next turn also moves by
  that
  time, up to 5 % of the interval, so that the gap in the server's log is not shorter than ours.

A pause holds from the moment at which it is set: `hold` is asked before every turn, also where no rate
applies.

Several hosts may have one address. It has a separate pace (`AddressPace`): a request first takes a turn of
its address, then one of its host. A request may have to wait for the second, so the pace of an address is
kept on average, with bursts of at most a second.

If the turn is more than `MAX_WAIT_S` away, the request goes back to the frontier until then, and its slot is
free for another one.
"""

import asyncio
import random
from collections.abc import Callable
from time import monotonic

from shoal.model import pace
from shoal.model.pace import AddressPace

MAX_WAIT_S = 1.0
LATENCY_ALLOWANCE = 0.05
CROWD_SPREAD = 4.0  # requests to a busy address return after up to this multiple of the wait, not together
MAX_ADDRESSES = 10_000  # number of addresses at which idle ones are removed
SWEEP_HOSTS = 1_000  # number of hosts at which idle ones are first removed


class SendGate:
    """The last send to each host. One gate serves all crawls of a process."""

    def __init__(
        self,
        *,
        hold: Callable[[str], float] | None = None,
        addresses: AddressPace | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`hold` returns for how many seconds nothing may be sent to a host; 0.0: it may."""
        self.addresses = addresses or AddressPace()
        self._address_tat: dict[str, float] = {}
        self.hold = hold
        self.clock = clock
        self._tat: dict[str, float] = {}
        self._last: dict[str, LocalTurn] = {}
        self._sweep_at = SWEEP_HOSTS

    def __len__(self) -> int:
        return len(self._tat)

    def turn(self, host: str, *, interval: float, burst: int = 1) -> "LocalTurn":
        """Return a turn for one attempt to send to `host`."""
        return LocalTurn(self, host, interval, burst)

    def ask(self, turn: "LocalTurn") -> float:
        """Take the host's turn and return 0.0, or return the seconds until it is due."""
        if turn.interval <= 0:
            return 0.0
        now = self.clock()
        tat = self._tat.get(turn.host, now)
        last = self._last.get(turn.host)
        if last is not None and turn.interval > last.interval:
            tat += turn.interval - last.interval  # the interval has grown since: apply it to the last send
        wait = pace.next_turn(tat, interval=turn.interval, burst=turn.burst) - now
        if wait > 0:
            return wait
        turn.at = now
        self._tat[turn.host] = pace.take(tat, now=now, interval=turn.interval)
        self._last[turn.host] = turn
        if len(self._tat) > self._sweep_at:
            self._remove_idle(now)
        return 0.0

    def reserve(self, address: str, interval: float) -> float:
        """Reserve the next turn of an address and return the seconds until it; not if it is too far away."""
        now = self.clock()
        tat = max(self._address_tat.get(address, now), now)
        if tat - now <= MAX_WAIT_S:
            self._address_tat[address] = pace.take(tat, now=now, interval=interval)
            if len(self._address_tat) > MAX_ADDRESSES:
                self._address_tat = {known: at for known, at in self._address_tat.items() if at > now}
        return tat - now

    def push_back(self, turn: "LocalTurn", seconds: float) -> None:
        """Delay the host's next turn, unless it has been taken already."""
        if self._last.get(turn.host) is turn:
            self._tat[turn.host] += seconds

    def _remove_idle(self, now: float) -> None:
        # A host can be removed once its bucket is full again, not before: a spent burst must still count.
        for host in [host for host, tat in self._tat.items() if tat <= now]:
            del self._tat[host], self._last[host]
        self._sweep_at = max(SWEEP_HOSTS, 2 * len(self._tat))


class LocalTurn:
    """Permission to send, for one attempt: taken before every write, a transparent second one included."""

    __slots__ = ("_gate", "at", "burst", "host", "interval", "sends")

    def __init__(self, gate: SendGate, host: str, interval: float, burst: int) -> None:
        self.host = host
        self.interval = interval
        self.burst = burst
        self.sends = 0
        self._gate = gate
        self.at = 0.0  # when it was taken, then when the request was sent

    async def take(self, address: str = "") -> float:
        """Wait for the turn, take it and return 0.0; if it is too far away, return the seconds until it."""
        gate = self._gate
        if address and (interval := gate.addresses.interval_for(self.interval)) > 0:
            if (wait := gate.reserve(address, interval)) > MAX_WAIT_S:
                return wait * random.uniform(1.0, CROWD_SPREAD)
            if wait > 0:
                await asyncio.sleep(wait)
        while True:
            if gate.hold is not None and (held := gate.hold(self.host)) > 0:
                return held
            if (wait := gate.ask(self)) <= 0:
                self.sends += 1
                return 0.0
            if wait > MAX_WAIT_S:
                return wait
            await asyncio.sleep(wait)

    def sent(self) -> None:
        """Record that the request has been written."""
        now = self._gate.clock()
        self._gate.push_back(self, now - self.at)
        self.at = now

    def answered(self) -> None:
        """Record the first byte of the response."""
        waited = self._gate.clock() - self.at
        self._gate.push_back(self, min(waited, LATENCY_ALLOWANCE * self.interval))
