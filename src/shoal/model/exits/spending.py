"""What a crawl has spent on exits: bytes on the wire by exit, kind and host, and what they cost. Pure."""

import heapq
from collections import Counter
from collections.abc import Mapping

import msgspec

GB = 1e9
MAX_HOSTS = 50  # named; the others are counted together
WARN_AT = 0.8  # of a budget
RESIDENTIAL, ISP = "residential", "isp"  # usually paid by the GB, and by the address


class Traffic(msgspec.Struct):
    """What one process has seen since it last told the store."""

    exits: Counter[str] = msgspec.field(default_factory=Counter)  # bytes
    kinds: Counter[str] = msgspec.field(default_factory=Counter)
    hosts: Counter[str] = msgspec.field(default_factory=Counter)
    costs: dict[str, float] = msgspec.field(default_factory=dict)  # by kind

    def __bool__(self) -> bool:
        return bool(self.exits)

    def add(self, exit: str, kind: str, host: str, size: int, price_gb: float) -> None:
        self.exits[exit] += size
        self.kinds[kind] += size
        self.hosts[host] += size
        if price_gb:
            self.costs[kind] = self.costs.get(kind, 0.0) + size / GB * price_gb

    @property
    def cost(self) -> float:
        return sum(self.costs.values())


class Spending(msgspec.Struct, frozen=True, omit_defaults=True):
    """What all processes of a crawl have spent, as it is stored."""

    exits: dict[str, int] = {}  # bytes
    kinds: dict[str, int] = {}
    hosts: dict[str, int] = {}  # those with most bytes
    other_hosts: int = 0  # bytes of all others
    costs: dict[str, float] = {}  # of the traffic by kind, in the operator's currency
    share: float = 0.0  # of the budget; 0: it has none

    @property
    def cost(self) -> float:
        return sum(self.costs.values())

    @property
    def bytes(self) -> int:
        return sum(self.kinds.values())

    @property
    def price_gb(self) -> float | None:
        """Return what a GB has cost on average, of traffic that has a price; None: none has."""
        size = sum(self.kinds.get(kind, 0) for kind, cost in self.costs.items() if cost)
        return self.cost / size * GB if size else None

    def plus(self, traffic: Traffic) -> "Spending":
        """Return the sum; only the hosts with most bytes keep their names."""
        hosts = Counter(self.hosts) + traffic.hosts
        kept = dict(heapq.nlargest(MAX_HOSTS, hosts.items(), key=lambda pair: pair[1]))
        return Spending(
            dict(Counter(self.exits) + traffic.exits),
            dict(Counter(self.kinds) + traffic.kinds),
            kept,
            self.other_hosts + hosts.total() - sum(kept.values()),
            add_costs(self.costs, traffic.costs),
        )


def add_costs(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {kind: one.get(kind, 0.0) + other.get(kind, 0.0) for kind in {**one, **other}}


class Budget(msgspec.Struct, frozen=True):
    """What a crawl may spend; 0: no limit."""

    money: float = 0.0
    gb: float = 0.0

    def __bool__(self) -> bool:
        return self.money > 0 or self.gb > 0

    def share(self, spending: Spending | Traffic) -> float:
        """Return the part of the budget that is spent: 1.0 is all of it."""
        by_money = spending.cost / self.money if self.money else 0.0
        by_traffic = sum(spending.kinds.values()) / GB / self.gb if self.gb else 0.0
        return max(by_money, by_traffic)


def cheaper_kind(
    gigabytes: float, addresses: int, *, price_gb: float, price_month: float, months: int = 1
) -> tuple[str, float]:
    """Return which is cheaper for a volume, `residential` by the GB or `isp` by the address, and from where
    on.

    The second value is the volume in GB at which both cost the same.
    """
    rent = addresses * price_month * months
    even = rent / price_gb if price_gb else float("inf")
    return (RESIDENTIAL if gigabytes < even else ISP), even
