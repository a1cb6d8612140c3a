"""Start the crawl of a tick with the same commands that people type.

In a folder, `shoal crawl` runs in a child process until it has ended, and dies with the scheduler; the next
start of the same tick resumes it. On a shared store, `shoal submit` records it, and workers do the rest. The
address of the store is passed in the environment: a process list must not show a password.

A shared store says what to crawl, and not which files of this machine are read: a schedule may name files
below the folder in which its scheduler was started, and below the folder of spiders of a server.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from shoal.frontier.finished import is_finished
from shoal.model.errors import Misconfigured, Unavailable
from shoal.services.child_command import end_command, spawn_command, wait_for_end
from shoal.services.schedules.scheduler import Started
from shoal.stores.contract.schedules import Overlap, RunState, Schedule, ScheduledRun
from shoal.stores.contract.store import Store

TICK = "{tick}"  # in an argument: the time of the tick
RETRY_S = 2.0  # before a folder that another crawl owns is tried again
_FINISHED = {0: "", 2: "no page, or too many dead letters", 6: "some start URLs were skipped"}
_USAGE, _INTERRUPTED, _UNAVAILABLE = 1, 3, 4


def command_of(schedule: Schedule, run: ScheduledRun, *, shared: bool, own: Sequence[str] = ()) -> list[str]:
    """Return the arguments of the command that starts a run.

    `own` are those of the scheduler, which the schedule may override.
    """
    stamp = f"{datetime.fromtimestamp(run.tick, UTC):%Y%m%dT%H%M%SZ}"
    given = [argument.replace(TICK, stamp) for argument in schedule.arguments]
    again: list[str] = []
    if schedule.again:
        # A replaced generation is given up; any other that was interrupted is finished first.
        again = ["--fresh" if schedule.overlap is Overlap.REPLACE else "--again", "--yes"]
    return ["submit" if shared else "crawl", *own, *given, "--crawl", run.crawl, *again, "--quiet"]


def settings_of(schedule: Schedule, run: ScheduledRun) -> dict[str, str]:
    """Return the settings of a run, as environment. A tick that is started twice begins one generation."""
    if not schedule.again:
        return {}
    adaptive = {"SHOAL_RECRAWL_ADAPTIVE": "1", "SHOAL_RECRAWL_BUDGET": f"{schedule.budget:g}"}
    return {"SHOAL_RECRAWL_AFTER": str(run.tick), **(adaptive if schedule.adaptive else {})}


def refusal(schedule: Schedule, roots: Sequence[Path]) -> str:
    """Return why the command of a schedule of a shared store is not run on this machine; empty: it is."""
    folder = Path(schedule.folder) if os.path.isdir(schedule.folder) else Path.cwd()
    named = [folder]
    before = ""
    for argument in schedule.arguments:
        flag, _, value = argument.partition("=") if argument.startswith("-") else ("", "", argument)
        if flag in ("--store", "--crawl"):
            return f"{flag} is not for schedules"
        if "--out" not in (flag, before):  # workers check it
            named += [folder / value, folder / value.rpartition(":")[0]]  # file.py:name
        before = argument
    allowed = [root.resolve() for root in roots]
    for path in named:
        with suppress(OSError):  # not the name of a file
            if (path == folder or path.is_file()) and not _is_below(path.resolve(), allowed):
                return f"{path} is outside of {allowed[0]}, where the scheduler was started"
    return ""


def _is_below(path: Path, roots: Sequence[Path]) -> bool:
    return any(path.is_relative_to(root) for root in roots)


class CommandLauncher:
    """See `Launcher`."""

    def __init__(
        self, store: Store, dsn: str, *, spiders: Path | None = None, own: Sequence[str] = ()
    ) -> None:
        """`spiders`: a folder whose files schedules may name as well. `own`: arguments of every command."""
        self._own = own
        self._roots = (Path.cwd(), *([] if spiders is None else [spiders]))
        self._store = store
        self._dsn = dsn
        self._shared = store.capabilities.shared
        self._running: dict[tuple[str, float], asyncio.subprocess.Process] = {}  # by crawl and tick
        self._replaced: set[tuple[str, float]] = set()

    async def start(self, schedule: Schedule, run: ScheduledRun) -> Started:
        if self._shared and (why := refusal(schedule, self._roots)):
            return Started(RunState.FAILED, why)
        while True:
            code, why = await self._execute(schedule, run)
            if (run.crawl, run.tick) in self._replaced:
                return Started(RunState.REPLACED)
            if code in _FINISHED:
                return Started(RunState.RUNNING if self._shared else RunState.DONE, _FINISHED[code])
            if code == _UNAVAILABLE and not self._shared:
                await asyncio.sleep(RETRY_S)  # another crawl owns the folder
            elif code in (_INTERRUPTED, _UNAVAILABLE) or code < 0:
                return Started(None, why)
            else:
                return Started(RunState.FAILED, why or f"exit code {code}")

    async def is_finished(self, crawl: str) -> bool:
        if not self._shared:
            return all(name != crawl for name, _ in self._running)
        try:
            return await is_finished(self._store.fleet.frontier.reader, crawl)
        except Misconfigured:
            return True  # it was deleted

    async def cancel(self, schedule: Schedule, crawl: str) -> None:
        if not self._shared:
            for key, process in self._running.items():
                if key[0] == crawl:
                    self._replaced.add(key)
                    process.terminate()
        elif not schedule.again and crawl in await self._store.crawls.names():
            await self._store.crawls.delete(crawl)

    async def _execute(self, schedule: Schedule, run: ScheduledRun) -> tuple[int, str]:
        """Run the command to its end; return its exit code and the last line that it printed as an error."""
        try:
            process = await spawn_command(
                command_of(schedule, run, shared=self._shared, own=self._own),
                folder=schedule.folder,
                dsn=self._dsn,
                settings=settings_of(schedule, run),
            )
        except Unavailable as error:
            return _UNAVAILABLE, str(error)
        except Misconfigured as error:
            return _USAGE, str(error)
        self._running[run.crawl, run.tick] = process
        try:
            result = await wait_for_end(process)
        finally:
            del self._running[run.crawl, run.tick]
            await end_command(process)
        return result.code, result.message
