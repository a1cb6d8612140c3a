"""Which ticks of a schedule are due, and what becomes of each. Pure: no clock, no I/O."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from math import inf
from pathlib import Path
from types import MappingProxyType
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from shoal.model.configuration.crawl_definition import command_arguments
from shoal.model.configuration.output_patterns import is_address
from shoal.model.errors import Misconfigured
from shoal.model.printable import name_fault
from shoal.sinks.names import STDOUT
from shoal.stores.contract.schedules import (
    OPEN,
    Missed,
    Overlap,
    RunState,
    Schedule,
    ScheduledRun,
    ScheduleState,
)

CLAIM_S = 60.0  # after which another scheduler starts a claimed run again
LATE_S = 60.0  # after which a tick counts as missed
KEPT_RUNS = 50  # of those that have ended
MAX_TICKS = 10_000  # that are decided in one step
MIN_INTERVAL_S = 1.0
MAX_KEPT = 500  # runs, each some 200 bytes of the schedule's state
FIELDS = "minute hour day month weekday"
TICK = "{tick}"  # in an argument: the time of the tick
LIVE = OPEN | {RunState.QUEUED}  # runs that have not ended
MISSED = "missed"
MAX_ARGUMENT_BYTES = 256 * 1024  # a command line that every Linux accepts, with a large environment


@dataclass(frozen=True, slots=True)
class TickDecision:
    state: ScheduleState
    start: tuple[ScheduledRun, ...] = ()  # claimed by this scheduler
    cancel: tuple[str, ...] = ()  # crawls that a later tick replaces


def check_schedule(schedule: Schedule) -> None:
    """Raise `Misconfigured` for a schedule that cannot work."""
    if fault := name_fault(schedule.name):
        raise Misconfigured(f"the name of a schedule {fault}")
    if bool(schedule.cron) == bool(schedule.every_s):
        raise Misconfigured("a schedule needs either --cron or --every")
    if schedule.every_s and schedule.every_s < MIN_INTERVAL_S:
        raise Misconfigured("--every: must be at least one second")
    if schedule.budget and not schedule.adaptive:
        raise Misconfigured("--budget: needs --adaptive")
    if schedule.adaptive and not schedule.again:
        raise Misconfigured("--adaptive: needs --again: the intervals of pages belong to one crawl")
    if not 0 <= schedule.keep <= MAX_KEPT:
        raise Misconfigured(f"--keep: from 0 (all runs stay) to {MAX_KEPT}")
    if schedule.jitter_s < 0:
        raise Misconfigured("--jitter: must not be negative")
    given = command_arguments(schedule.crawl)
    if any("\0" in argument for argument in given):
        raise Misconfigured("an argument of the crawl has a NUL character")
    if sum(len(argument.encode()) + 1 for argument in given) > MAX_ARGUMENT_BYTES:
        raise Misconfigured(
            f"the arguments of the crawl have more than {MAX_ARGUMENT_BYTES:,} bytes: use --seeds FILE"
        )
    try:
        ZoneInfo(schedule.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Misconfigured(
            f"--timezone {schedule.timezone!r}: not a time zone, such as Europe/Berlin"
        ) from None
    try:
        next(ticks_after(schedule, schedule.created_at), None)
    except CronSimError as error:
        raise Misconfigured(f"--cron {schedule.cron!r}: {error}; five fields, as in '30 3 * * *'") from None


def check_new(schedule: Schedule) -> None:
    """Raise `Misconfigured` for a schedule that is not accepted any more, although stored ones still run."""
    check_schedule(schedule)
    if schedule.cron and len(schedule.cron.split()) != 5:
        raise Misconfigured(
            f"--cron {schedule.cron!r}: has {len(schedule.cron.split())} fields, and a schedule has five:"
            f" {FIELDS}; for seconds, give --every 30s"
        )
    for output in () if schedule.again else schedule.crawl.outputs:
        if TICK not in output and not is_address(output) and output != STDOUT:
            path = Path(output)
            raise Misconfigured(
                f"--out {output}: with --separate each tick is another crawl, and the second would find the"
                f" file of the first: name it {path.with_name(f'{path.stem}-{TICK}{path.suffix}')}, or leave"
                " --separate out"
            )


def ticks_after(schedule: Schedule, after: float) -> Iterator[float]:
    """Yield the ticks of a schedule, as epoch seconds.

    A cron expression is read in the time zone of the schedule, as Debian's cron does: a tick in the hour that
    daylight saving skips happens right after it, and one in the hour that it repeats happens once.
    """
    if schedule.every_s:
        number = max(0, int((after - schedule.created_at) // schedule.every_s)) + 1
        while True:
            tick = schedule.created_at + number * schedule.every_s
            if tick > after:
                yield tick
            number += 1
    zone = ZoneInfo(schedule.timezone)
    for moment in CronSim(schedule.cron, datetime.fromtimestamp(after, UTC).astimezone(zone)):
        if (tick := moment.timestamp()) > after:
            yield tick


def delay_of(schedule: Schedule, tick: float) -> float:
    """Return the jitter of a tick: the same for every scheduler."""
    if not schedule.jitter_s:
        return 0.0
    digest = sha256(f"{schedule.name}\0{tick}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64 * schedule.jitter_s


def crawl_of(schedule: Schedule, tick: float) -> str:
    """Return the name of the crawl of a tick: the same for every scheduler and every start."""
    return schedule.name if schedule.again else f"{schedule.name}-{stamp_of(tick)}"


def stamp_of(tick: float) -> str:
    """Return a tick as it is written in names."""
    return f"{datetime.fromtimestamp(tick, UTC):%Y%m%dT%H%M%SZ}"


def span_of(schedule: Schedule, tick: float) -> float:
    """Return the seconds over which the runs are spread that stay."""
    ticks = islice(ticks_after(schedule, tick), schedule.keep)
    return max(ticks, default=tick) - tick


def decide(
    schedule: Schedule,
    state: ScheduleState | None,
    now: float,
    *,
    holder: str,
    is_finished: Callable[[str], bool],
    failures: Mapping[str, str] = MappingProxyType({}),
    claim_s: float = CLAIM_S,
) -> TickDecision:
    """Return the next state, and what this scheduler has to do once the store has it.

    `is_finished` is asked for crawls that were started; `failures` say why those count as
    failed. Time that runs backwards decides nothing again: the cursor only moves forward.
    """
    state = state or ScheduleState(cursor=schedule.created_at)
    if not _may_change(schedule, state, now):
        return TickDecision(state)
    runs: list[ScheduledRun] = []
    start: list[ScheduledRun] = []
    cancel: list[str] = []
    for run in state.runs:
        if run.state is RunState.RUNNING and is_finished(run.crawl):
            why = failures.get(run.crawl, "")
            run = msgspec.structs.replace(
                run, state=RunState.FAILED if why else RunState.DONE, why=why, at=now
            )
        elif run.state is RunState.STARTING and run.claimed_until <= now:
            run = _claim(run, holder, now + claim_s)
            start.append(run)
        runs.append(run)
    cursor = state.cursor
    if not schedule.paused:
        due = list(_due(schedule, state.cursor, now))
        cursor = due[-1] if due else cursor
        for run in _judge_missed(schedule, due, now):
            if run.state is not RunState.SKIPPED:
                run = _admit(schedule.overlap, run, runs, cancel)
            if run.state is RunState.STARTING:
                run = _claim(run, holder, now + claim_s)
                start.append(run)
            runs.append(run)
    if not any(run.state in OPEN for run in runs):
        for index, run in enumerate(runs):
            if run.state is RunState.QUEUED:
                runs[index] = _claim(run, holder, now + claim_s)
                start.append(runs[index])
                break
    after = ScheduleState(cursor=cursor, runs=_trim(runs, schedule.keep))
    return TickDecision(after, tuple(start), tuple(cancel))


def ended(
    schedule: Schedule, state: ScheduleState, tick: float, *, to: RunState, now: float, why: str = ""
) -> ScheduleState:
    """Return the state after a started run has reached another state."""
    runs = [
        msgspec.structs.replace(run, state=to, why=why, holder="", claimed_until=0.0, at=now)
        if run.tick == tick and run.state is RunState.STARTING
        else run
        for run in state.runs
    ]
    return msgspec.structs.replace(state, runs=_trim(runs, schedule.keep))


def delayed(state: ScheduleState, tick: float, *, why: str, now: float) -> ScheduleState:
    """Return the state with the reason why a claimed run could not start; its claim expires by itself."""
    runs = tuple(
        msgspec.structs.replace(run, why=why or "its command was ended", at=run.at or now)
        if run.tick == tick and run.state is RunState.STARTING
        else run
        for run in state.runs
    )
    return msgspec.structs.replace(state, runs=runs)


def removable(schedule: Schedule, state: ScheduleState) -> list[ScheduledRun]:
    """Return the runs to remove: all but the latest `keep` that are done, and as many that failed.

    Counted apart, so that no number of failures removes the last good data.
    """
    if not schedule.keep:
        return []
    over = [_of_state(state.runs, *states)[: -schedule.keep] for states in ((RunState.DONE,), _NOT_DONE)]
    return [run for runs in over for run in runs if not run.removed]


_NOT_DONE = (RunState.FAILED, RunState.REPLACED)


def _of_state(runs: Iterable[ScheduledRun], *states: RunState) -> list[ScheduledRun]:
    return [run for run in runs if run.state in states]


def with_removed(state: ScheduleState, tick: float) -> ScheduleState:
    """Return the state after a run was removed."""
    runs = tuple(
        msgspec.structs.replace(run, removed=True) if run.tick == tick else run for run in state.runs
    )
    return msgspec.structs.replace(state, runs=runs)


def renewed(state: ScheduleState, tick: float, *, holder: str, until: float) -> ScheduleState:
    """Return the state with the claim of a run extended, if this scheduler still has it."""
    runs = tuple(
        _claim(run, holder, until)
        if run.tick == tick and run.state is RunState.STARTING and run.holder == holder
        else run
        for run in state.runs
    )
    return msgspec.structs.replace(state, runs=runs)


def _may_change(schedule: Schedule, state: ScheduleState, now: float) -> bool:
    if any(run.state in LIVE for run in state.runs):
        return True
    return not schedule.paused and _first_due(schedule, state.cursor) <= now


@lru_cache(maxsize=4096)  # a scheduler asks every second, and reading a cron expression takes a while
def _first_due(schedule: Schedule, cursor: float) -> float:
    """Return when the first tick after `cursor` is due, with its jitter."""
    return min(
        (tick + delay_of(schedule, tick) for tick in islice(ticks_after(schedule, cursor), 1)), default=inf
    )


def _due(schedule: Schedule, cursor: float, now: float) -> Iterator[float]:
    if _first_due(schedule, cursor) > now:
        return
    for tick in islice(ticks_after(schedule, cursor), MAX_TICKS):
        if tick + delay_of(schedule, tick) > now:
            return
        yield tick


def _judge_missed(schedule: Schedule, due: list[float], now: float) -> Iterator[ScheduledRun]:
    for tick in due:
        late = now - tick - delay_of(schedule, tick) > LATE_S
        dropped = late and (
            schedule.missed is Missed.SKIP or (schedule.missed is Missed.ONE and tick != due[-1])
        )
        crawl = crawl_of(schedule, tick)
        if dropped:
            why = "paused" if tick <= schedule.resumed_at else MISSED
            yield ScheduledRun(tick=tick, state=RunState.SKIPPED, crawl=crawl, why=why, at=now)
        else:
            yield ScheduledRun(tick=tick, state=RunState.QUEUED, crawl=crawl)


def _admit(overlap: Overlap, run: ScheduledRun, runs: list[ScheduledRun], cancel: list[str]) -> ScheduledRun:
    """Start a run, queue it or skip it; where it replaces others, mark them."""
    starting = msgspec.structs.replace(run, state=RunState.STARTING)
    open_runs = [index for index, one in enumerate(runs) if one.state in OPEN]
    if not open_runs:
        return starting
    if overlap is Overlap.REPLACE:
        for index in open_runs:
            cancel.append(runs[index].crawl)
            runs[index] = msgspec.structs.replace(runs[index], state=RunState.REPLACED)
        return starting
    if overlap is Overlap.QUEUE and not any(one.state is RunState.QUEUED for one in runs):
        return run
    why = "overlap" if overlap is Overlap.SKIP else "another tick is queued"
    return msgspec.structs.replace(run, state=RunState.SKIPPED, why=why)


def _claim(run: ScheduledRun, holder: str, until: float) -> ScheduledRun:
    return msgspec.structs.replace(run, state=RunState.STARTING, holder=holder, claimed_until=until)


def _trim(runs: list[ScheduledRun], keep: int) -> tuple[ScheduledRun, ...]:
    """Drop the oldest runs that have ended, except those that are still to be removed with their files."""
    ended_runs = [run for run in runs if run.state not in LIVE]
    dropped = {
        run.tick
        for run in ended_runs[:-KEPT_RUNS]
        if not keep or run.removed or run.state is RunState.SKIPPED
    }
    return tuple(run for run in runs if run.tick not in dropped)
