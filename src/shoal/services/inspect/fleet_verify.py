"""Proof that a fleet has lost nothing and doubled nothing: shards and outputs against one another.

Every set of every shard is counted again and compared with its counters. The step that settles a page counts
its items, too; so what the outputs hold and what is on its way to them has to add up to that. A fleet keeps
no record of pages that are done; going through the whole archive shows whether there are as many of them.
What is not compared is named as not checked.

While workers are at work, shards are read at different instants and may disagree for a moment: then only what
two audits say in the same words is a problem.
"""

import os
from dataclasses import dataclass, replace

from shoal.frontier.redis import RedisFrontier
from shoal.frontier.redis.repair import repair_crawls
from shoal.frontier.results import Audit
from shoal.model.errors import Misconfigured
from shoal.redis_client import RedisClient
from shoal.services.inspect.verify import REMEDY, CrawlReport, VerifyReport, compare
from shoal.services.reprocess.fleet_pages import FleetPages
from shoal.sinks.fleet.progress import ever_written, output_progress
from shoal.sinks.names import public_name
from shoal.stores.access import chosen
from shoal.stores.redis.crawls import CrawlRecord, Crawls
from shoal.stores.redis.workers import Workers

ARCHIVE = "pages in the archive: a fleet keeps no record of those that are done; --deep goes through them"


async def verify_fleet(dsn: str, crawl: str | None, *, deep: bool, repair: bool = False) -> VerifyReport:
    """Check one crawl of a fleet's store, or all; `repair` first puts right what can be."""
    async with RedisClient.open(dsn, advise=False) as store:
        frontier = RedisFrontier(store)
        names = await chosen(frontier.reader, crawl)
        repaired = await repair_crawls(frontier, names) if repair else None
        crawls = [await _verify_crawl(store, frontier, name, deep=deep) for name in names]
        return VerifyReport(str(store.dsn), deep, crawls, repaired)


async def _verify_crawl(
    store: RedisClient, frontier: RedisFrontier, crawl: str, *, deep: bool
) -> CrawlReport:
    record = await Crawls(store).get(crawl)
    number = await frontier.reader.number(crawl)
    node = os.uname().nodename
    wanted = {public_name(one): one for one in (() if record is None else record.outputs)}
    outputs = {name: await output_progress(store, number, one, node=node) for name, one in wanted.items()}
    for name in await ever_written(store, number):
        if name not in wanted:  # nothing more comes, and what it has counts
            outputs[name] = replace(await output_progress(store, number, name, node=node), waiting=0)
    items = await frontier.reader.items(crawl)
    at_work = bool(await Workers(store).all())
    audit = await steady_audit(frontier, crawl, at_work=at_work)
    shelf = await _look_through(store, record) if deep and record is not None else _Shelf(unchecked=ARCHIVE)
    unchecked = [shelf.unchecked] if shelf.unchecked else []
    unchecked += [f"{name}: {one.why}" for name, one in outputs.items() if one.why]
    if at_work:
        unchecked.append("what is changing right now: workers are at work")
    waiting = max((one.waiting for one in outputs.values()), default=0)
    left = (await frontier.reader.counts(crawl)).open
    problems = [*audit.problems, *(f"{one.problem}; {REMEDY}" for one in outputs.values() if one.problem)]
    problems += [shelf.problem] if shelf.problem else []
    if waiting and not left and not at_work:
        problems.append(f"{waiting} items are in the store and in no output; shoal worker writes them there")
    reached = {
        name: None if one.held is None else one.held + one.waiting
        for name, one in outputs.items()
        if not one.problem
    }
    return CrawlReport(
        name=crawl,
        accepted=sum(audit.counts.values()),
        pages=shelf.pages,
        items=items,
        outputs={name: one.held for name, one in outputs.items() if not one.problem},
        problems=[*problems, *compare(items, reached, running=at_work)],
        waiting=waiting,
        unchecked=unchecked,
    )


@dataclass(frozen=True, slots=True)
class _Shelf:
    """What the archive of a crawl has to say."""

    pages: int | None = None
    problem: str = ""
    unchecked: str = ""


async def _look_through(store: RedisClient, record: CrawlRecord) -> _Shelf:
    """Read every archived page, and see that there are as many as are done."""
    holdings = FleetPages(store, record)
    try:
        found = await holdings.inventory()
    except Misconfigured as error:
        if holdings.located:
            return _Shelf(problem=str(error))
        return _Shelf(unchecked=f"pages in the archive: {error}")
    lacking = f"{found.missing} pages that are done are not in {holdings.place}"
    if found.damaged:
        return _Shelf(found.pages, problem=f"{found.damaged} records in {holdings.place} are damaged")
    if found.missing and holdings.located:
        return _Shelf(found.pages, problem=lacking)
    # Each worker has an archive of its own then.
    return _Shelf(found.pages, unchecked=lacking if found.missing else "")


async def steady_audit(frontier: RedisFrontier, crawl: str, *, at_work: bool) -> Audit:
    """Audit a crawl; what workers change meanwhile is not held against it."""
    found = await frontier.reader.audit(crawl)
    if not found.problems or not at_work:
        return found
    again = await frontier.reader.audit(crawl)
    return Audit(again.counts, [line for line in again.problems if line in found.problems])
