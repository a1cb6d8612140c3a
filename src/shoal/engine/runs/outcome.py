"""What becomes of a decision: a refusal is raised, and so is that there is nothing to do."""

from collections.abc import Callable
from typing import Protocol

from shoal.engine.runs.decide import Decision, RunAction
from shoal.engine.runs.facts import RunFlags
from shoal.frontier.results import Counts
from shoal.model.errors import Misconfigured

MANY_PAGES = 1_000  # from which on throwing them away has to be confirmed

Decided = Callable[[Decision], None]


class DifferentCommand(Misconfigured):
    """The command belongs to another crawl than the one that it names."""


class NothingToDo(Exception):
    """The crawl is complete; or only the decision was asked for."""

    def __init__(self, crawl: str, decision: Decision, counts: Counts) -> None:
        super().__init__(decision.reason)
        self.crawl = crawl
        self.decision = decision
        self.counts = counts  # of the crawl as it is


class ExistingCrawls(Protocol):
    async def crawls(self) -> list[str]: ...
    async def counts(self, crawl: str) -> Counts: ...


async def act_on(
    decision: Decision, flags: RunFlags, reader: ExistingCrawls, crawl: str, decided: Decided | None
) -> None:
    """Return if the crawl has to run; raise `NothingToDo`, or `Misconfigured` for a refusal."""
    is_idle = decision.action is RunAction.NOTHING and not flags.opens_complete
    if is_idle or flags.dry_run:
        known = crawl in await reader.crawls()
        raise NothingToDo(crawl, decision, await reader.counts(crawl) if known else Counts())
    if decision.action is RunAction.REFUSE:
        raise DifferentCommand(refusal(decision))
    if flags.fresh and decision.discards >= MANY_PAGES and not flags.confirmed:
        raise Misconfigured(
            f"--fresh throws away what crawl {crawl} knows of {decision.discards:,} pages:"
            " add --yes to confirm, or use --again, which resumes an interrupted run"
        )
    if decided is not None:
        decided(decision)


def refusal(decision: Decision) -> str:
    """Return a refusal with the ways out, on one line."""
    return f"{decision.reason}. Ways out: {'; or '.join(' '.join(way.split()) for way in decision.ways)}"
