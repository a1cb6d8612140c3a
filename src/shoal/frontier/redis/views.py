"""Hosts as views.lua shows them."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.results import HostView
from shoal.redis_client import RedisClient

SLICE = 200  # hosts that one call looks at


async def views_in(
    store: RedisClient,
    scripts: Scripts,
    tag: str,
    crawls: Collection[int],
    landed: Callable[[], bytes] = bytes,
) -> list[HostView]:
    """Show the hosts of a shard that these crawls have lanes on, with what waits there of them.

    `landed` gives what the shard is still to be told of leases that are off the wire.
    """
    views: list[HostView] = []
    cursor = b"0"
    while True:
        cursor, told = await store.run(scripts.host_list, tag, [cursor, SLICE, landed()])
        views += [view_of(one, crawls) for one in told if not set(one[-1][::2]).isdisjoint(crawls)]
        if cursor == b"0":
            return views


def view_of(told: Sequence[Any], opened: Collection[int] | None = None) -> HostView:
    """Read what views.lua says of a host; only lanes of the crawls that are open count as waiting."""
    (
        name,
        interval,
        burst,
        concurrency,
        inflight,
        ready,
        crawl_delay,
        rest_until,
        slow,
        paused,
        failures,
        lanes,
    ) = told
    return HostView(
        host=name.decode(),
        waiting=sum(
            size
            for crawl, size in zip(lanes[::2], lanes[1::2], strict=True)
            if opened is None or crawl in opened
        ),
        inflight=inflight,
        interval=float(interval),
        burst=burst,
        concurrency=concurrency,
        next_turn=float(ready),
        crawl_delay=float(crawl_delay),
        rest_until=float(rest_until),
        slow=float(slow),
        paused=bool(paused),
        failures=failures,
    )
