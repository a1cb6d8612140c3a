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
kept on average, with bursts of at most a second. So has a site, a registrable domain, once it has more hosts
than may be asked at their full rate at once: a wildcard in the DNS gives it any number of hosts and
addresses.
All hosts of a site share the pace of one host if the crawl asks for that (`pace_by`).

Other processes may take turns of this gate (`grant`), each as a slot in time that the taker meets with its
own clock (`fetch/shared_gate.py`): one gate keeps the pace of a host for all of them.

If the turn is more than `MAX_WAIT_S` away, the request goes back to the frontier until then, and its slot is
free for another one.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from time import monotonic

from shoal.model import pace
from shoal.model.pace import ADDRESS_MARK, AddressPace, TurnAnswer, TurnKind, TurnRequest
from shoal.model.page import Timing
from shoal.model.url import site_of

MAX_WAIT_S = 1.0
LATENCY_ALLOWANCE = 0.05
CROWD_SPREAD = 4.0  # requests to a busy address return after up to this multiple of the wait, not together
MAX_ADDRESSES = 10_000  # number of addresses at which idle ones are removed
FEW_HOSTS = 5  # of a site that may be asked at their full rate at once, as of an address (`ADDRESS_FACTOR`)
MAX_SITES = 10_000  # number of sites at which their hosts are counted anew
SWEEP_HOSTS = 1_000  # number of hosts at which idle ones are first removed


class SendGate:
    """The last send to each host. One gate serves all crawls of a process."""

    def __init__(
        self,
        *,
        hold: Callable[[str], float] | None = None,
        addresses: AddressPace | None = None,
        clock: Callable[[], float] = monotonic,
        few_hosts: int = FEW_HOSTS,
    ) -> None:
        """`hold` returns for how many seconds nothing may be sent to a host; 0.0: it may.

        A site has a separate pace once this process sends to more than `few_hosts` of its hosts.
        """
        self.addresses = addresses or AddressPace()
        self._address_tat: dict[str, float] = {}
        self._few_hosts = few_hosts
        self._only_host: str | None = ""  # None: there are several
        self._site_hosts: dict[str, set[str]] = {}  # up to one more than a few of each
        self.hold = hold
        self.clock = clock
        self._tat: dict[str, float] = {}
        self._last: dict[str, LocalTurn] = {}
        self._granted = 0  # turns of other processes
        self._sweep_at = SWEEP_HOSTS

    def __len__(self) -> int:
        return len(self._tat)

    def turn(self, host: str, *, interval: float, burst: int = 1, early: float = 0.0) -> "LocalTurn":
        """Return a turn for one attempt to send to `host`, taken up to `early` seconds before it is due."""
        return LocalTurn(self, host, interval, burst, early)

    def known_interval(self, host: str) -> float:
        """Return the interval that the latest turn of a host keeps; 0.0: nothing is known of it."""
        return self._last[host].interval if host in self._last else 0.0

    def known_wait(self, turn: "LocalTurn") -> float:
        """Return the seconds until a turn is due, without taking it."""
        if turn.interval <= 0 or turn.host not in self._tat:
            return 0.0
        due = pace.next_turn(self._tat[turn.host], interval=turn.interval, burst=turn.burst)
        return due - turn.early - self.clock()

    def ask(self, turn: "LocalTurn") -> float:
        """Take the host's turn and return 0.0, or return the seconds until it is due."""
        if turn.interval <= 0:
            return 0.0
        now = self.clock()
        tat = self._tat.get(turn.host, now)
        last = self._last.get(turn.host)
        if last is not None and turn.interval > last.interval:
            tat += turn.interval - last.interval  # the interval has grown since: apply it to the last send
        wait = pace.next_turn(tat, interval=turn.interval, burst=turn.burst) - turn.early - now
        if wait > 0:
            return wait
        turn.at = now
        self._tat[turn.host] = pace.take(tat, now=now, interval=turn.interval)
        self._last[turn.host] = turn
        if len(self._tat) > self._sweep_at:
            self._remove_idle(now)
        return 0.0

    def grant(self, asked: TurnRequest, taker: str) -> TurnAnswer:
        """Grant the turn of a host to another process, or return how long it has to wait.

        The taker sends between its slot and `leeway` seconds after it, and keeps the distance between its
        own requests with its own clock. So its next slot is an interval and the margin after this one, and
        that of anything else an interval and the leeway.
        """
        now = self.clock()
        if asked.host.startswith(ADDRESS_MARK):
            wait = self.reserve(asked.host.removeprefix(ADDRESS_MARK), asked.interval)
            return TurnAnswer(TurnKind.GRANTED if wait <= MAX_WAIT_S else TurnKind.WAIT, wait, now)
        last, tat = self._last.get(asked.host), self._tat.get(asked.host, now)
        if isinstance(last, GrantedTurn) and last.taker == taker:
            # The latest turn was the taker's: it is either returned, or followed by its own clock.
            tat = last.before if asked.receipt == last.receipt else tat - last.head_start
        if last is not None and asked.interval > last.interval:
            tat += asked.interval - last.interval
        if tat - now > asked.ahead:
            return TurnAnswer(TurnKind.WAIT, tat - now, now)
        slot = max(tat, now)
        others = max(asked.leeway, asked.margin)
        self._granted += 1
        turn = GrantedTurn(
            self, asked, taker, str(self._granted), before=tat, head_start=others - asked.margin
        )
        turn.at = slot
        self._last[asked.host], self._tat[asked.host] = turn, slot + asked.interval + others
        if len(self._tat) > self._sweep_at:
            self._remove_idle(now)
        return TurnAnswer(TurnKind.GRANTED, slot - now, now, turn.receipt)

    def crowds(self, host: str, address: str, interval: float) -> Iterator[tuple[str, float]]:
        """Yield what paces several hosts together, each with its interval: a site, an address."""
        if self.addresses.by_site and interval > 0:
            yield site_of(host), interval
        elif (own := self.addresses.site_interval_for(interval)) > 0 and (site := self._crowded_site(host)):
            yield site, own
        if address and (own := self.addresses.interval_for(interval)) > 0:
            yield address, own

    def _crowded_site(self, host: str) -> str:
        """Return the site of a host if this process sends to many of its hosts, else an empty string."""
        if self._only_host in ("", host):  # a crawl of one host looks up no site
            self._only_host = host
            return ""
        self._only_host = None
        site = site_of(host)
        if site == host:
            return ""
        if (hosts := self._site_hosts.get(site)) is None:
            if len(self._site_hosts) >= MAX_SITES:
                self._site_hosts.clear()
            hosts = self._site_hosts[site] = set()
        if len(hosts) <= self._few_hosts:
            hosts.add(host)
        return site if len(hosts) > self._few_hosts else ""

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

    __slots__ = ("_gate", "at", "burst", "early", "host", "interval", "sends", "timing")

    def __init__(self, gate: SendGate, host: str, interval: float, burst: int, early: float = 0.0) -> None:
        self.host = host
        self.interval = interval
        self.burst = burst
        self.early = early
        self.sends = 0
        self.timing = Timing()
        self._gate = gate
        self.at = 0.0  # when it was taken, then when the request was sent

    def known_wait(self) -> float:
        """Return the seconds until the turn, as this process knows it."""
        return self._gate.known_wait(self)

    async def take(self, address: str = "") -> float:
        """Wait for the turn, take it and return 0.0; if it is too far away, return the seconds until it."""
        gate = self._gate
        for crowd, interval in gate.crowds(self.host, address, self.interval):
            if (wait := self._wait_of_host()) > 0:
                return wait  # another request can use the turn of the crowd
            if (wait := gate.reserve(crowd, interval)) > MAX_WAIT_S:
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

    def _wait_of_host(self) -> float:
        """Return for how long the host keeps the request from leaving; 0.0: not for long."""
        if self._gate.hold is not None and (held := self._gate.hold(self.host)) > 0:
            return held
        wait = self.known_wait()
        return wait if wait > MAX_WAIT_S else 0.0

    def sent(self) -> None:
        """Record that the request has been written."""
        now = self._gate.clock()
        self._gate.push_back(self, now - self.at)
        self.at = now

    def answered(self) -> None:
        """Record the first byte of the response."""
        waited = self._gate.clock() - self.at
        self._gate.push_back(self, min(waited, LATENCY_ALLOWANCE * self.interval))


class GrantedTurn(LocalTurn):
    """A turn that another process has taken."""

    __slots__ = ("before", "head_start", "receipt", "taker")

    def __init__(
        self,
        gate: SendGate,
        asked: TurnRequest,
        taker: str,
        receipt: str,
        *,
        before: float,
        head_start: float,
    ) -> None:
        super().__init__(gate, asked.host, asked.interval, 1)
        self.taker = taker
        self.receipt = receipt
        self.before = before  # the host's next turn if this one is not used
        self.head_start = head_start  # seconds by which the taker's next turn is earlier than that of others
