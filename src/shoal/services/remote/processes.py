"""Crawls that programs submit: a child process per crawl in a folder, a submission in a fleet.

A folder has one owner, so one crawl runs at a time; another submission is refused until it has ended. The
child ends with the server, in good order, and the same submission resumes it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from shoal.model.api.roles import Role
from shoal.model.api.submission import CrawlSubmission, SubmittedCrawl
from shoal.model.configuration.crawl_definition import CrawlDefinition, command_arguments
from shoal.model.errors import Misconfigured, ShoalError
from shoal.model.settings import Settings
from shoal.services.commands.child_command import (
    CommandResult,
    end_command,
    operator_options,
    run_command,
    spawn_command,
    wait_for_end,
)
from shoal.services.remote.submission import (
    accepted_urls,
    check_role,
    crawl_definition,
    crawl_name,
    judge_seeds,
)
from shoal.stores.contract.store import StoreBusy
from shoal.stores.open import open_store, store_exists

log = logging.getLogger(__name__)

START_TIMEOUT_S = 60.0
SUBMIT_TIMEOUT_S = 100.0
LOOK_EVERY_S = 0.1
MAX_ARGUMENT_URLS = 20  # more are passed in a file
_NO_PAGE, _BAD_LINES, _UNPUBLISHED = 2, 6, 8


@dataclass(frozen=True, slots=True)
class SubmissionRules:
    """What the operator of a server allows to those who submit crawls."""

    settings: Settings
    spiders: Path | None = None  # the folder of spiders that may be named
    outputs: str = ""  # the folder for outputs; empty: the current one
    config: str = ""  # the settings file of the server, which its commands read as well


class CrawlProcesses:
    def __init__(self, rules: SubmissionRules, group: asyncio.TaskGroup) -> None:
        self._rules = rules
        self._group = group
        self._dsn = rules.settings.store
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._starting = asyncio.Lock()  # one at a time: both would find the folder without an owner

    @classmethod
    @asynccontextmanager
    async def open(cls, rules: SubmissionRules) -> AsyncIterator["CrawlProcesses"]:
        """Accept submissions while the block runs; afterwards end the crawls of a folder in good order."""
        async with asyncio.TaskGroup() as group:
            processes = cls(rules, group)
            try:
                yield processes
            finally:
                for process in list(processes._running.values()):
                    group.create_task(end_command(process), name="crawl.end")

    @property
    def config(self) -> str:
        """Return the settings file of every command that this process starts; empty: the usual one."""
        return self._rules.config

    def definition(self, submission: CrawlSubmission, role: Role) -> CrawlDefinition:
        """Return the crawl of a schedule; raise if a URL is not accepted."""
        check_role(submission, role)
        verdicts = judge_seeds(submission.urls, self._rules.settings)
        for one in verdicts:
            if not one.accepted:
                raise Misconfigured(f"urls: line {one.line}: {one.reason}")
        urls = accepted_urls(verdicts)
        crawl_name(submission, urls)  # raises if there is nothing to crawl
        return crawl_definition(submission, urls=urls, spiders=self._rules.spiders)

    async def submit(self, submission: CrawlSubmission, role: Role) -> SubmittedCrawl:
        """Start a crawl, or hand it to the workers of a fleet, and return when it is in the store."""
        check_role(submission, role)
        verdicts = judge_seeds(submission.urls, self._rules.settings)
        urls = accepted_urls(verdicts)
        if submission.urls and not urls:
            raise Misconfigured(f"urls: none is accepted; the first: {verdicts[0].reason}")
        name = crawl_name(submission, urls)
        with TemporaryDirectory(prefix="shoal-seeds-") as folder:
            seeds = ""
            if len(urls) > MAX_ARGUMENT_URLS:
                seeds = _write_lines(Path(folder, "seeds.txt"), urls)
            crawl = crawl_definition(submission, urls=urls, seeds_file=seeds, spiders=self._rules.spiders)
            fresh = ["--fresh", "--yes"] if submission.fresh else []
            own = operator_options(self._rules.settings, self._rules.config)
            arguments = [*own, f"--crawl={name}", *fresh, *command_arguments(crawl)]
            shared = await self._is_shared()
            found = await (self._submit(arguments) if shared else self._start(name, arguments))
        return SubmittedCrawl(
            crawl=found.crawl,
            resumed=found.resumed,
            outputs=list(found.outputs),
            note=found.note,
            verdicts=verdicts,
            accepted=len(urls),
            refused=len(verdicts) - len(urls),
        )

    async def _is_shared(self) -> bool:
        async with open_store(self._dsn, create=not store_exists(self._dsn)) as store:
            return store.capabilities.shared

    async def _submit(self, arguments: Sequence[str]) -> "_Started":
        done = await run_command(
            ["submit", "--json", *arguments],
            dsn=self._dsn,
            folder=self._rules.outputs,
            timeout_s=SUBMIT_TIMEOUT_S,
        )
        done.check(_BAD_LINES)
        return msgspec.json.decode(done.output, type=_Started)

    async def _start(self, name: str, arguments: Sequence[str]) -> "_Started":
        """Start `shoal crawl` and return once it owns the folder; raise what it reports if it ends before."""
        async with self._starting:
            known = await self._crawls() if store_exists(self._dsn) else None
            process = await spawn_command(
                ["crawl", "--quiet", *arguments], dsn=self._dsn, folder=self._rules.outputs
            )
            self._running[name] = process
            waiting = self._group.create_task(self._wait(name, process), name=f"crawl.{name}")
            try:
                async with asyncio.timeout(START_TIMEOUT_S):
                    while name not in await self._own_crawls(process.pid):
                        if (await asyncio.wait((waiting,), timeout=LOOK_EVERY_S))[0]:
                            break
            except TimeoutError:
                await end_command(process)
                raise Misconfigured(
                    f"crawl {name} did not start within {START_TIMEOUT_S:g} seconds"
                ) from None
        resumed = known is not None and name in known
        if not waiting.done():
            return _Started(crawl=name, resumed=resumed)
        result = waiting.result()
        result.check(_NO_PAGE, _BAD_LINES, _UNPUBLISHED)
        return _Started(crawl=name, resumed=resumed, note="it has ended already")

    async def _wait(self, name: str, process: asyncio.subprocess.Process) -> CommandResult:
        try:
            result = await wait_for_end(process)
        finally:
            del self._running[name]
        log.info(
            "crawl.process_ended", extra={"crawl": name, "exit_code": result.code, "why": result.message}
        )
        return result

    async def _own_crawls(self, pid: int) -> list[str]:
        """Return the crawls of the folder, if the process owns it."""
        if store_exists(self._dsn):
            with suppress(ShoalError):  # it is being created
                async with open_store(self._dsn) as store:
                    owner = store.workers.owner()
                    return await store.crawls.names() if owner is not None and str(pid) in owner else []
        return []

    async def _crawls(self) -> list[str]:
        async with open_store(self._dsn) as store:
            if (owner := store.workers.owner()) is not None:
                raise StoreBusy(
                    f"the folder is in use by {owner}: wait until it ends; a fleet's store takes many crawls"
                )
            return await store.crawls.names()


def _write_lines(file: Path, lines: Sequence[str]) -> str:
    file.write_text("".join(f"{line}\n" for line in lines))
    return str(file)


class _Started(msgspec.Struct):
    crawl: str
    resumed: bool = False
    outputs: tuple[str, ...] = ()
    note: str = ""
