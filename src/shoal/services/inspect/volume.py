"""What a number of pages per day needs: workers, memory of the store, hosts, exits, money. Pure."""

import math
from dataclasses import dataclass
from enum import StrEnum

from shoal.services.inspect.capacity import concurrency_needed, traffic_cost

DAY_S = 86_400.0
MONTH_DAYS = 30
WORKER_PAGES_S = 150.0  # that one worker fetches and parses; measured: several times that, on one core
WORKER_SLOTS = 64
SPARE = 1.25  # for hours that are busier than the average of a day
KNOWN_PER_PAGE = 10  # URLs that the store remembers for each page of a day, over the life of a crawl
WAITING_PER_PAGE = 3  # of those, URLs that wait
KNOWN_BYTES, WAITING_BYTES = 10.0, 170.0  # in Redis; docs/performance.md


class VolumeClass(StrEnum):
    """Pages per day, in the classes that people plan by."""

    SMALL = "below 10,000"
    MEDIUM = "10,000 to 100,000"
    LARGE = "100,000 to 1,000,000"
    HUGE = "above 1,000,000"


EXITS = {
    VolumeClass.SMALL: "residential, rotating",
    VolumeClass.MEDIUM: "residential, rotating",
    VolumeClass.LARGE: "residential for discovery, ISP for pages",
    VolumeClass.HUGE: "ISP, sticky, for pages; residential, rotating, for discovery",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """The question: pages per day, and what one page takes."""

    per_day: float
    rate: float  # requests per second and host; 0: no limit
    latency: float
    page_bytes: float
    price_gb: float | None = None
    price_address: float | None = None  # per month
    addresses: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeAdvice:
    volume_class: VolumeClass
    per_second: float
    per_minute: float
    hosts: int  # that are needed at their pace; 1 without a limit
    slots: int  # requests at once
    workers: int
    store_bytes: float
    exits: str
    gb_per_month: float
    traffic_cost: float | None  # per month
    addresses_cost: float | None


def class_of(per_day: float) -> VolumeClass:
    if per_day < 10_000:
        return VolumeClass.SMALL
    if per_day <= 100_000:
        return VolumeClass.MEDIUM
    return VolumeClass.LARGE if per_day <= 1_000_000 else VolumeClass.HUGE


def advise(volume: Volume) -> VolumeAdvice:
    """Return what a number of pages per day needs."""
    per_second = volume.per_day / DAY_S
    busy = per_second * SPARE
    slots = concurrency_needed(busy, volume.latency)
    by_slots, by_work = math.ceil(slots / WORKER_SLOTS), math.ceil(busy / WORKER_PAGES_S)
    found = class_of(volume.per_day)
    spare = 1 if found in (VolumeClass.LARGE, VolumeClass.HUGE) else 0  # so that one may fail
    month = volume.per_day * MONTH_DAYS
    return VolumeAdvice(
        volume_class=found,
        per_second=per_second,
        per_minute=per_second * 60,
        hosts=max(1, math.ceil(busy / volume.rate)) if volume.rate else 1,
        slots=slots,
        workers=max(1, by_slots, by_work) + spare,
        store_bytes=volume.per_day * (KNOWN_PER_PAGE * KNOWN_BYTES + WAITING_PER_PAGE * WAITING_BYTES),
        exits=EXITS[found],
        gb_per_month=month * volume.page_bytes / 1e9,
        traffic_cost=None
        if volume.price_gb is None
        else traffic_cost(round(month), volume.page_bytes, volume.price_gb),
        addresses_cost=None
        if volume.price_address is None or not volume.addresses
        else volume.addresses * volume.price_address,
    )


def advice_json(advice: VolumeAdvice) -> dict[str, object]:
    return {
        "volume_class": advice.volume_class.value,
        "pages_per_s": round(advice.per_second, 3),
        "pages_per_min": round(advice.per_minute, 1),
        "hosts": advice.hosts,
        "concurrency": advice.slots,
        "workers": advice.workers,
        "store_bytes": round(advice.store_bytes),
        "exits": advice.exits,
        "gb_per_month": round(advice.gb_per_month, 3),
        "traffic_cost": advice.traffic_cost,
        "addresses_cost": advice.addresses_cost,
    }
