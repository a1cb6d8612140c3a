"""The terms on which a frontier opens a crawl, as its settings say them, blocks [hosts."name"] included."""

from collections.abc import Mapping
from typing import TypedDict

from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.pace import Pace
from shoal.model.settings import CrawlSettings, Settings


class FrontierOptions(TypedDict):
    """What every frontier takes when it opens a crawl."""

    pace: Pace
    max_crashes: int
    slowdown: SlowdownRules
    host_budget: int
    hosts: Mapping[str, Pace]


def frontier_options(settings: Settings) -> FrontierOptions:
    """Gather the terms that settings make."""
    return FrontierOptions(
        pace=pace_of(settings.crawl),
        max_crashes=settings.crawl.max_crashes,
        slowdown=settings.slowdown,
        host_budget=settings.links.per_host,
        hosts=host_paces(settings),
    )


def pace_of(settings: CrawlSettings) -> Pace:
    """Turn requests per second into an interval."""
    return Pace(1 / settings.rate if settings.rate else 0.0, settings.burst, settings.per_host)


def host_paces(settings: Settings) -> dict[str, Pace]:
    """Give the pace of every host whose block speaks of it; what the block leaves open is as in the crawl."""
    usual = pace_of(settings.crawl)
    paces = {}
    for host, block in settings.hosts.items():
        if (block.rate, block.burst, block.per_host) != (None, None, None):
            paces[host] = Pace(
                usual.interval if block.rate is None else 1 / block.rate if block.rate else 0.0,
                usual.burst if block.burst is None else block.burst,
                usual.concurrency if block.per_host is None else block.per_host,
            )
    return paces
