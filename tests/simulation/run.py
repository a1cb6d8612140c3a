"""Runs seeds, each in a separate process, forked from one that has imported everything.

Separate, because what survives a seed (caches, loaded modules, tasks of dead nodes) would make a failure
that does not replay. It ends with `os._exit`, so that nothing that a killed node left is collected.
"""

import fcntl
import gc
import logging
import os
import pickle
import select
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import msgspec
from tests.simulation.clock import BEGIN, CURRENT, begin, real_monotonic, world
from tests.simulation.loop import SimLoop
from tests.simulation.plan import FLEET, Plan

LIMIT_S = 90  # real seconds, after which a seed counts as hanging
HARNESS = "harness: "  # begins the failure of the simulation itself


class Result(NamedTuple):
    """What one run of a plan ended with."""

    plan: Plan
    failure: str  # empty: none
    where: str  # the traceback
    digest: str
    events: list[str]
    requests: int
    virtual_s: float
    real_s: float


class _Errors(logging.Handler):
    """Collects what the product logs as an error."""

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else getattr(record, "why", "")
        world.errors.append(f"{record.getMessage()} {cause!r} at {CURRENT.get()}")
        world.log("error", world.errors[-1])


def run_here(plan: Plan) -> Result:
    """Run a plan in this process, which must not run another one."""
    began = real_monotonic()
    begin(plan.seed)
    logging.getLogger().addHandler(_Errors(logging.ERROR))
    logging.getLogger().setLevel(logging.ERROR)
    folder = _working_folder(plan)
    os.chdir(folder)
    gc.disable()
    loop = SimLoop()
    failure = where = ""
    requests = 0

    def hangs(_signal: int, frame: FrameType | None) -> None:
        raise AssertionError(
            "a step of the loop does not end:\n" + "".join(traceback.format_stack(frame)[-6:])
        )

    signal.signal(signal.SIGALRM, hangs)
    signal.alarm(LIMIT_S)
    try:
        if plan.scenario == FLEET:
            from tests.simulation.fleet import FleetRun as Run
        else:
            from tests.simulation.folder import FolderRun as Run  # type: ignore[assignment]
        run = Run(plan, folder)
        try:
            loop.run_until_complete(run.run())
        finally:
            requests = run.requests
    except BaseException as error:
        failure = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        where = "".join(traceback.format_exception(error))
    signal.alarm(0)
    shutil.rmtree(folder, ignore_errors=True)
    real_s = real_monotonic() - began
    return Result(plan, failure, where, world.digest, list(world.events), requests, world.now - BEGIN, real_s)


def _working_folder(plan: Plan) -> Path:
    """Create the folder of a seed, with the same name in every run: the store gets the names of outputs.

    A run of the same seed by another command waits for this process to end.
    """
    parent = Path(tempfile.gettempdir()) / f"shoal-simulation-{os.getuid()}"
    parent.mkdir(mode=0o700, exist_ok=True)
    folder = parent / f"{plan.scenario}-{plan.seed}"
    fcntl.flock(os.open(f"{folder}.lock", os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def run_all(
    plans: Iterable[Plan], *, jobs: int, prepare: Callable[[], None] = lambda: None
) -> Iterator[Result]:
    """Run each plan in a forked process, `jobs` at a time; yield the results as they come."""
    waiting = iter(plans)
    running: dict[int, tuple[int, Plan]] = {}  # read end -> process, plan

    def start() -> None:
        plan = next(waiting, None)
        if plan is None:
            return
        readable, writable = os.pipe()
        if (process := os.fork()) == 0:
            os.close(readable)
            try:
                prepare()
                result = run_here(plan)
            except BaseException:
                result = Result(plan, HARNESS + traceback.format_exc(), "", "", [], 0, 0.0, 0.0)
            with os.fdopen(writable, "wb") as pipe:
                pickle.dump(result, pipe)
            os._exit(0)
        os.close(writable)
        running[readable] = (process, plan)

    for _ in range(jobs):
        start()
    while running:
        for readable in select.select(list(running), [], [])[0]:
            process, plan = running.pop(readable)
            with os.fdopen(readable, "rb") as pipe:
                written = pipe.read()
            os.waitpid(process, 0)
            start()
            if written:
                yield pickle.loads(written)
            else:
                yield Result(plan, HARNESS + "the process of the seed died", "", "", [], 0, 0.0, 0.0)


def run_one(plan: Plan, prepare: Callable[[], None] = lambda: None) -> Result:
    """Run one plan in a separate process."""
    [result] = run_all([plan], jobs=1, prepare=prepare)
    return result


def confirm(result: Result, prepare: Callable[[], None] = lambda: None) -> Result:
    """Run a plan again; a different trace is a failure of the simulation."""
    again = run_one(result.plan, prepare)
    if again.digest == result.digest:
        return result
    at = next(
        (n for n, (a, b) in enumerate(zip(result.events, again.events, strict=False)) if a != b),
        min(len(result.events), len(again.events)),
    )
    differs = f"{result.events[at : at + 1]} then {again.events[at : at + 1]}"
    return result._replace(failure=f"{HARNESS}the same seed did something else: {differs}; {result.failure}")


def shrink(plan: Plan, prepare: Callable[[], None] = lambda: None) -> Result:
    """Return the smallest failure found by leaving out parts of a plan while the same oracle fails."""
    from tests.simulation.plan import smaller

    best = run_one(plan, prepare)
    if not best.failure:
        return best
    oracle = oracle_of(best)
    shrinks = True
    while shrinks:
        shrinks = False
        for candidate in smaller(best.plan):
            result = run_one(candidate, prepare)
            if result.failure and oracle_of(result) == oracle:
                best, shrinks = result, True
                break
    return best


def oracle_of(result: Result) -> str:
    """Return which oracle a run has failed, without the particulars."""
    return ":".join(result.failure.split(":")[:2])


def encode(plan: Plan) -> str:
    return msgspec.json.encode(plan).decode()
