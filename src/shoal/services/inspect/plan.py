"""A plan: how long a crawl takes, what bounds it, what it costs; from measured or from given numbers."""

import math
from dataclasses import dataclass

from shoal.frontier.results import CrawlStats
from shoal.model.errors import Misconfigured
from shoal.model.exits.spending import GB, cheaper_kind
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

__all__ = ["CrawlStats", "Plan", "Prices", "compare_exits", "host_loads", "measure", "plan_json"]


async def measure(dsn: str, crawl: str | None) -> tuple[str, CrawlStats]:
    """Return the name and the statistics of a crawl of a store; without a name, of the only one."""
    if not store_exists(dsn):
        raise Misconfigured(f"there is no store at {dsn}; give --pages to plan from numbers alone")
    async with open_store(dsn) as store:
        names = await select_crawls(store, crawl)
        if len(names) != 1:
            known = ", ".join(names) or "none"
            raise Misconfigured(f"{store.address} holds several crawls or none; choose with --crawl: {known}")
        return names[0], await store.frontier.stats(names[0])


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
class Prices:
    per_gb: float | None
    addresses: int
    per_address: float | None


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
