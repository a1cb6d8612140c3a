"""Capacity as arithmetic: how fast a crawl can be, what bounds it, how long it takes, what it costs.

Two ceilings. The slots: by Little's law, a rate needs L = rate x latency requests at once, so `concurrency`
slots fetch at most concurrency / latency pages per second. The hosts: together they allow the sum of their
paces, and more workers do not change that. The lower one is the capacity; a queue of Q drains in
Q / (capacity - inflow), and never if the inflow is as high as the capacity.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

GB = 1e9


@dataclass(frozen=True, slots=True)
class HostLoad:
    host: str
    queued: int
    rate: float  # requests per second that it allows; inf: no limit


@dataclass(frozen=True, slots=True)
class Load:
    """The queue of a crawl, and the means to fetch it."""

    hosts: Sequence[HostLoad]
    latency: float  # seconds from sending a request to having its page
    concurrency: int  # requests out at once, over all workers
    inflow: float = 0.0  # new requests per second


@dataclass(frozen=True, slots=True)
class Forecast:
    queued: int
    by_hosts: float  # pages per second that the hosts allow
    by_slots: float  # pages per second that the slots can do
    capacity: float  # the lower of the two
    drain: float  # seconds until nothing is left; inf: never
    longest: HostLoad | None  # the host that takes longest by itself
    longest_s: float

    @property
    def bound_by_hosts(self) -> bool:
        """Whether the hosts are the limit, so that more workers cannot help."""
        return self.by_hosts <= self.by_slots

    @property
    def bound_by_one_host(self) -> bool:
        """Whether one host takes longer than all others together."""
        return self.longest_s > self.drain * 1.01


def forecast(load: Load) -> Forecast:
    """Compute what bounds a crawl and when it ends."""
    busy = [host for host in load.hosts if host.queued]
    by_hosts = host_ceiling([host.rate for host in busy])
    by_slots = slot_ceiling(load.concurrency, load.latency)
    capacity = min(by_hosts, by_slots)
    queued = sum(host.queued for host in busy)
    longest = max(busy, key=_alone, default=None)
    return Forecast(
        queued=queued,
        by_hosts=by_hosts,
        by_slots=by_slots,
        capacity=capacity,
        drain=drain_time(queued, capacity, load.inflow),
        longest=longest,
        longest_s=_alone(longest) if longest is not None else 0.0,
    )


def _alone(host: HostLoad) -> float:
    return drain_time(host.queued, host.rate)


def concurrency_needed(rate: float, latency: float) -> int:
    """Return the concurrency that a rate needs: Little's law, L = rate x latency."""
    return max(math.ceil(rate * latency - 1e-9), 1)


def slot_ceiling(concurrency: int, latency: float) -> float:
    """Return the pages per second that a concurrency allows: Little's law solved for the rate."""
    return concurrency / latency if latency > 0 else math.inf


def host_rate(interval: float, at_once: int, latency: float) -> float:
    """Return the requests per second that a host allows: by its pace, and by `at_once` and its latency."""
    return min(1 / interval if interval > 0 else math.inf, slot_ceiling(at_once, latency))


def host_ceiling(rates: Sequence[float]) -> float:
    """Return the rate that hosts allow together."""
    return sum(rates)


def drain_time(queued: int, capacity: float, inflow: float = 0.0) -> float:
    """Return the seconds until a queue is empty: Q / (capacity - inflow); inf if it never is."""
    if queued == 0:
        return 0.0
    net = capacity - inflow
    return queued / net if net > 0 else math.inf


def traffic_cost(pages: int, page_bytes: float, price_per_gb: float) -> float:
    """Return the price of the traffic of a number of pages."""
    return pages * page_bytes / GB * price_per_gb


def addresses_cost(addresses: int, price_per_month: float, seconds: float) -> float:
    """Return the price of rented IP addresses; each month that has begun counts."""
    return addresses * price_per_month * max(math.ceil(seconds / (30 * 86_400)), 1)
