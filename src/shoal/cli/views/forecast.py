"""The output of `shoal plan`."""

import math
from collections.abc import Iterator

from shoal.cli.views.format import duration, plural, size
from shoal.services.inspect.capacity import addresses_cost, concurrency_needed, traffic_cost
from shoal.services.inspect.plan import Plan, compare_exits
from shoal.services.inspect.volume import KNOWN_PER_PAGE, WAITING_PER_PAGE, Volume, VolumeAdvice


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield what there is to fetch, what bounds it, when it ends and what it costs."""
    load, found = plan.load, plan.forecast
    yield f"plan: {plan.title}"
    busy = sum(1 for host in load.hosts if host.queued)
    yield f"  to fetch    {plural(found.queued, 'page')} on {plural(busy, 'host')}"
    if not found.queued:
        return
    yield f"  a page      takes {duration(load.latency)} and {size(plan.page_bytes)}"
    yield f"  hosts       allow {_rate(found.by_hosts)} together"
    yield f"  slots       {load.concurrency:,} at once can do {_rate(found.by_slots)}"
    if found.by_hosts == 0:
        yield "  bounded by  a pause: shoal host resume HOST ends it"
    elif found.bound_by_hosts:
        enough = concurrency_needed(found.by_hosts, load.latency)
        yield f"  bounded by  the hosts' pace: more workers do not help, --concurrency {enough:,} is enough"
    else:
        yield "  bounded by  the slots: more --concurrency or workers help, if this machine is fast enough"
    yield f"  done in     {_ending(plan)}"
    if plan.within is not None:
        yield f"  in time     {_in_time(plan)}"
    yield from _costs(plan)


def _ending(plan: Plan) -> str:
    load, found = plan.load, plan.forecast
    if math.isinf(found.drain):
        if load.inflow >= found.capacity > 0:
            return f"never: {load.inflow:g} new URLs per second, but only {_rate(found.capacity)} fetched"
        return "never, at the current rates"
    text = duration(found.drain)
    if found.longest is not None and found.bound_by_one_host:
        host = found.longest
        alone = "forever" if math.isinf(found.longest_s) else duration(found.longest_s)
        pages = f"{plural(host.queued, 'page')} at {_rate(host.rate)}"
        text += f"; but {host.host} alone takes {alone}: {pages}"
    return text


def _in_time(plan: Plan) -> str:
    assert plan.within is not None
    found, needed = plan.forecast, plan.forecast.queued / plan.within + plan.load.inflow
    if max(found.drain, found.longest_s) <= plan.within:
        return "yes"
    if needed > found.by_hosts or found.longest_s > plan.within:
        return f"no, more workers cannot help: {_rate(needed)} needed, hosts allow {_rate(found.by_hosts)}"
    at_once = concurrency_needed(needed, plan.load.latency)
    return f"only with {at_once:,} requests at once: {_rate(needed)} at {duration(plan.load.latency)} a page"


def _costs(plan: Plan) -> Iterator[str]:
    pages, prices = plan.forecast.queued, plan.prices
    traffic = f"  traffic     {size(pages * plan.page_bytes)}"
    if prices.per_gb is not None:
        cost = traffic_cost(pages, plan.page_bytes, prices.per_gb)
        traffic += f", {cost:,.2f} at {prices.per_gb:g} per GB"
    yield traffic
    if prices.addresses and prices.per_address is not None:
        seconds = plan.forecast.drain if math.isfinite(plan.forecast.drain) else 0.0
        cost = addresses_cost(prices.addresses, prices.per_address, seconds)
        yield f"  addresses   {cost:,.2f} for {prices.addresses:,} at {prices.per_address:g} a month"
    if (found := compare_exits(plan)) is not None:
        kind, even = found
        how = "by the GB" if kind == "residential" else "by the address"
        yield f"  exits       {kind}, paid {how}: from {even:,.1f} GB on, addresses cost less"


def _rate(rate: float) -> str:
    if math.isinf(rate):
        return "any number of pages/s"
    return f"{rate:,.0f} pages/s" if rate >= 100 else f"{rate:.3g} pages/s"


def volume_lines(volume: Volume, advice: VolumeAdvice) -> Iterator[str]:
    """Yield what a number of pages per day needs."""
    yield f"plan: {round(volume.per_day):,} pages per day ({advice.volume_class})"
    yield f"  speed       {_rate(advice.per_second)}, {advice.per_minute:,.0f} pages per minute"
    yield f"  a page      takes {duration(volume.latency)} and {size(volume.page_bytes)}"
    pace = f"at {volume.rate:g} requests per second each" if volume.rate else "without a limit"
    yield f"  hosts       at least {advice.hosts:,}, {pace}"
    yield f"  workers     {advice.workers:,}, with {plural(advice.slots, 'request')} at once in all"
    known = f"{KNOWN_PER_PAGE} known and {WAITING_PER_PAGE} waiting URLs per page of a day"
    yield f"  store       {size(advice.store_bytes)} of memory, for {known}"
    yield f"  exits       {advice.exits}, if sites need them"
    cost = (
        "" if advice.traffic_cost is None else f", {advice.traffic_cost:,.2f} at {volume.price_gb:g} per GB"
    )
    yield f"  traffic     {advice.gb_per_month:,.1f} GB per month{cost}"
    if advice.addresses_cost is not None:
        yield f"  addresses   {volume.addresses:,} for {advice.addresses_cost:,.2f} per month"
