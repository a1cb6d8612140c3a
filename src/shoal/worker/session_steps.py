"""What a worker does next with one crawl: a pure decision from a state and a few facts.

UNKNOWN ──▶ RUNNING ──▶ UNKNOWN ──▶ FINISHED ──▶ COMPLETE
               │                        ▲
               ├─ page limit reached ───┘
               ├─▶ REFUSED                      a new submission: back to UNKNOWN
               └─▶ FAILED ──▶ RUNNING           after a pause that grows

A session that is REFUSED is tried again too, because what was missing may be there by then.
"""

from dataclasses import dataclass
from enum import Enum, auto

from shoal.engine.snapshot import Ending


class SessionState(Enum):
    UNKNOWN = auto()  # the store has to be asked whether there is work
    RUNNING = auto()  # the crawl's loop runs
    FINISHED = auto()  # no request is left to do; outputs may lack items
    COMPLETE = auto()  # and every output has every item
    REFUSED = auto()  # this worker cannot serve the crawl
    FAILED = auto()  # its loop ended with an error; it is tried again
    DELETED = auto()  # the crawl was deleted, and nothing of it is left here


class Step(Enum):
    CHECK = auto()  # ask the store whether requests are left
    RUN = auto()  # start the crawl's loop
    DRAIN = auto()  # stop the crawl's loop
    CHECK_OUTPUTS = auto()  # find out whether every output has every item
    WRITE = auto()  # compete for writing the outputs
    LEAVE = auto()  # finish what this worker writes of a deleted crawl
    WAIT = auto()  # nothing until the next round


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What `next_step` decides by."""

    works: bool = True  # this worker fetches or parses
    writes: bool = True  # this worker writes outputs
    stopping: bool = False  # this worker is asked to stop
    deleted: bool = False  # the crawl is not in the store any more
    owes_summary: bool = False  # this worker runs for one crawl, and has not run it yet
    only: bool = False  # this worker runs for one crawl
    retry_due: bool = True  # the pause after an error or a refusal is over
    output_refused: bool = False  # an output cannot be written here
    check_due: bool = True  # a finished crawl has not been checked for long
    work_left: bool | None = None  # None: not checked in this round
    outputs_checked: bool = False  # in this round
    writing: bool = False  # this worker writes the outputs, or competes for that


def next_step(state: SessionState, facts: SessionFacts) -> Step:
    """Return what a session does next; WAIT ends the round."""
    if facts.deleted:
        return Step.DRAIN if state is SessionState.RUNNING else Step.LEAVE
    if facts.only and facts.output_refused:
        # An operator who runs one crawl wants its items: nothing is fetched that cannot be written.
        return Step.DRAIN
    if _may_check(state, facts):
        if facts.work_left is None:
            return Step.CHECK
        if facts.works and (facts.owes_summary or (facts.work_left and not facts.stopping)):
            return Step.RUN
    if facts.writes and state is not SessionState.COMPLETE:
        if state is SessionState.FINISHED and not facts.outputs_checked:
            return Step.CHECK_OUTPUTS
        if not facts.writing:
            return Step.WRITE
    return Step.WAIT


def _may_check(state: SessionState, facts: SessionFacts) -> bool:
    match state:
        case SessionState.UNKNOWN:
            return True
        case SessionState.FINISHED | SessionState.COMPLETE:
            return facts.check_due
        case SessionState.REFUSED | SessionState.FAILED:
            return facts.retry_due and not facts.stopping
    return False


def state_after_check(state: SessionState, facts: SessionFacts) -> SessionState:
    """Return the state of a session that has just checked for work."""
    if facts.work_left or facts.owes_summary or state is SessionState.COMPLETE:
        return state
    return SessionState.FINISHED


FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
REFUSED_PAUSE_S = 60.0
GIVE_UP_AFTER = 5  # failures in a row, after which a worker with an end does not wait for the crawl


def pause_after(failures: int, *, refused: bool) -> float:
    """Return the seconds after which a session that failed `failures` times in a row is tried again."""
    if refused:
        return REFUSED_PAUSE_S
    return min(FIRST_PAUSE_S * (1 << (failures - 1)), LONGEST_PAUSE_S)


def state_after_run(ending: Ending | None) -> SessionState:
    """Return the state after a run; `ending` is None if it failed and may be tried again."""
    # After --max-pages, or with a budget that is spent, more requests wait, and are not wanted.
    limits = (Ending.LIMITED, Ending.OVER_BUDGET)
    return SessionState.FINISHED if ending in limits else SessionState.UNKNOWN
