"""A plan: how long a crawl takes, what bounds it, what it costs; from measured or from given numbers."""

import math
from dataclasses import dataclass
from statistics import fmean

from shoal.fetch.exits.exit_list import read_exits
from shoal.fetch.exits.ledger import crawl_key, read_spending
from shoal.frontier.results import CrawlStats
from shoal.model.errors import Misconfigured
from shoal.model.exits.spending import GB, RESIDENTIAL, Spending, cheaper_kind
from shoal.model.settings import Settings
from shoal.services.inspect.capacity import (
    Forecast,
    HostLoad,
    Load,
    addresses_cost,
    concurrency_needed,
    host_rate,
    traffic_cost,
)
from shoal.stores.contract.store import select_crawls
from shoal.stores.open import open_store, store_exists

__all__ = [
    "CrawlStats",
    "Plan",
    "Prices",
    "compare_exits",
    "exit_prices",
    "host_loads",
    "measure",
    "plan_json",
]


@dataclass(frozen=True, slots=True)
class Prices:
    per_gb: float | None
    addresses: int
    per_address: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """What a crawl has measured, and paid for exits."""

    crawl: str
    stats: CrawlStats
    spent: Spending
    page_bytes: float  # 0: not known


async def measure(dsn: str, crawl: str | None) -> Measured:
    """Return what a crawl of a store has measured; without a name, the only one."""
    if not store_exists(dsn):
        raise Misconfigured(f"there is no store at {dsn}; give --pages to plan from numbers alone")
    async with open_store(dsn) as store:
        names = await select_crawls(store, crawl)
        if len(names) != 1:
            known = ", ".join(names) or "none"
            raise Misconfigured(f"{store.address} holds several crawls or none; choose with --crawl: {known}")
        [name] = names
        stats, counts = await store.frontier.stats(name), await store.frontier.counts(name)
        spent = read_spending(await store.exits.get(crawl_key(name)))
    # Exits are paid for more than the pages: for handshakes, robots.txt and responses that were errors.
    fetched = counts.done + counts.parsing
    billed = spent.bytes / fetched if fetched else 0.0
    return Measured(name, stats, spent, billed or stats.wire_bytes)


def exit_prices(settings: Settings, spent: Spending | None = None) -> Prices:
    """Return what exits cost: a GB as a crawl has paid for it, else the lowest price of residential ones."""
    exits = read_exits(settings.proxies.list)
    priced = [exit for exit in exits if exit.price_gb]
    residential = [exit for exit in priced if RESIDENTIAL in exit.kinds]
    listed = min((exit.price_gb for exit in residential or priced), default=None)
    rents = [exit.price_month for exit in exits if exit.price_month]
    paid = None if spent is None else spent.price_gb
    return Prices(paid or listed, len(rents), fmean(rents) if rents else None)


def host_loads(stats: CrawlStats, latency: float) -> list[HostLoad]:
    """Return the queue of each host and how often it can be fetched; a paused host, never."""
    return [
        HostLoad(
            queue.host,
            queue.queued,
            0.0 if queue.paused else host_rate(queue.interval, queue.concurrency, latency),
        )
        for queue in stats.hosts
    ]


@dataclass(frozen=True, slots=True)
class Plan:
    """The question and the forecast."""

    title: str
    load: Load
    forecast: Forecast
    page_bytes: float
    within: float | None
    prices: Prices


def cheaper_exits(plan: Plan) -> str | None:
    """Return the kind of exits that costs less for the volume of a plan; None: a price is not known."""
    found = compare_exits(plan)
    return None if found is None else found[0]


def compare_exits(plan: Plan) -> tuple[str, float] | None:
    """Return the cheaper kind of exits, and the volume in GB from which on addresses cost less."""
    prices, drain = plan.prices, plan.forecast.drain
    if prices.per_gb is None or prices.per_address is None or not prices.addresses:
        return None
    months = max(math.ceil(drain / (30 * 86_400)), 1) if math.isfinite(drain) else 1
    return cheaper_kind(
        plan.forecast.queued * plan.page_bytes / GB,
        prices.addresses,
        price_gb=prices.per_gb,
        price_month=prices.per_address,
        months=months,
    )


def plan_json(plan: Plan) -> dict[str, object]:
    """Return the forecast for --json; infinite values are null."""
    load, found, prices = plan.load, plan.forecast, plan.prices
    finite = found.drain if math.isfinite(found.drain) else None
    bounded = math.isfinite(found.capacity)
    return {
        "pages": found.queued,
        "hosts": sum(1 for host in load.hosts if host.queued),
        "latency_s": load.latency,
        "page_bytes": plan.page_bytes,
        "concurrency": load.concurrency,
        "concurrency_enough": concurrency_needed(found.capacity, load.latency) if bounded else None,
        "pages_per_s": found.capacity if bounded else None,
        "pages_per_s_by_hosts": found.by_hosts if math.isfinite(found.by_hosts) else None,
        "bounded_by": "hosts" if found.bound_by_hosts else "slots",
        "drain_s": finite,
        "longest_host": None if found.longest is None else found.longest.host,
        "longest_host_s": found.longest_s if math.isfinite(found.longest_s) else None,
        "traffic_bytes": found.queued * plan.page_bytes,
        "traffic_cost": None
        if prices.per_gb is None
        else traffic_cost(found.queued, plan.page_bytes, prices.per_gb),
        "cheaper_exits": cheaper_exits(plan),
        "addresses_cost": None
        if prices.per_address is None
        else addresses_cost(prices.addresses, prices.per_address, finite or 0.0),
    }
