"""The send gate of a fleet: it keeps the pace of a host for all workers together.

The frontier grants leases at the right pace, but a worker may send a request later: after a robots.txt,
behind other requests, or because the machine is busy. Within one process the send gate corrects that; between
processes only the store can. So the worker takes each turn from the store, with the connection open and the
request composed.

A turn is a slot in time on the clock of the store, which the worker does not compare with its own. It knows
that the store answered after `asked_at` and before now. So a request that leaves when `wait` seconds have
passed since the answer leaves after its slot, and one that leaves before `asked_at + wait + leeway` leaves
less than `leeway` seconds after it. A turn for which both is impossible is lost: the worker returns it and
takes another one.

The leeway follows the measured delay of the store. So do turns that are granted ahead: while one request
waits for its answer, others are on the way. The store keeps an interval plus the leeway between the turns of
two workers, and only an interval plus a margin between those of one worker, which keeps its own requests
apart with its own clock (`SendGate`). A worker that is far from its store therefore has the pace of the host,
as long as it is the one that asks; a change of worker costs the leeway.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from shoal.fetch.gate import CROWD_SPREAD, MAX_ADDRESSES, MAX_WAIT_S, LocalTurn, SendGate
from shoal.model.pace import (
    ADDRESS_MARK,
    AddressPace,
    DelayEstimate,
    TurnAnswer,
    TurnKind,
    TurnRequest,
)

log = logging.getLogger(__name__)

MARGIN_SHARE = 0.05  # of an interval: how much slower than necessary a fleet is
MIN_MARGIN_S = 0.01  # a store nearby responds in less than 1 ms, a busy event loop does not
DELAY_FACTOR, DELAY_EXTRA_S = 1.5, 0.01  # the leeway is a little longer than the longest delay of late
AHEAD_FACTOR = 2.0  # turns are granted ahead for so many delays: one for this answer, one for another
NOT_SENT_S = 0.001  # a paused request returns to the frontier, which does not lease it until resumed
LOG_EVERY_S = 60.0
LOG_FROM = 10  # lost turns since the last line
COUNT_EVERY_S = 60.0  # after which the hosts of an address are counted again


class TakeTurn(Protocol):
    """Takes a turn of a host from the store."""

    async def __call__(self, request: TurnRequest) -> TurnAnswer: ...


class IsPaused(Protocol):
    """Returns whether nothing may be sent to a host for a crawl: asked where no rate applies."""

    async def __call__(self, crawl: str, host: str) -> bool: ...


class HostsAt(Protocol):
    """Records that a host has an address; returns how many hosts of the fleet have it."""

    async def __call__(self, address: str, host: str) -> int: ...


class SharedGate:
    """A gate whose turns come from the store."""

    def __init__(
        self,
        ask: TakeTurn,
        *,
        is_paused: IsPaused | None = None,
        hosts_at: HostsAt | None = None,
        addresses: AddressPace | None = None,
        crawl: str = "",
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.ask = ask
        self.is_paused = is_paused
        self._hosts_at = hosts_at
        self.addresses = addresses or AddressPace()
        self._counted: dict[tuple[str, str], float] = {}  # address and host -> when its hosts were counted
        self._crowds: dict[str, int] = {}  # address -> hosts that it has
        self.crawl = crawl
        self.clock = clock
        # One host: the store counts those that the others send to.
        self.local = SendGate(clock=clock, addresses=self.addresses, few_hosts=1)
        self.delay = DelayEstimate()
        self.lost = 0  # turns that could not be used in time
        self._logged_at = -LOG_EVERY_S
        self._logged = 0

    def turn(self, host: str, *, interval: float, burst: int = 1, early: float = 0.0) -> "SharedTurn":
        """Return a turn for one attempt to send to `host`, taken up to `early` seconds before it is due."""
        return SharedTurn(self, self.local.turn(host, interval=interval, burst=burst, early=early))

    def known_interval(self, host: str) -> float:
        """Return the interval that the latest turn of this process at a host keeps; 0.0: it had none."""
        return self.local.known_interval(host)

    def request(self, host: str, interval: float, receipt: str, early: float = 0.0) -> TurnRequest:
        """Return what to ask the store for."""
        margin = max(MARGIN_SHARE * interval, MIN_MARGIN_S)
        leeway, ahead = margin, 0.0
        if self.delay.worst > margin / 2:
            leeway = max(margin, DELAY_FACTOR * self.delay.worst + DELAY_EXTRA_S)
            ahead = AHEAD_FACTOR * self.delay.typical
        return TurnRequest(host, interval, margin, leeway, max(ahead, early), self.crawl, receipt)

    async def crowd_wait(self, address: str, host: str, interval: float, own: float) -> float:
        """Wait for the turn of an address or site; if it is too far away, return the seconds until it.

        `interval` is that of the host, `own` that of the address. The pace of its hosts limits an address
        that has few. So turns are taken only for one that has many.
        """
        if await self._count_hosts(address, host) * own <= interval:
            return 0.0
        asked = TurnRequest(f"{ADDRESS_MARK}{address}", own, 0.0, 0.0, ahead=MAX_WAIT_S)
        answer = await self.ask(asked)
        if answer.kind is not TurnKind.GRANTED:
            return answer.wait * random.uniform(1.0, CROWD_SPREAD)
        if answer.wait > 0:
            await asyncio.sleep(answer.wait)
        return 0.0

    async def _count_hosts(self, address: str, host: str) -> int:
        now, place = self.clock(), (address, host)
        if self._hosts_at is not None and now - self._counted.get(place, -COUNT_EVERY_S) >= COUNT_EVERY_S:
            if len(self._counted) >= MAX_ADDRESSES:
                self._counted.clear()
                self._crowds.clear()
            self._counted[place] = now
            self._crowds[address] = await self._hosts_at(address, host)
        return self._crowds.get(address, 1)

    def record_lost(self, host: str, late: float) -> None:
        """Count a turn that was lost; log them once a minute, unless a busy moment explains so few."""
        self.lost += 1
        now = self.clock()
        if self.lost - self._logged >= LOG_FROM and now - self._logged_at >= LOG_EVERY_S:
            about = {"host": host, "late_ms": round(late * 1000), "lost": self.lost - self._logged}
            delay = {"store_delay_ms": round(self.delay.typical * 1000), "see": "shoal doctor --store DSN"}
            log.warning("turns.lost", extra={**about, **delay})
            self._logged_at, self._logged = now, self.lost


class SharedTurn:
    """Permission to send, for one attempt: taken before every write, a transparent second one included."""

    __slots__ = ("_gate", "_local", "_receipt", "sends", "timing")

    def __init__(self, gate: SharedGate, local: LocalTurn) -> None:
        self._gate = gate
        self._local = local
        self._receipt = ""  # of a turn that was taken and not used
        self.timing = local.timing
        self.sends = 0

    @property
    def interval(self) -> float:
        return self._local.interval

    def known_wait(self) -> float:
        """Return the seconds until the turn, as this process knows it: the store may know more."""
        return self._local.known_wait()

    async def take(self, address: str = "") -> float:
        """Wait for the turn, take it and return 0.0; if it is too far away, return the seconds until it."""
        gate, local = self._gate, self._local
        for crowd, interval in gate.local.crowds(local.host, address, local.interval):
            if (wait := local.known_wait()) > MAX_WAIT_S:
                return wait  # another request can use the turn of the crowd
            if (wait := await gate.crowd_wait(crowd, local.host, local.interval, interval)) > 0:
                return wait
        if local.interval <= 0:
            if gate.is_paused is not None and await gate.is_paused(gate.crawl, local.host):
                return NOT_SENT_S
            self.sends += 1
            return 0.0
        while True:
            asked = gate.request(local.host, local.interval, self._receipt, local.early)
            answer = await gate.ask(asked)
            took = gate.clock() - answer.asked_at
            gate.delay.note(took)
            if answer.kind is TurnKind.PAUSED:
                return NOT_SENT_S
            if answer.kind is TurnKind.WAIT:
                self._receipt = ""
                # A turn within that time is granted: the host rests, and no request may leave early.
                rests = answer.wait <= asked.ahead
                wait = answer.wait - (0.0 if rests else local.early)
                if wait > MAX_WAIT_S:
                    return wait
                await asyncio.sleep(
                    wait if rests else max(answer.wait - max(asked.ahead / 2, local.early), 0.0)
                )
                continue
            self._receipt = answer.receipt
            # The store may have answered just now. A slot that was granted ahead must not be used early then.
            late = took - asked.leeway
            if late <= 0:
                if answer.wait > local.early:
                    await asyncio.sleep(answer.wait - local.early)
                late = await self._wait_until_free(answer.asked_at + answer.wait + asked.leeway)
            if late <= 0:
                return 0.0
            gate.delay.note(took + late)
            gate.record_lost(local.host, late)

    async def _wait_until_free(self, deadline: float) -> float:
        """Keep the distance to the last request of this process; return how late that is for the deadline."""
        gate, local = self._gate, self._local
        while (now := gate.clock()) <= deadline:
            if (wait := gate.local.ask(local)) <= 0:
                self.sends += 1
                return 0.0
            if now + wait > deadline:
                return now + wait - deadline
            await asyncio.sleep(wait)
        return now - deadline

    def sent(self) -> None:
        """Record that the request has been written."""
        self._receipt = ""
        self._local.sent()

    def answered(self) -> None:
        """Record the first byte of the response."""
        self._local.answered()
