"""The number of workers that a stage needs: arithmetic over one observation. No clock, no I/O.

A stage has to do what arrives (`inflow`), and its queue within `drain_s`. It cannot do more than the hosts
and exits allow together (`ceiling`): beyond that, another worker only waits. What one worker can do follows
from Little's law: its slots divided by the time that a request takes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from shoal.model.format import count, duration, plural

USUAL_LATENCY_S = 0.5  # of a request, where none was measured
USUAL_SLOTS = 64  # of a worker
USUAL_PARSE_RATE = 100.0  # pages per second of one parse worker, where none was measured


class Limit(StrEnum):
    """What keeps a stage from needing more workers."""

    QUEUE = "queue"  # the work that there is
    POLITENESS = "politeness"  # the pace of the hosts
    EXITS = "exits"  # none of them can be used
    WRITERS = "writers"  # an output has one writer
    MAXIMUM = "maximum"
    MINIMUM = "minimum"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRules:
    min: int = 1
    max: int = 16
    drain_s: float = 300.0  # within which a queue should be empty
    shrink_after_s: float = 60.0  # for which fewer workers must have been enough


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLoad:
    """One stage of a fleet at one moment. Rates are per second."""

    role: str
    pool: str = ""  # of the role fetch
    queued: int = 0  # what a worker with a free slot could start
    in_progress: int = 0  # what slots work on
    inflow: float = 0.0
    drained: float = 0.0
    ceiling: float = math.inf  # that hosts allow together
    exits_out: bool = False  # every exit rests, and nothing may leave without one
    workers: int = 0
    worker_rate: float = 0.0  # of one worker with every slot in use; 0: not known
    writers: int | None = None  # that have something to do; None: any number


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many workers a stage needs, and why not more."""

    role: str
    pool: str
    workers: int
    limit: Limit
    why: str


def wanted_workers(load: StageLoad, rules: ScaleRules) -> Wanted:
    """Return how many workers a stage needs within the bounds of the rules, and why."""
    needed, limit, why = _needed(load, rules)
    if needed > rules.max:
        return _result(load, rules.max, Limit.MAXIMUM, f"{why}; at most {rules.max} may run")
    if needed < rules.min:
        return _result(load, rules.min, Limit.MINIMUM if limit is Limit.QUEUE else limit, why)
    return _result(load, needed, limit, why)


def _result(load: StageLoad, workers: int, limit: Limit, why: str) -> Wanted:
    return Wanted(load.role, load.pool, workers, limit, why)


def _needed(load: StageLoad, rules: ScaleRules) -> tuple[int, Limit, str]:
    work = load.queued + load.in_progress
    if not work and load.inflow <= 0:
        return 0, Limit.QUEUE, "nothing waits"
    if load.writers is not None:
        return load.writers, Limit.WRITERS, f"{plural(load.writers, 'output')} to write, each by one worker"
    if load.exits_out:
        return 0, Limit.EXITS, "every exit rests: more workers cannot send anything"
    rate = load.worker_rate or (USUAL_PARSE_RATE if load.role == "parse" else USUAL_SLOTS / USUAL_LATENCY_S)
    asked = load.inflow + work / rules.drain_s
    started = f" and {count(load.in_progress)} in progress" if load.in_progress else ""
    queue = f"{count(load.queued)} queued{started}, {load.inflow:.1f} more per second"
    if asked > load.ceiling:
        enough = _workers_for(load.ceiling, rate)
        left = load.ceiling - load.inflow
        drain = f", which takes {duration(load.queued / left)}" if left > 0 else ""
        why = (
            f"the pace of the hosts allows {load.ceiling:.1f} requests per second together{drain};"
            f" {plural(enough, 'worker')} can do that, more would wait"
        )
        return enough, Limit.POLITENESS, why
    why = f"{queue}: {asked:.1f} per second empty it in {duration(rules.drain_s)}; one worker does {rate:.0f}"
    return _workers_for(asked, rate), Limit.QUEUE, why


def waiting_leases(leased: int, busy: int, busy_in_all: int) -> int:
    """Return how many of the leases of a fleet no slot of a pool's workers has started.

    Such a lease waits like a request that is not leased: another worker could have it. Leases are not counted
    by pool: the pool whose workers have `busy` of the busy slots has as large a part of them.
    """
    beyond = max(leased - busy_in_all, 0)
    return round(beyond * busy / busy_in_all) if busy_in_all else beyond


def _workers_for(rate: float, worker_rate: float) -> int:
    return max(1, math.ceil(rate / worker_rate - 1e-9))


def slot_rate(rate: float, in_flight: int, slots: int) -> float:
    """Return what workers would do with every slot in use, by Little's law; 0: nothing was measured."""
    if rate <= 0 or in_flight <= 0 or slots <= 0:
        return 0.0
    latency = in_flight / rate
    return slots / latency


@dataclass(frozen=True, slots=True)
class Recent:
    """What was wanted lately: (epoch seconds, workers)."""

    wanted: tuple[tuple[float, int], ...] = ()


def stabilize(recent: Recent, wanted: int, now: float, rules: ScaleRules) -> tuple[Recent, int]:
    """Return how many workers to run: the most that was wanted in the last `shrink_after_s`."""
    kept = [(at, number) for at, number in recent.wanted if now - rules.shrink_after_s < at <= now]
    kept.append((now, wanted))
    return Recent(tuple(kept)), max(number for _, number in kept)


def combined(wanted: Iterable[Wanted], rules: ScaleRules) -> Wanted:
    """Return how many workers with every role are needed: those of the stage that needs most."""
    found: Sequence[Wanted] = list(wanted)
    if not found:
        return Wanted("all", "", rules.min, Limit.MINIMUM, "nothing waits")
    most = max(found, key=lambda one: (one.workers, one.limit is Limit.POLITENESS))
    return Wanted("all", "", most.workers, most.limit, most.why)
