"""Proof that nothing was lost and nothing doubled: frontier, archive and outputs compared with one another.

Everything is counted again from the data, without owning the store and without changing anything. Three
things are compared: the frontier's counters with its own data, its pages with the bytes in the archive, and
the items that its pages brought with what the outputs hold or still wait for. What cannot be compared is
listed as not checked.

Outputs are counted before pages, so while a crawl runs they can only seem to hold too little; that alone is
not a problem of a running crawl.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from shoal.model.quarantine import QuarantinedEntry
from shoal.stores.contract.store import OutputState, Store, select_crawls
from shoal.stores.open import open_store

MAX_UNREADABLE = 20  # entries in quarantine that are listed one by one
REMEDY = "put it back from a copy, or write the items again: shoal reparse SPIDER --commit --out NEW"


@dataclass(frozen=True, slots=True)
class CrawlReport:
    """One crawl, counted again."""

    name: str
    accepted: int
    pages: int | None  # in the archive; None: not counted
    items: int  # that its pages and hooks brought
    outputs: Mapping[str, int | None]  # items by output; None: there, but not counted
    problems: Sequence[str]  # one line each
    waiting: int = 0  # items in a shared store that are not in the outputs yet
    unchecked: Sequence[str] = ()  # what could not be compared, one line each
    lost: int = 0  # requests that were accepted and are in no state


@dataclass(frozen=True, slots=True)
class VerifyReport:
    store: str
    deep: bool
    crawls: Sequence[CrawlReport]
    repaired: Sequence[str] | None = None  # what was repaired, one line each; None: no repair was requested
    damage: Sequence[str] = ()  # of the store itself, or of crawls of which only a part is left

    @property
    def problems(self) -> list[str]:
        of_crawls = [f"{crawl.name}: {problem}" for crawl in self.crawls for problem in crawl.problems]
        return [*self.damage, *of_crawls]

    @property
    def empty(self) -> bool:
        """Whether the store has no crawl, nor anything of one."""
        return not self.crawls and not self.damage


async def verify(
    dsn: str,
    crawl: str | None,
    *,
    deep: bool,
    repair: bool = False,
    allow_outputs: tuple[str, ...] = (),
) -> VerifyReport:
    """Check one crawl of a store, or all.

    `deep` reads every archived page again. `repair` first repairs what an interrupted change left
    inconsistent. `allow_outputs`: databases of a fleet's crawls that this machine may connect to.
    """
    async with open_store(dsn, allow_outputs=allow_outputs) as store:
        names = await select_crawls(store, crawl)
        repaired = await store.repair(names) if repair else None
        crawls = [await _verify_crawl(store, name, deep=deep) for name in names]
        damage: list[str] = []
        if crawl is None:
            damage = [*await store.crawls.check(), *_unreadable(await store.quarantined(None))]
        return VerifyReport(store.address, deep, crawls, repaired, damage)


async def _verify_crawl(store: Store, crawl: str, *, deep: bool) -> CrawlReport:
    outputs = await store.outputs.progress(crawl)
    rejects = await store.outputs.rejects(crawl)
    pages = await (await store.archive_of(crawl)).check(deep=deep)
    workers = await store.workers.all()
    running = bool(workers) or store.workers.owner() is not None
    audit = await store.crawls.audit(crawl)
    waiting = max((output.waiting for output in outputs.values()), default=0)
    unreadable = _unreadable(await store.quarantined(crawl))
    problems = [*audit.problems, *unreadable, *pages.problems, *_problems(outputs), *_problems(rejects)]
    if waiting and not running and not (await store.frontier.counts(crawl)).open:
        problems.append(f"{waiting} items are in the store and in no output; shoal worker writes them there")
    problems += compare(pages.items, _reached(outputs), running=running)
    problems += compare((await store.crawls.totals(crawl)).rejected, _reached(rejects), running=running)
    unchecked = [
        *pages.unchecked,
        *(f"{name}: {output.why}" for name, output in outputs.items() if output.why),
    ]
    if workers:
        unchecked.append("what is changing right now: workers are at work")
    return CrawlReport(
        name=crawl,
        accepted=sum(audit.counts.values()),
        pages=pages.pages,
        items=pages.items,
        outputs={name: output.held for name, output in outputs.items() if not output.problem},
        problems=problems,
        waiting=waiting,
        unchecked=unchecked,
        lost=audit.lost,
    )


def _unreadable(entries: Sequence[QuarantinedEntry]) -> list[str]:
    """Return a line for each of the first entries that could not be read and were set aside."""
    lines = [
        f"an entry of the store could not be read and is quarantined: {entry.place}: {entry.reason}"
        for entry in entries[:MAX_UNREADABLE]
    ]
    more = len(entries) - len(lines)
    return [*lines, f"{more} more entries are quarantined"] if more else lines


def _problems(outputs: Mapping[str, OutputState]) -> list[str]:
    return [f"{output.problem}; {REMEDY}" for output in outputs.values() if output.problem]


def _reached(outputs: Mapping[str, OutputState]) -> dict[str, int | None]:
    """Return the items that each output holds or will get."""
    return {
        name: None if output.held is None else output.held + output.waiting
        for name, output in outputs.items()
        if not output.problem
    }


def compare(items: int, written: Mapping[str, int | None], *, running: bool) -> list[str]:
    """Return where outputs disagree with the number of items that were committed.

    An output that was added to a crawl later, or left out for a run, has fewer items by right; but none has
    more, and together they have all of them.
    """
    counted = {path: count for path, count in written.items() if count is not None}
    problems = [
        f"output {path} holds {count} items, but only {items} were committed; {REMEDY}"
        for path, count in counted.items()
        if count > items
    ]
    complete = counted and len(counted) == len(written) and not running
    if complete and sum(counted.values()) < items:
        problems.append(
            f"{items} items were committed, but {', '.join(counted)} hold {sum(counted.values())}; {REMEDY}"
        )
    return problems


def verify_json(report: VerifyReport) -> dict[str, object]:
    ok = not report.problems and not report.empty
    return {"ok": ok, "problems": report.problems, **asdict(report)}
