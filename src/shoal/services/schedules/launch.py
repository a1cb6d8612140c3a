"""Start the crawl of a tick with the same commands that people type.

In a folder, `shoal crawl` runs in a child process until it has ended, and dies with the scheduler; the next
start of the same tick resumes it. On a shared store, `shoal submit` records it, and workers do the rest. The
address of the store is passed in the environment: a process list must not show a password.

A shared store says what to crawl, and nothing about this machine. `LaunchRules` say which of its files and
databases a schedule may name. The command runs in the scheduler's folder, with the scheduler's settings, and
loads spiders in the sandbox that the operator has chosen for workers, whatever a settings file says.
"""

import asyncio
import math
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from shoal.frontier.finished import is_finished
from shoal.model.configuration.crawl_definition import CrawlDefinition, command_arguments
from shoal.model.configuration.output_patterns import is_address
from shoal.model.errors import Misconfigured, ShoalError, Unavailable
from shoal.model.sandbox import SandboxMode
from shoal.model.settings import Settings
from shoal.model.yields.counts import DROPPED
from shoal.services.commands.child_command import end_command, spawn_command, wait_for_end
from shoal.services.commands.seed_query import query_name
from shoal.services.schedules.remove import discard_empty, remove_run
from shoal.services.schedules.rules import CLAIM_S, TICK, span_of, stamp_of
from shoal.services.schedules.scheduler import Started
from shoal.sinks.names import STDOUT, keep_slash
from shoal.stores.contract.crawl_record import CrawlRecord
from shoal.stores.contract.record_reader import settings_of as crawl_settings
from shoal.stores.contract.schedules import Overlap, RunState, Schedule, ScheduledRun
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store

VERDICT_S = 60.0  # in which workers judge the items of a crawl whose outputs are complete
RETRY_S = 2.0  # before a folder that another crawl owns is tried again
_FINISHED = {
    0: "",
    6: "some start URLs were skipped",
    9: "links are held back",
}
_USAGE, _INTERRUPTED, _UNAVAILABLE = 1, 3, 4
_SPIDER_FILE = re.compile(r"(.+\.(?:py|toml))(:[A-Za-z_]\w*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LaunchRules:
    """What the operator of a scheduler allows to the schedules of its store."""

    options: tuple[str, ...] = ()  # of every command that the scheduler starts
    roots: tuple[Path, ...] = ()  # folders besides the current one whose files schedules may name
    databases: tuple[str, ...] = ()  # that they may read start URLs from
    sandbox: SandboxMode = SandboxMode.REQUIRE  # in which their spiders are loaded
    settings: Settings = field(default_factory=Settings)  # of the scheduler

    @property
    def folders(self) -> list[Path]:
        return [Path.cwd().resolve(), *(root.resolve() for root in self.roots)]


def command_of(schedule: Schedule, run: ScheduledRun, *, shared: bool, own: Sequence[str] = ()) -> list[str]:
    """Return the arguments of the command that starts a run.

    `own` are those of the scheduler, which the schedule may override.
    """
    given = [argument.replace(TICK, stamp_of(run.tick)) for argument in command_arguments(schedule.crawl)]
    again: list[str] = []
    if schedule.again:
        # A replaced generation is given up; any other that was interrupted is finished first.
        again = ["--fresh" if schedule.overlap is Overlap.REPLACE else "--again", "--yes"]
    return ["submit" if shared else "crawl", *own, f"--crawl={run.crawl}", *again, "--quiet", *given]


def settings_of(schedule: Schedule, run: ScheduledRun) -> dict[str, str]:
    """Return the settings of a run, as environment. A tick that is started twice begins one generation.

    With `keep`, archived pages and logged attempts stay for as long as the runs that are kept.
    """
    if not schedule.again:
        return {}
    keep = {}
    if schedule.keep:
        days = str(math.ceil(span_of(schedule, run.tick) / 86_400) or 1)
        earlier = str(max(schedule.keep - 1, 1))  # 0 would end conditional requests
        keep = {
            "SHOAL_RECRAWL_KEEP": earlier,
            "SHOAL_ARCHIVE_KEEP_DAYS": days,
            "SHOAL_FETCH_LOG_KEEP_DAYS": days,
        }
    adaptive = {"SHOAL_RECRAWL_ADAPTIVE": "1", "SHOAL_RECRAWL_BUDGET": f"{schedule.budget:g}"}
    return {"SHOAL_RECRAWL_AFTER": str(run.tick), **keep, **(adaptive if schedule.adaptive else {})}


def allowed_crawl(schedule: Schedule, rules: LaunchRules) -> CrawlDefinition:
    """Return the crawl of a schedule of a shared store, with absolute paths.

    Raise `Misconfigured` if it names what the operator does not allow.
    """
    crawl, folders = schedule.crawl, rules.folders
    if crawl.config is not None:
        raise Misconfigured("--config: a schedule of a shared store uses the settings of its scheduler")
    if crawl.proxies:
        raise Misconfigured("--proxy: workers use their own exits: give it to shoal worker")
    folder = Path(schedule.folder) if os.path.isdir(schedule.folder) else Path.cwd()
    _check_below(folder, folders)
    changes: dict[str, object] = {}
    if crawl.spider and (named := _SPIDER_FILE.fullmatch(crawl.spider)):
        file, attribute = named.groups()
        changes["spider"] = f"{_check_below(folder / file, folders)}{attribute or ''}"
    if crawl.seeds is not None and crawl.query is None:
        changes["seeds"] = str(_check_below(folder / crawl.seeds, folders))
    elif crawl.seeds is not None and crawl.seeds not in rules.databases:
        shown = query_name(crawl.seeds)
        raise Misconfigured(
            f"--seeds {shown}: this machine does not allow schedules to read it: name it in"
            " worker.allow_seeds of the scheduler's settings"
        )
    # Workers check outputs against their own rules.
    outputs = tuple(
        one if is_address(one) or one == STDOUT else keep_slash(one, str(folder / one))
        for one in crawl.outputs
    )
    return msgspec.structs.replace(crawl, outputs=outputs, **changes)


def _check_below(path: Path, folders: Sequence[Path]) -> Path:
    """Return a path without symbolic links; raise `Misconfigured` if it is outside of the folders."""
    try:
        resolved = path.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL
        raise Misconfigured(f"{str(path)[:500]!r} is not the name of a file") from None
    if not any(resolved.is_relative_to(folder) for folder in folders):
        raise Misconfigured(f"{path} is outside of {folders[0]}, where the scheduler was started")
    return resolved


class CommandLauncher:
    """See `Launcher`."""

    def __init__(self, store: Store, dsn: str, rules: LaunchRules) -> None:
        self._rules = rules
        self._store = store
        self._dsn = dsn
        self._shared = store.capabilities.shared
        self._running: dict[tuple[str, float], asyncio.subprocess.Process] = {}  # by crawl and tick
        self._replaced: set[tuple[str, float]] = set()
        self._complete_since: dict[str, float] = {}  # crawls whose workers have not yet judged their items

    async def start(self, schedule: Schedule, run: ScheduledRun) -> Started:
        if self._shared:
            try:
                crawl = allowed_crawl(schedule, self._rules)
            except Misconfigured as error:
                return Started(RunState.FAILED, str(error))
            schedule = msgspec.structs.replace(schedule, crawl=crawl)
        tries = 0
        while True:
            tries += 1
            code, why = await self._execute(schedule, run)
            if (run.crawl, run.tick) in self._replaced:
                return Started(RunState.REPLACED)
            if code in _FINISHED:
                return Started(RunState.RUNNING if self._shared else RunState.DONE, _FINISHED[code])
            if code == _UNAVAILABLE and not self._shared and tries * RETRY_S < CLAIM_S:
                await asyncio.sleep(RETRY_S)  # another crawl owns the folder
            elif code in (_INTERRUPTED, _UNAVAILABLE) or code < 0:
                return Started(None, why)
            else:
                with suppress(ShoalError):  # the store cannot be changed now: an empty crawl stays
                    async with open_store(self._dsn) as store:
                        await discard_empty(store, run.crawl)
                return Started(RunState.FAILED, why or f"exit code {code}")

    async def is_finished(self, crawl: str) -> bool:
        if not self._shared:
            return all(name != crawl for name, _ in self._running)
        done = True
        with suppress(Misconfigured):  # it was deleted
            done = await is_finished(self._store.fleet.frontier.reader, crawl)
            done = done and await self._is_complete(crawl)
        if done:
            self._complete_since.pop(crawl, None)
        return done

    async def _is_complete(self, crawl: str) -> bool:
        """Return whether workers have written the outputs of a crawl, and decided whether they may stand.

        Workers of an earlier version, or without the role `sink`, decide nothing: no verdict for `VERDICT_S`
        is the same as a good one.
        """
        from shoal.worker.output_tasks import are_finished  # needs the extra redis, as a fleet does

        fleet = self._store.fleet
        if (record := await fleet.crawls.get(crawl)) is None:
            return True
        if await fleet.unwritten_pages(crawl) or not await are_finished(fleet, record):
            self._complete_since.pop(crawl, None)
            return False
        if await self._fault(crawl, record) or await fleet.frontier.reader.value(crawl, DROPPED) is not None:
            return True
        now = time.monotonic()
        return now - self._complete_since.setdefault(crawl, now) >= VERDICT_S

    async def failure(self, crawl: str) -> str:
        if not self._shared:
            return ""
        with suppress(Misconfigured):  # it was deleted
            if fault := await self._fault(crawl, await self._store.crawls.record(crawl)):
                return fault
            totals = await self._store.crawls.totals(crawl)
            return "; ".join(drop.text for drop in totals.dropped) or totals.no_data
        return ""

    async def _fault(self, crawl: str, record: CrawlRecord | None) -> str:
        """Return why the outputs of a crawl are not looked at, and replace nothing; empty: they are."""
        counts = await self._store.fleet.frontier.reader.counts(crawl)
        if not counts.done:
            return f"not one page was fetched: shoal dlq list --crawl {crawl}"
        allowed = None if record is None else crawl_settings(record).crawl.max_dead
        if allowed is not None and counts.dead > allowed:
            return f"more dead letters ({counts.dead}) than crawl.max_dead: shoal dlq list --crawl {crawl}"
        return ""

    async def cancel(self, schedule: Schedule, crawl: str) -> None:
        if not self._shared:
            for key, process in self._running.items():
                if key[0] == crawl:
                    self._replaced.add(key)
                    process.terminate()
        elif not schedule.again and crawl in await self._store.crawls.names():
            await self._store.crawls.delete(crawl)

    async def remove(self, schedule: Schedule, run: ScheduledRun) -> None:
        folders, settings = self._rules.folders, self._rules.settings
        async with open_store(self._dsn) as store:  # a folder's may be younger than this process
            await remove_run(store, schedule, run, folders=folders, settings=settings)

    def _sandbox(self) -> dict[str, str]:
        """Return the variable that settles the sandbox of a shared store's spiders: it beats every file."""
        return {"SHOAL_PARSE_SANDBOX": self._rules.sandbox.value} if self._shared else {}

    async def _execute(self, schedule: Schedule, run: ScheduledRun) -> tuple[int, str]:
        """Run the command to its end; return its exit code and the last line that it printed as an error."""
        try:
            process = await spawn_command(
                command_of(schedule, run, shared=self._shared, own=self._rules.options),
                folder="" if self._shared else schedule.folder,  # where a shoal.toml may be
                dsn=self._dsn,
                settings=settings_of(schedule, run) | self._sandbox(),
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
