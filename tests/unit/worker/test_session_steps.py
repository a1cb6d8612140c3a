"""What a crawl session does next, by its state and a few facts."""

from dataclasses import replace

import pytest

from shoal.engine.snapshot import Ending
from shoal.worker.crawl_session import SharedConcurrency
from shoal.worker.session_steps import (
    SessionFacts,
    SessionState,
    Step,
    next_step,
    state_after_check,
    state_after_run,
)

UNKNOWN, RUNNING, FINISHED = SessionState.UNKNOWN, SessionState.RUNNING, SessionState.FINISHED
COMPLETE, REFUSED, FAILED = SessionState.COMPLETE, SessionState.REFUSED, SessionState.FAILED

IDLE = SessionFacts(check_due=False, writing=True)  # nothing is due
SINK_ONLY = replace(IDLE, works=False)
NO_SINK = SessionFacts(writes=False)


@pytest.mark.parametrize(
    ("state", "facts", "step"),
    [
        # A new session asks the store first, then runs, then competes for the outputs.
        (UNKNOWN, SessionFacts(), Step.CHECK),
        (UNKNOWN, SessionFacts(work_left=True), Step.RUN),
        (RUNNING, SessionFacts(work_left=True), Step.WRITE),
        (RUNNING, SessionFacts(work_left=True, writing=True), Step.WAIT),
        (RUNNING, NO_SINK, Step.WAIT),
        # A worker that is asked to stop starts nothing new, and still writes what is there.
        (UNKNOWN, SessionFacts(work_left=True, stopping=True), Step.WRITE),
        (UNKNOWN, SessionFacts(work_left=True, stopping=True, writing=True), Step.WAIT),
        # A worker without the roles fetch and parse never runs a crawl.
        (UNKNOWN, replace(SINK_ONLY, work_left=True), Step.WAIT),
        (UNKNOWN, replace(SINK_ONLY, work_left=True, writing=False), Step.WRITE),
        # A finished crawl: its outputs are checked once per round, and written until they are complete.
        (FINISHED, IDLE, Step.CHECK_OUTPUTS),
        (FINISHED, replace(IDLE, outputs_checked=True), Step.WAIT),
        (FINISHED, replace(IDLE, outputs_checked=True, writing=False), Step.WRITE),
        (FINISHED, replace(NO_SINK, check_due=False), Step.WAIT),
        # A complete crawl waits, until it is due to be checked again.
        (COMPLETE, replace(IDLE, writing=False), Step.WAIT),
        (COMPLETE, SessionFacts(check_due=True), Step.CHECK),
        (COMPLETE, SessionFacts(check_due=True, work_left=True), Step.RUN),
        (COMPLETE, SessionFacts(check_due=True, work_left=False), Step.WAIT),
        # A refused crawl is not run here, but its items are written.
        (REFUSED, SessionFacts(), Step.CHECK),
        (REFUSED, SessionFacts(retry_due=False), Step.WRITE),
        (REFUSED, SessionFacts(retry_due=False, writing=True), Step.WAIT),
        (FAILED, SessionFacts(retry_due=False, writing=True), Step.WAIT),
        (FAILED, SessionFacts(writing=True), Step.CHECK),
        (FAILED, SessionFacts(work_left=True, writing=True), Step.RUN),
        (FAILED, SessionFacts(writing=True, stopping=True), Step.WAIT),
        # A worker that was started for one crawl runs it even if nothing is left, to have a summary.
        (UNKNOWN, SessionFacts(only=True, owes_summary=True, work_left=False), Step.RUN),
        (UNKNOWN, SessionFacts(only=True, owes_summary=True, work_left=True, stopping=True), Step.RUN),
        # It stops when an output of that crawl cannot be written.
        (RUNNING, SessionFacts(only=True, output_refused=True), Step.DRAIN),
        (UNKNOWN, SessionFacts(only=True, output_refused=True), Step.DRAIN),
        (RUNNING, SessionFacts(output_refused=True, writing=True), Step.WAIT),
        # A deleted crawl is drained, and then left.
        (RUNNING, SessionFacts(deleted=True), Step.DRAIN),
        (UNKNOWN, SessionFacts(deleted=True), Step.LEAVE),
        (COMPLETE, SessionFacts(deleted=True), Step.LEAVE),
        (REFUSED, SessionFacts(deleted=True), Step.LEAVE),
    ],
)
def test_next_step(state: SessionState, facts: SessionFacts, step: Step) -> None:
    assert next_step(state, facts) is step


@pytest.mark.parametrize("state", list(SessionState))
@pytest.mark.parametrize("stopping", [False, True])
@pytest.mark.parametrize("work_left", [False, True])
def test_a_round_ends(state: SessionState, stopping: bool, work_left: bool) -> None:
    facts = SessionFacts(stopping=stopping)
    for _ in range(10):
        match next_step(state, facts):
            case Step.WAIT:
                return
            case Step.CHECK:
                facts = replace(facts, work_left=work_left)
                state = state_after_check(state, facts)
            case Step.RUN:
                state = RUNNING
            case Step.CHECK_OUTPUTS:
                facts = replace(facts, outputs_checked=True)
            case Step.WRITE:
                facts = replace(facts, writing=True)
            case other:
                pytest.fail(f"{other} in a session that is neither deleted nor blocked")
    pytest.fail("the round does not end")


@pytest.mark.parametrize(
    ("state", "facts", "after"),
    [
        (UNKNOWN, SessionFacts(work_left=False), FINISHED),
        (UNKNOWN, SessionFacts(work_left=True), UNKNOWN),
        (UNKNOWN, SessionFacts(work_left=False, owes_summary=True), UNKNOWN),
        (FINISHED, SessionFacts(work_left=False), FINISHED),
        (FINISHED, SessionFacts(work_left=True), FINISHED),
        (COMPLETE, SessionFacts(work_left=False), COMPLETE),
    ],
)
def test_the_state_after_a_check(state: SessionState, facts: SessionFacts, after: SessionState) -> None:
    assert state_after_check(state, facts) is after


@pytest.mark.parametrize(
    ("ending", "after"),
    [
        (Ending.FINISHED, UNKNOWN),  # the next round checks, because other workers may have added requests
        (Ending.INTERRUPTED, UNKNOWN),
        (Ending.LIMITED, FINISHED),
        (None, UNKNOWN),
    ],
)
def test_the_state_after_a_run(ending: Ending | None, after: SessionState) -> None:
    assert state_after_run(ending) is after


@pytest.mark.parametrize(("running", "share"), [(0, 64), (1, 64), (3, 21), (100, 1)])
def test_the_concurrency_is_divided_among_the_running_crawls(running: int, share: int) -> None:
    concurrency = SharedConcurrency(64)
    concurrency.running = running

    assert concurrency.per_crawl == share
