"""What a worker reports about itself."""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from shoal.model.quarantine import Count, Rate, Seconds


class CrawlActivity(msgspec.Struct, frozen=True):
    """A crawl, as one worker runs it."""

    crawl: str
    version: str  # of the spider's code: `shoal status` reports a crawl that workers run in two versions
    in_flight: Count
    pages: Count  # since the worker opened the crawl
    rate: Rate  # pages per second
    parsing: Count = 0  # pages that its parse processes have
    lost_turns: Count = 0  # turns of hosts that came too late from the store, since the crawl was opened
    store_delay: Seconds = 0.0  # that the store takes to grant a turn


class OutputActivity(msgspec.Struct, frozen=True):
    """An output, as one worker serves it."""

    crawl: str
    output: str  # without secrets
    # "writing", "waiting" (for items), "standby", "elsewhere", "failing", "refused"
    doing: str
    why: str = ""  # it is not being written
    items: Count = 0  # that this worker has written


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """The state that a worker reports every few seconds."""

    worker: str
    host: str  # the machine
    pid: Count
    roles: tuple[str, ...]
    shoal: str  # version
    started_at: Seconds
    beaten_at: Seconds
    doing: str  # "working", "writing", "waiting", "idle", "draining"
    why: str = ""  # it waits: "for the hosts' pace"
    crawls: tuple[CrawlActivity, ...] = ()
    outputs: tuple[OutputActivity, ...] = ()
    refused: dict[str, str] = {}  # by crawl: why this worker cannot serve it
    sandbox: str = ""  # of its spiders: "complete", "incomplete: ...", "off"; empty: older, or it runs none
    machine: str = ""  # what the processes that share its process ids have in common; older workers: ""
    pools: tuple[str, ...] = ("http",)  # whose requests it takes; older workers take these and report none
    concurrency: Count = 0  # requests at once; 0: older, or it fetches nothing


def served_pools(workers: Iterable[Heartbeat]) -> set[str]:
    """Return the pools whose requests at least one of the workers takes."""
    return {pool for worker in workers if "fetch" in worker.roles for pool in worker.pools}


def unserved_pools(waiting: Mapping[str, int], served: Collection[str]) -> dict[str, int]:
    """Return the pools with waiting requests that no worker takes, and how many requests those are."""
    return {pool: count for pool, count in waiting.items() if count and pool not in served}
