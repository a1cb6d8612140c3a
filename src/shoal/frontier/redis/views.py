"""Host views, as views.lua returns them."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.results import HostView
from shoal.redis_client import RedisClient

HOSTS_PER_CALL = 50  # half a millisecond, which every other client of the server waits
_NO_SIGNAL = bytes(code for code in range(256) if not 0x30 <= code <= 0x37)


def signals_in(stored: bytes) -> str:
    """Return the signals of a host's latest responses, without what a damaged entry has besides."""
    return stored.translate(None, _NO_SIGNAL).decode()


async def views_in(
    store: RedisClient,
    scripts: Scripts,
    tag: str,
    crawls: Collection[int],
    landed: Callable[[], bytes] = bytes,
) -> list[HostView]:
    """Return the hosts of a shard that have lanes of these crawls, with their waiting requests.

    `landed` returns the landed requests that the shard does not know of yet, packed.
    """
    views: list[HostView] = []
    cursor = b"0"
    while True:
        cursor, found = await store.run(scripts.host_list, tag, [cursor, HOSTS_PER_CALL, landed()])
        views += [view_of(one, crawls) for one in found if not set(one[-1][::2]).isdisjoint(crawls)]
        if cursor == b"0":
            return views


def view_of(values: Sequence[Any], opened: Collection[int] | None = None) -> HostView:
    """Parse a view of views.lua; with `opened`, only lanes of those crawls count as waiting."""
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
        responses,
        lanes,
    ) = values
    return HostView(
        host=name.decode(errors="backslashreplace"),
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
        responses=signals_in(responses),
    )
