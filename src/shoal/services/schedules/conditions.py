"""Which schedules have failed or missed their ticks: pure, from the stored records.

A failure holds until a later run is done, and for `HOLD_S` at least: alerts are evaluated every few seconds,
and a failure between two evaluations is seen all the same.
"""

from collections.abc import Iterator, Mapping

from shoal.model.alert import Alert, AlertKind, Level
from shoal.model.errors import Misconfigured
from shoal.model.format import duration, plural
from shoal.services.schedules.manage import STATE, read_schedules, read_state
from shoal.services.schedules.rules import MISSED, stamp_of
from shoal.stores.contract.schedules import RunState, ScheduledRun, ScheduleState

HOLD_S = 120.0
SLOW_START_S = 300.0  # for which a crawl may wait, such as for a folder that another crawl owns


def schedule_alerts(records: Mapping[str, bytes], now: float) -> Iterator[Alert]:
    """Yield what is wrong with the schedules of a store."""
    schedules, refused = read_schedules(records)
    for name, schedule in schedules.items():
        try:
            state = read_state(schedule, records.get(STATE + name))
        except Misconfigured as error:
            refused[name] = str(error)
            continue
        yield from _failed(name, state, now)
        yield from _missed(name, state, now)
    for name, why in refused.items():
        cause = f"the schedule {name} cannot be used, and starts no crawl: {why}"
        action = f"shoal schedule remove {name} removes it; add it again"
        yield _alert(AlertKind.SCHEDULE_FAILED, name, cause, action, now, since=now)


def _failed(name: str, state: ScheduleState, now: float) -> Iterator[Alert]:
    done = _last_done(state)
    failed = [run for run in state.runs if run.state is RunState.FAILED and _holds(run, done, now)]
    late = [
        run
        for run in state.runs
        if run.state is RunState.STARTING and run.at and now - run.at >= SLOW_START_S
    ]
    if late:
        cause = f"the run of {name} at {stamp_of(late[0].tick)} has tried to start for"
        cause += f" {duration(now - late[0].at)}: {_reason(late[0])}"
    elif failed:
        cause = f"the run of {name} at {stamp_of(failed[-1].tick)} failed: {_reason(failed[-1])}"
        if len(failed) > 1:
            cause += f"; {plural(len(failed), 'run')} since the last one that was done"
    else:
        return
    action = "repair the cause: the next tick tries again; shoal schedule list --json has every run"
    first = (late or failed)[0]
    yield _alert(
        AlertKind.SCHEDULE_FAILED, name, cause, action, now, since=first.at or now, value=len(failed)
    )


def _missed(name: str, state: ScheduleState, now: float) -> Iterator[Alert]:
    done = _last_done(state)
    missed = [run for run in state.runs if run.why == MISSED and _holds(run, done, now)]
    if missed:
        first = stamp_of(missed[0].tick)
        when = f"at {first}" if len(missed) == 1 else f"from {first} to {stamp_of(missed[-1].tick)}"
        cause = f"{name} missed {plural(len(missed), 'tick')} {when}: no scheduler was running"
        action = "keep shoal schedule run, or a worker with the role schedule, running"
        kind = AlertKind.SCHEDULE_MISSED
        yield _alert(kind, name, cause, action, now, since=missed[0].at or now, value=len(missed))


def _last_done(state: ScheduleState) -> float:
    """Return the tick of the latest run that is done; 0: no run is."""
    return max((run.tick for run in state.runs if run.state is RunState.DONE), default=0.0)


def _holds(run: ScheduledRun, done: float, now: float) -> bool:
    return run.tick > done or 0.0 <= now - run.at < HOLD_S


def _reason(run: ScheduledRun) -> str:
    return run.why.removeprefix("shoal: ")


def _alert(
    kind: AlertKind, about: str, cause: str, action: str, now: float, *, since: float, value: float = 0.0
) -> Alert:
    return Alert(
        kind=kind,
        about=about,
        level=Level.WARNING,
        stage="schedule",
        cause=cause,
        action=action,
        value=value,
        since=min(since, now),
        held_at=now,
    )
