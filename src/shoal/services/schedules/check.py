"""Check the crawl of a schedule when it is added: what would fail at its first tick is refused now.

The command of the first tick is run with `--dry-run`, without a store: it reads settings and options, loads
the spider in its sandbox and looks at the outputs, exactly as at a tick.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from shoal.engine.runs.facts import KEY, CommandFacts
from shoal.model.errors import Misconfigured
from shoal.services.commands.child_command import run_command
from shoal.services.schedules.launch import command_of
from shoal.services.schedules.rules import check_new, crawl_of
from shoal.stores.contract.schedules import RunState, Schedule, ScheduledRun
from shoal.stores.contract.store import Store

CHECK_TIMEOUT_S = 60.0


async def check_crawl(store: Store, schedule: Schedule, own: Sequence[str] = ()) -> None:
    """Raise `Misconfigured` if the crawl of a new schedule cannot start, or if its name is taken.

    `own`: options of every command of this process.
    """
    check_new(schedule)
    await _check_name(store, schedule)
    run = ScheduledRun(
        tick=schedule.created_at,
        state=RunState.STARTING,
        crawl=crawl_of(schedule, schedule.created_at),
    )
    known = schedule.again and schedule.name in await store.crawls.names()
    command = [one for one in command_of(schedule, run, shared=False, own=own) if one not in _DECIDED]
    with TemporaryDirectory(prefix="shoal-schedule-") as folder:
        done = await run_command(
            # The outputs of a crawl that exists are its own: `--yes` is what its ticks say.
            [command[0], "--dry-run", *(["--yes"] if known else []), *command[1:]],
            dsn=os.path.join(folder, "none"),
            folder=schedule.folder,
            timeout_s=CHECK_TIMEOUT_S,
        )
    if done.code:
        raise done.error()


_DECIDED = frozenset({"--again", "--fresh", "--yes"})  # what a tick does to a crawl that exists


async def _check_name(store: Store, schedule: Schedule) -> None:
    """Raise `Misconfigured` if another crawl has the name of the schedule's."""
    if not schedule.again or schedule.name not in await store.crawls.names():
        return
    facts = CommandFacts.load(await store.frontier.value(schedule.name, KEY))
    if facts is None:
        return
    crawl = schedule.crawl
    same = (
        Path(crawl.spider).name == Path(facts.spider).name
        if crawl.spider
        else not facts.spider and set(crawl.urls) <= set(facts.start or crawl.urls)
    )
    if not same:
        what = f"the spider {facts.spider}" if facts.spider else ", ".join(facts.start[:1]) or "other URLs"
        raise Misconfigured(
            f"there is a crawl {schedule.name!r} already, of {what}: choose another name, or remove it:"
            f" shoal delete {schedule.name}"
        )
