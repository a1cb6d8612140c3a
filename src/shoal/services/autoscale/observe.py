"""What the store of a fleet shows about its stages. Reads counters and heartbeats, and the pace of each host
that has requests, unless there are very many."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from shoal.frontier.results import HostQueue
from shoal.model.errors import Misconfigured
from shoal.model.exits.health import is_out
from shoal.services.autoscale.rules import StageLoad, slot_rate, waiting_leases
from shoal.services.inspect.capacity import host_rate
from shoal.services.inspect.status import StoreStatus, read_status
from shoal.stores.contract.heartbeat import Heartbeat
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store

MAX_HOSTS = 20_000  # whose pace is read; with more, it is not what limits a fleet
ENDED = ("done", "gone", "dead", "filtered", "held")
HTTP = "http"


@dataclass(frozen=True, slots=True)
class FlowCounters:
    """Counters that only grow, at one moment."""

    at: float  # epoch seconds
    accepted: int
    ended: int


@dataclass(frozen=True, slots=True)
class StageCounters:
    """Everything that the loads of the stages are computed from."""

    status: StoreStatus
    waiting: Mapping[str, int]  # requests by pool, over all crawls that are not paused
    hosts: Sequence[HostQueue] | None  # None: too many
    now: FlowCounters


class Observer:
    """Looks at a store repeatedly; rates are those since the look before."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        if not store.capabilities.shared:
            raise Misconfigured(
                f"{store.address} is a folder, which one process crawls: only a fleet has workers to count."
                " Name its store with --store"
            )
        self._store = store
        self._clock = clock
        self._before: FlowCounters | None = None

    async def look(self) -> list[StageLoad]:
        """Return the load of every stage; the first look knows no inflow."""
        seen = await self._read()
        before, self._before = self._before, seen.now
        return stage_loads(seen, before)

    async def _read(self) -> StageCounters:
        status = await read_status(self._store)
        waiting: Counter[str] = Counter()
        for crawl in (crawl for crawl in status.crawls if not crawl.paused and not crawl.stopped):
            waiting += Counter(await self._store.frontier.waiting_by_pool(crawl.name))
        queues = await self._store.frontier.queues(MAX_HOSTS)
        totals = FlowCounters(
            self._clock(),
            sum(crawl.accepted for crawl in status.crawls),
            sum(crawl.counts.get(state, 0) for crawl in status.crawls for state in ENDED),
        )
        return StageCounters(status, waiting, queues, totals)


def stage_loads(seen: StageCounters, before: FlowCounters | None) -> list[StageLoad]:
    """Return the load of every stage: fetching by pool, parsing, writing."""
    status, fleet = seen.status, seen.status.fleet
    assert fleet is not None, "a shared store"
    span = seen.now.at - before.at if before else 0.0
    inflow = max(0, seen.now.accepted - before.accepted) / span if before and span > 0 else 0.0
    drained = max(0, seen.now.ended - before.ended) / span if before and span > 0 else 0.0
    exits_out = bool(status.exits) and all(is_out(exit, seen.now.at) for exit in status.exits.values())
    pools = [HTTP, *sorted(pool for pool in seen.waiting if pool != HTTP)]
    in_all = sum(seen.waiting.values())
    leased = sum(crawl.counts["leased"] for crawl in status.crawls if not crawl.paused)
    busy_in_all = sum(_busy(worker) for worker in fleet.workers if "fetch" in worker.roles)
    loads = []
    for pool in pools:
        mine = [worker for worker in fleet.workers if "fetch" in worker.roles and pool in worker.pools]
        waiting = seen.waiting.get(pool, 0)
        share = waiting / in_all if in_all else 0.0
        if not waiting and pool != HTTP:
            continue
        busy = sum(map(_busy, mine))
        is_theirs = busy_in_all > 0 or pool == HTTP
        queued = waiting + (waiting_leases(leased, busy, busy_in_all) if is_theirs else 0)
        loads.append(
            StageLoad(
                role="fetch",
                pool=pool,
                queued=queued,
                in_progress=busy,
                inflow=inflow * share,
                drained=drained * share,
                ceiling=host_ceiling(seen.hosts, seen.now.at, latency_of(mine)),
                exits_out=exits_out,
                workers=len(mine),
                worker_rate=rate_of_one(mine),
            )
        )
    stages = fleet.stages.values()
    unparsed = sum(stages_of["parse"].waiting for stages_of in stages)
    loads.append(
        StageLoad(
            role="parse",
            queued=unparsed,
            workers=sum("parse" in worker.roles for worker in fleet.workers),
        )
    )
    unwritten = [crawl for crawl, stages_of in fleet.stages.items() if stages_of["sink"].waiting]
    loads.append(
        StageLoad(
            role="sink",
            queued=sum(fleet.stages[crawl]["sink"].waiting for crawl in unwritten),
            workers=sum("sink" in worker.roles for worker in fleet.workers),
            writers=sum(len(fleet.outputs.get(crawl, ())) for crawl in unwritten),
        )
    )
    return loads


def _busy(worker: Heartbeat) -> int:
    """Return how many slots of a worker have a request on the way."""
    on_the_way = sum(crawl.in_flight for crawl in worker.crawls)
    return min(on_the_way, worker.concurrency) if worker.concurrency else on_the_way


def latency_of(workers: Iterable[Heartbeat]) -> float:
    """Return how long a request takes, by Little's law from what the workers report; 0: not known."""
    in_flight, rate = _in_progress(workers)
    return in_flight / rate if rate > 0 else 0.0


def rate_of_one(workers: Sequence[Heartbeat]) -> float:
    """Return what one of these workers does with every slot in use; 0: not known."""
    in_flight, rate = _in_progress(workers)
    slots = sum(worker.concurrency for worker in workers)
    return slot_rate(rate, in_flight, slots) / len(workers) if workers else 0.0


def _in_progress(workers: Iterable[Heartbeat]) -> tuple[int, float]:
    crawls = [crawl for worker in workers for crawl in worker.crawls]
    return sum(crawl.in_flight for crawl in crawls), sum(crawl.rate for crawl in crawls)


def host_ceiling(hosts: Sequence[HostQueue] | None, now: float, latency: float) -> float:
    """Return the requests per second that the hosts with a queue allow together; inf: not known."""
    if hosts is None:
        return float("inf")
    rates = {
        queue.host: 0.0
        if queue.paused or queue.rest_until > now
        else host_rate(queue.interval, queue.concurrency, latency)
        for queue in hosts
        if queue.queued
    }
    return sum(rates.values()) if rates else float("inf")


@asynccontextmanager
async def observe(dsn: str) -> AsyncIterator[Observer]:
    """Open the store of a fleet for repeated looks."""
    async with open_store(dsn) as store:
        yield Observer(store)
