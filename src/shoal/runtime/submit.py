"""Submitting a crawl to a fleet: everything that its workers need goes into the store.

Submitting twice is harmless: seeds that are known are not added again, and the record is replaced.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from shoal.archive.names import file_name
from shoal.fetch.cookies import CookieJar
from shoal.fetch.given_cookies import for_seeds
from shoal.fleet.crawls import CrawlRecord, Crawls
from shoal.frontier import Opened
from shoal.frontier.redis import RedisFrontier
from shoal.frontier.redis.seen import Approximate
from shoal.model.errors import Misconfigured
from shoal.model.scope import Scope
from shoal.model.settings import Settings
from shoal.parse.pool import ParsePool
from shoal.runtime.plan import CrawlPlan, Stop
from shoal.runtime.seeding import add_given, add_listed, origins_matter
from shoal.runtime.terms import terms_of
from shoal.runtime.wiring import cookies_of, seeds_of, with_wishes
from shoal.sinks.names import STDOUT, is_database
from shoal.spider.source import SpiderFile, SpiderSource
from shoal.stores.redis import RedisStore

FOLDER = "shoal-data"  # where a fleet's files go that were given no place


@dataclass(frozen=True, slots=True)
class Submitted:
    crawl: str
    resumed: bool  # False: it did not exist before
    changed: bool  # False: it had been submitted exactly like this
    added: int  # seeds that were new
    known: int  # seeds that were not
    outputs: tuple[str, ...]
    version: str  # of the spider's code


async def submit(store: RedisStore, plan: CrawlPlan, stop: Stop) -> Submitted:
    """Put a crawl into the store; raises before anything is written if the plan cannot work.

    A list of start URLs may take long to read; `stop` ends that with `Interrupted`. Workers hear of a
    new crawl when the last one is in.
    """
    async with ParsePool.open(plan.source, procs=1, limits=plan.settings.parse) as parser:
        spider = parser.description
    settings = with_wishes(plan.settings, spider, plan.overrides)
    name = plan.name or spider.name
    seeds = seeds_of(plan, spider)
    jar = CookieJar()
    jar.put(cookies_of(settings.crawl, seeds), time.time())
    outputs = tuple(map(_output, plan.outputs or (f"{FOLDER}/items/{file_name(name)}.jsonl",)))
    crawls = Crawls(store)
    frontier = RedisFrontier(store)
    if plan.fresh:
        await frontier.drop_crawl(name)
    opened = await open_in(frontier, name, settings)
    new = await add_given(frontier, name, seeds)
    known = len(seeds) - new
    urls = {seed.url for seed in seeds}
    if plan.listed is not None:
        gather = origins_matter(settings.crawl, spider)
        origins = await add_listed(frontier, name, plan.listed, stop, gather=gather)
        new, known = new + plan.listed.new, known + plan.listed.known
        jar.put(for_seeds(settings.crawl.cookies, sorted(origins)), time.time())
        urls |= origins
    before = await crawls.get(name)
    hosts = Scope.of(settings.crawl, urls, hosts=spider.hosts, limits=settings.links).hosts
    if hosts is not None and before is not None and before.hosts is not None and not plan.fresh:
        hosts = hosts.union(before.hosts)  # what earlier seeds led to is still queued
    changed = await crawls.submit(
        CrawlRecord(
            name=name,
            number=await frontier.number(name),
            source=_portable(plan),
            text=_text(plan),
            version=spider.version,
            settings=msgspec.to_builtins(replace(settings, store="")),  # a DSN may carry a password
            hosts=None if hosts is None else tuple(sorted(hosts)),
            cookies=jar.dump(),
            outputs=outputs,
            overwrite=plan.fresh,
            submitted_at=time.time(),
        )
    )
    return Submitted(name, opened.resumed, changed, new, known, outputs, spider.version)


async def open_in(frontier: RedisFrontier, name: str, settings: Settings) -> Opened:
    """Begin a crawl in a store, or take it up, on the terms of its settings."""
    return await frontier.open_crawl(
        name,
        **terms_of(settings),
        approximate=Approximate(settings.crawl.approximate_links)
        if settings.crawl.approximate_links
        else None,
    )


def _portable(plan: CrawlPlan) -> SpiderSource:
    if isinstance(plan.source, SpiderFile):
        return msgspec.structs.replace(plan.source, path=Path(plan.source.path).name)
    return plan.source


def _text(plan: CrawlPlan) -> bytes:
    return Path(plan.source.path).read_bytes() if isinstance(plan.source, SpiderFile) else b""


def _output(output: str) -> str:
    """Spell a file so that it is the same one from every folder."""
    if output == STDOUT:
        raise Misconfigured("output -: a fleet has no standard output; name a file or a database")
    return output if is_database(output) else str(Path(output).absolute())
