"""The blocks [hosts."name"] of the settings, applied to the frontier's hosts when a crawl is opened."""

from typing import TypeVar

import msgspec

from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.settings import HostSettings, Settings

_KEY = "host_blocks"
_N = TypeVar("_N", int, float)


async def apply_blocks(frontier: SqliteFrontier, crawl: str, settings: Settings) -> None:
    """Give hosts the pace of their blocks; one whose block is gone gets the crawl's own pace back.

    A pace set by hand stays with a host. So the crawl remembers which hosts ever had a block.
    """
    stored = await frontier.crawl_get(crawl, _KEY)
    before: set[str] = set() if stored is None else msgspec.json.decode(stored, type=set[str])
    paced = {host for host, block in settings.hosts.items() if _has_pace(block)}
    for host in sorted(before | paced):
        block = settings.hosts.get(host, HostSettings())
        rate = _either(block.rate, settings.crawl.rate)
        await frontier.host_set(
            host,
            interval=1 / rate if rate else 0.0,
            burst=_either(block.burst, settings.crawl.burst),
            concurrency=_either(block.per_host, settings.crawl.per_host),
        )
    if paced - before:
        await frontier.crawl_set(crawl, _KEY, msgspec.json.encode(sorted(before | paced)))


def _has_pace(block: HostSettings) -> bool:
    return (block.rate, block.burst, block.per_host) != (None, None, None)


def _either(own: _N | None, common: _N) -> _N:
    return common if own is None else own
