"""The stations, joined: what `shoal crawl` opens, in order, and closes again in reverse.

    spider ─ parse children ─┐
    store folder ─ frontier ─┼─▶ Stations
    archive, sinks ──────────┤
    guard ─ client ─ fetcher ┘

User code is loaded first and in a child, so that a spider with a mistake in it touches nothing. Then the
store is owned, and only then is anything written.
"""

import logging
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import msgspec

from shoal.archive.names import file_name
from shoal.archive.reader import ArchiveReader
from shoal.archive.registry import place_segments
from shoal.archive.retention import expire
from shoal.archive.writer import ArchiveWriter, WriteRules
from shoal.engine.crawl_options import frontier_options
from shoal.engine.fetchers import open_crawl_fetcher
from shoal.engine.outputs import EmbeddedOutputs
from shoal.engine.ownership import Owned
from shoal.engine.page_quota import EmbeddedPageQuota
from shoal.engine.pages import Pages
from shoal.engine.plan import CrawlPlan, Stop
from shoal.engine.scope_state import ScopeState
from shoal.engine.seeding import add_given, add_listed, origins_matter, warn_without_contact
from shoal.engine.stations import Stations
from shoal.fetch.cookies import Cookie, CookieJar
from shoal.fetch.given_cookies import for_seeds, from_file
from shoal.fetch.http.decode import decode_archived
from shoal.model import crawl_totals as sums
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.request import Link, Request
from shoal.model.scope import Scope
from shoal.model.settings import CrawlSettings, Settings
from shoal.model.spider_versions import KEY as VERSIONS
from shoal.model.spider_versions import SpiderVersions
from shoal.model.url import host_key
from shoal.parse.pool import ParsePool
from shoal.sinks import MultiSink
from shoal.sinks.names import shown
from shoal.spider.source import SpiderDescription
from shoal.spider.spider import listing
from shoal.stores.contract.checkpoints import archive_key, rejects_key, sinks_key
from shoal.stores.contract.store import Store

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_stations(plan: CrawlPlan, store: Store, stop: Stop) -> AsyncIterator[Stations]:
    """Open every station for a crawl. Raises before anything is written if the plan cannot work.

    A list of start URLs may take long to read; `stop` ends that with `Interrupted`.
    """
    async with AsyncExitStack() as stack:
        parser = await stack.enter_async_context(
            ParsePool.open(plan.source, procs=procs_of(plan.settings.crawl), limits=plan.settings.parse)
        )
        spider = parser.description
        settings = with_wishes(plan.settings, spider, plan.overrides)
        name = plan.name or spider.name
        seeds = seeds_of(plan, spider)
        warn_without_contact(name, settings.crawl, seeds, plan.listed)
        cookies = cookies_of(settings.crawl, seeds)
        owned = await stack.enter_async_context(store.own(fsync=settings.crawl.fsync))
        frontier = owned.frontier
        if plan.fresh:
            await frontier.crawls.delete(name, checkpoints=[sinks_key(name), rejects_key(name)])
            owned.rejects_file(name).unlink(missing_ok=True)  # this run may have none to replace it by
        opened = await frontier.crawls.open(name, **frontier_options(settings))
        outputs = plan.outputs or (str(owned.items / f"{file_name(name)}.jsonl"),)
        sinks = MultiSink(outputs, fsync=settings.crawl.fsync, overwrite=plan.fresh)
        stack.callback(sinks.close)
        sinks.restore(await frontier.reader.checkpoint(sinks_key(name)))
        rejected = [str(owned.rejects_file(name))] if spider.models else []
        rejects = MultiSink(rejected, fsync=settings.crawl.fsync, overwrite=plan.fresh)
        stack.callback(rejects.close)
        rejects.restore(await frontier.reader.checkpoint(rejects_key(name)))
        segments = place_segments(owned.archive / file_name(name), settings.archive.location, name)
        if settings.archive.keep_days:
            expire(segments, keep_days=settings.archive.keep_days, today=datetime.now(UTC).date())
        rules = write_rules(name, settings)
        archive = ArchiveWriter.open(segments, await frontier.reader.checkpoint(archive_key(name)), rules)
        stack.callback(archive.close)
        versions = SpiderVersions.load(await frontier.reader.value(name, VERSIONS))
        version = versions.number(spider.version, time.time())
        totals = sums.CrawlTotals.load(await frontier.reader.value(name, sums.KEY))
        totals.reopen(per_pattern=settings.links.per_pattern, lookalikes=settings.links.lookalikes)
        # From here on the outputs count as this crawl's own: a kill before the first page must not make the
        # next run take them for somebody else's.
        await frontier.commit(
            checkpoints={
                sinks_key(name): sinks.flush(),
                rejects_key(name): rejects.flush(),
                archive_key(name): archive.checkpoint(),
            },
            crawl_state={name: {sums.KEY: totals.dump(), VERSIONS: versions.dump()}},
        )
        jar = CookieJar.load(await frontier.reader.value(name, "cookies") or b"[]")
        jar.put(cookies, time.time())
        hosts = msgspec.json.decode(await frontier.reader.value(name, "hosts") or b"[]", type=list[str])
        urls = [seed.url for seed in seeds]
        scope = Scope.of(settings.crawl, urls, hosts=spider.hosts, limits=settings.links)
        if scope.hosts is not None:
            scope = msgspec.structs.replace(scope, hosts=scope.hosts.union(hosts))
        scope = msgspec.structs.replace(scope, lookalikes=frozenset(totals.lookalikes))
        border = ScopeState(scope, parser)
        fetcher = await open_crawl_fetcher(stack, settings, frontier.hosts, jar, border)
        await add_given(frontier, name, seeds)
        if plan.listed is not None:
            gather = origins_matter(settings.crawl, spider)
            origins = await add_listed(frontier, name, plan.listed, stop, gather=gather)
            jar.put(for_seeds(settings.crawl.cookies, origins), time.time())
            if not spider.hosts:
                border.admit(*map(host_key, origins))
        if await frontier.reader.paused(name):
            log.warning("crawl.paused", extra={"crawl": name, "go_on_with": f"shoal resume {name}"})
        await stack.enter_async_context(owned.accept_commands())
        yield Stations(
            crawl=name,
            settings=settings,
            holder=f"{os.uname().nodename}-{os.getpid()}",
            resumed=opened.resumed,
            ownership=Owned(jar, border),
            frontier=frontier,
            fetcher=fetcher,
            outlet=EmbeddedOutputs(name, archive, sinks, rejects, totals),
            pages=Pages(archive, ArchiveReader(segments, decode_archived, limits=settings.fetch)),
            parser=parser,
            totals=totals,
            version=version,
            border=border,
            outputs=tuple(map(shown, outputs)),
            store=store.address,
            archive=segments.path,
            rejects=owned.rejects_file(name),
            unparsed=frontier.parsing(name),
            allowance=EmbeddedPageQuota(frontier.reader, name, limit)
            if (limit := settings.crawl.max_pages)
            else None,
        )


def write_rules(crawl: str, settings: Settings, *, writer: str = "") -> WriteRules:
    """Say how pages are archived; `writer` tells the segments of several processes apart."""
    return WriteRules(
        crawl,
        writer=writer,
        robots=settings.crawl.robots,
        segment_bytes=settings.archive.segment_bytes,
        fsync=settings.crawl.fsync,
    )


def cookies_of(settings: CrawlSettings, seeds: Sequence[Request]) -> list[Cookie]:
    """Gather the cookies that the user gives to the crawl."""
    listed = [] if settings.cookie_file is None else from_file(settings.cookie_file)
    return [*listed, *for_seeds(settings.cookies, [seed.url for seed in seeds])]


def with_wishes(settings: Settings, spider: SpiderDescription, given: frozenset[str]) -> Settings:
    """Let the spider's own options apply where the user has not said otherwise."""
    wishes = {key: value for key, value in spider.options.items() if key not in given}
    try:
        crawl = msgspec.convert({**msgspec.to_builtins(settings.crawl), **wishes}, CrawlSettings)
    except msgspec.ValidationError as error:
        raise Misconfigured(f"spider {spider.name!r}: {error}") from None
    return replace(settings, crawl=crawl)


def seeds_of(plan: CrawlPlan, spider: SpiderDescription) -> list[Request]:
    """Give the requests to start from: those of the command line, else the spider's own.

    A list of them is read when all else is open.
    """
    requests = [Request(url=url) for url in plan.seeds]
    if not requests and plan.listed is None:
        requests += spider.start
    requests += [listing(url) for url in plan.sitemaps]
    if not requests and plan.listed is None:
        raise Misconfigured(f"spider {spider.name!r} has nowhere to start: give it start=[...] or a URL")
    seeds = []
    for request in requests:
        try:
            url = msgspec.msgpack.decode(Link.to(request).packed, type=Request).url
        except Rejected as error:
            raise Misconfigured(f"start: {error}") from None
        if not url.startswith(("http://", "https://")):
            raise Misconfigured(f"start: only http and https can be crawled: {url}")
        seeds.append(msgspec.structs.replace(request, url=url))
    return seeds


def procs_of(settings: CrawlSettings) -> int:
    """Say how many processes parse."""
    return settings.procs or max(1, (os.cpu_count() or 2) - 1)
