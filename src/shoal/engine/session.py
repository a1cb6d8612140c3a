"""The wiring: opens every station of a crawl, in order, and closes them in reverse.

    spider source ──▶ parse children ──▶ spider's description
    strategy ───────▶ store, frontier, crawl, saved state
    crawl ──────────▶ sinks ──▶ archive ──▶ outputs
    crawl ──────────▶ scope ──▶ fetchers (one per pool) ──▶ first requests
    all of them ────▶ Stations

The order is the same for a process that owns its store (`Embedded`) and for a worker of a fleet (`Shared`);
what differs is in the strategy. User code is loaded first and in a child, so that a spider with a mistake in
it touches nothing. Then the store is opened, and only then is anything written.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from shoal.archive.contract import Segments
from shoal.archive.fetch_log import FetchLogWriter, open_parts
from shoal.archive.reader import ArchiveReader
from shoal.archive.retention import expire
from shoal.archive.writer import ArchiveWriter
from shoal.engine.crawl_options import parse_processes, write_rules
from shoal.engine.fetch_log.recorder import FetchLog
from shoal.engine.fetchers import Escalate, escalation_of, open_fetchers
from shoal.engine.generations.due import recheck_rules
from shoal.engine.generations.earlier import ParseIdentity
from shoal.engine.leases import Ownership
from shoal.engine.logs.request_log import with_reasons
from shoal.engine.outputs import OutputCommit, Run
from shoal.engine.pages import Pages
from shoal.engine.scope_state import Children, ScopeState
from shoal.engine.stations import CrawlFrontier, CrawlParser, Locations, PageQuota, Stations, WorkShare
from shoal.engine.traps.counts import TrapCounters
from shoal.fetch.cookies import CookieJar
from shoal.fetch.escalation.learned_levels import LearnedLevels
from shoal.fetch.exits.exit_pool import ExitPool
from shoal.fetch.exits.ledger import ExitLedger
from shoal.fetch.gate import SendGate
from shoal.fetch.http.decode import decode_archived
from shoal.fetch.shared_gate import SharedGate
from shoal.frontier import Unparsed
from shoal.model.configuration.block_rules import block_rules
from shoal.model.crawl_totals import CrawlTotals
from shoal.model.errors import Misconfigured
from shoal.model.generations.recheck import DueLine
from shoal.model.limits import ParseLimits
from shoal.model.sandbox import SandboxRules
from shoal.model.scope import Scope
from shoal.model.settings import Settings
from shoal.parse.pool import ParsePool
from shoal.parse.shared_parsers import SharedParsers
from shoal.sinks import MultiSink
from shoal.sinks.names import public_name
from shoal.spider.source import SpiderDescription, SpiderSource
from shoal.stores.contract.fleet import SiteBudget

CLOSE_S = 2.0  # for the last call of the thread that writes outputs and archive


@dataclass(frozen=True, slots=True)
class SinkFiles:
    """Where items go, and how far an earlier run has written."""

    outputs: Sequence[str]
    checkpoint: bytes | None = None
    overwrite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCrawl:
    """A crawl, opened in its store: what a strategy knows about it."""

    name: str
    frontier: CrawlFrontier
    store: str  # for people
    resumed: bool
    version: int = 0  # of the spider
    totals: CrawlTotals
    trap_counters: TrapCounters
    site_budget: SiteBudget | None = None  # None: no limit
    other_workers: Callable[[], Awaitable[Mapping[str, bytes]]] | None = None  # reads what they store
    jar: CookieJar
    scope: Scope
    home: set[str]  # the origins of the seeds, to which alone secret headers go
    fingerprint_key: bytes = b""
    outputs: Sequence[str]  # of the crawl; in a fleet an elected worker writes them
    sinks: SinkFiles = SinkFiles(())  # those that this process writes
    rejects: SinkFiles
    rejects_file: Path
    segments: Segments
    archived: bytes | None = None  # checkpoint of the archive
    keep_days: int = 0  # older segments are deleted; 0: none
    segment_writer: str = ""  # keeps the segments of several processes apart
    gate: SharedGate | SendGate | None = None  # None: one for this process
    quota: PageQuota | None = None
    exits: ExitPool | None = None  # None: requests leave directly
    ledger: ExitLedger | None = None  # of the traffic through them
    no_exit: Callable[[], str] | None = None  # see `Stations`
    learned: LearnedLevels | None = None  # of hosts; None: nothing is learned
    served_pools: Callable[[], Collection[str]] | None = None  # None: those of this process
    unparsed: AsyncIterator[Unparsed] | None = None
    line: DueLine | None = None  # None: every page of this generation is asked for
    initial_state: Mapping[str, bytes] = field(default_factory=dict)  # to be saved before the first page


class Strategy(Protocol):
    """How a crawl is opened and shared: by one process alone, or by the workers of a fleet."""

    holder: str  # the name under which this process leases
    share: WorkShare
    sandbox: SandboxRules

    def spider_source(self) -> AbstractContextManager[SpiderSource]:
        """Provide the spider's source while the block runs."""

    def parse_settings(self) -> Settings:
        """Return the settings that are known before the spider is loaded."""

    def prepare(self, spider: SpiderDescription) -> Settings:
        """Return the settings of the crawl; raise `Misconfigured` if it cannot work. Nothing is open yet."""

    def open_crawl(
        self, spider: SpiderDescription, settings: Settings
    ) -> AbstractAsyncContextManager[OpenCrawl]:
        """Open the store, and the crawl in it."""

    async def open_outputs(
        self, crawl: OpenCrawl, sinks: MultiSink, rejects: MultiSink, archive: ArchiveWriter, run: Run
    ) -> OutputCommit:
        """Return what commits the items of a page; record that the outputs belong to this crawl."""

    def ownership(self, crawl: OpenCrawl, scope: ScopeState) -> Ownership: ...

    def start(
        self, crawl: OpenCrawl, spider: SpiderDescription, settings: Settings, scope: ScopeState
    ) -> AbstractAsyncContextManager[None]:
        """Add the first requests; while the block runs, the crawl may be controlled from outside."""


class SessionParser(CrawlParser, Children, Protocol):
    """The part of the parse pool that a session needs."""

    def serves(self, source: SpiderSource, *, procs: int, limits: ParseLimits, sandbox: SandboxRules) -> bool:
        """Return whether this parser has the spider loaded, with these limits."""


@asynccontextmanager
async def open_session(
    strategy: Strategy, parser: SessionParser | SharedParsers | None = None
) -> AsyncIterator[Stations]:
    """Open every station of a crawl; raise before anything is written if it cannot work.

    `parser`: one that may have the spider loaded already, or those that all crawls of a process share; then
    no other one is started.
    """
    async with open_spider(strategy, parser) as children:
        spider = children.description
        settings = strategy.prepare(spider)
        check_selectors(block_rules(settings).selectors)
        async with (
            strategy.open_crawl(spider, settings) as crawl,
            open_fetch_log(strategy, crawl, settings, spider.version) as fetch_log,
            open_outputs(strategy, crawl, settings) as (outputs, pages),
        ):
            all_links = settings.recrawl.keep > 0 and settings.recrawl.skip_unchanged
            judged = replace(with_reasons(crawl.scope), all_links=all_links)
            scope = ScopeState(judged, children, crawl.fingerprint_key)
            async with (
                open_fetchers(
                    settings,
                    strategy.share.pools,
                    robots_cache=crawl.frontier.hosts,
                    jar=crawl.jar,
                    home=crawl.home,
                    refuse=scope.refuse,
                    gate=crawl.gate,
                    memory=strategy.share.memory,
                    exits=crawl.exits,
                    ledger=crawl.ledger,
                    escalate=open_escalation(crawl, settings, strategy.share),
                    browsers=strategy.share.browsers,
                    client=strategy.share.client,
                ) as fetcher,
                strategy.start(crawl, spider, settings, scope),
            ):
                yield Stations(
                    crawl=crawl.name,
                    holder=strategy.holder,
                    settings=settings,
                    version=crawl.version,
                    resumed=crawl.resumed,
                    locations=Locations(
                        crawl.store,
                        str(crawl.segments.path),
                        tuple(map(public_name, crawl.outputs)),
                        crawl.rejects_file,
                    ),
                    frontier=crawl.frontier,
                    fetcher=fetcher,
                    pages=pages,
                    parser=children,
                    outputs=outputs,
                    fetch_log=fetch_log,
                    unparsed=crawl.unparsed,
                    ownership=strategy.ownership(crawl, scope),
                    scope=scope,
                    identity=parse_identity(spider, crawl, settings),
                    totals=crawl.totals,
                    trap_counters=crawl.trap_counters,
                    site_budget=crawl.site_budget,
                    other_workers=crawl.other_workers,
                    quota=crawl.quota,
                    share=strategy.share,
                    ledger=crawl.ledger,
                    exits_used="" if crawl.exits is None else crawl.exits.how_used,
                    no_exit=crawl.no_exit,
                    gate=crawl.gate if isinstance(crawl.gate, SharedGate) else None,
                )


def open_escalation(crawl: OpenCrawl, settings: Settings, share: WorkShare) -> Escalate | None:
    """Return what makes the escalation of a crawl; None: its levels are not learned."""
    if crawl.learned is None:
        return None

    pools = crawl.served_pools or (lambda: share.pools.names)
    return escalation_of(crawl.name, settings, crawl.learned, exits=crawl.exits, pools=pools)


def parse_identity(spider: SpiderDescription, crawl: OpenCrawl, settings: Settings) -> ParseIdentity | None:
    """Return what identifies how pages are parsed; None: the crawl keeps no generations."""
    if not settings.recrawl.keep:
        return None
    blocked_if = {host: block.blocked_if for host, block in sorted(settings.hosts.items())}
    code = repr((spider.version, sorted(spider.arguments.items()), settings.crawl.blocked_if, blocked_if))
    return ParseIdentity(
        code,
        crawl.scope,
        skip=settings.recrawl.skip_unchanged,
        rules=recheck_rules(settings.recrawl),
        line=crawl.line,
        item_times=settings.recrawl.item_times,
    )


def check_selectors(selectors: Collection[str]) -> None:
    """Raise `Misconfigured` if a selector of `blocked_if` is not valid."""
    if not selectors:
        return
    from shoal.spider.html.css import compile_query  # loads the parser, which only parse children need

    for selector in selectors:
        try:
            compile_query(selector)
        except ValueError as error:
            raise Misconfigured(f"blocked_if: selector: {error}") from None


@asynccontextmanager
async def open_spider(
    strategy: Strategy, parser: SessionParser | SharedParsers | None
) -> AsyncIterator[SessionParser]:
    """Start the parse children, unless `parser` has the same spider loaded."""
    settings = strategy.parse_settings()
    procs, limits = parse_processes(settings.crawl), settings.parse
    with strategy.spider_source() as source:
        if isinstance(parser, SharedParsers):
            weight, sandbox = settings.crawl.weight, strategy.sandbox
            async with parser.pool(
                source, procs=procs, limits=limits, sandbox=sandbox, weight=weight
            ) as pool:
                yield pool
            return
        if parser is not None and parser.serves(source, procs=procs, limits=limits, sandbox=strategy.sandbox):
            yield parser
            return
        async with ParsePool.open(source, procs=procs, limits=limits, sandbox=strategy.sandbox) as opened:
            yield opened


@asynccontextmanager
async def open_outputs(
    strategy: Strategy, crawl: OpenCrawl, settings: Settings
) -> AsyncIterator[tuple[OutputCommit, Pages]]:
    """Open the sinks, then the archive: an output that cannot be written leaves the archive untouched.

    All of them are opened, written and closed in one thread: any of these calls may take long.
    """
    thread = strategy.share.open_writer()
    opened: list[MultiSink] = []
    archive: ArchiveWriter | None = None
    failed = True
    try:
        fsync = settings.crawl.fsync
        opened += [await thread.run(partial(open_sink, crawl.sinks, fsync=fsync))]
        opened += [await thread.run(partial(open_sink, crawl.rejects, fsync=fsync))]
        archive = await thread.run(partial(open_archive, crawl, settings))
        sinks, rejects = opened
        reader = ArchiveReader(crawl.segments, decode_archived)
        outputs = await strategy.open_outputs(crawl, sinks, rejects, archive, thread.run)
        yield outputs, Pages(archive, reader)
        failed = False
    finally:
        # A call that does not return is left alone with its files: this process is about to end.
        if thread.close(wait_s=CLOSE_S):
            with ExitStack() as stack:
                for sink in opened:
                    stack.callback(sink.close)
                if archive is not None:
                    stack.callback(partial(archive.close, flush=not failed))


@asynccontextmanager
async def open_fetch_log(
    strategy: Strategy, crawl: OpenCrawl, settings: Settings, version: str
) -> AsyncIterator[FetchLog | None]:
    """Open the fetch log beside the archive, with a separate thread; None: the settings turn it off.

    Nothing is read or written before the first row, and no error of it ends the crawl.
    """
    if not settings.fetch_log.enabled:
        yield None
        return
    writer = FetchLogWriter(
        open_parts(crawl.segments),
        crawl.name,
        writer=crawl.segment_writer,
        part_bytes=settings.fetch_log.part_bytes,
        keep_days=settings.fetch_log.keep_days,
    )
    thread = strategy.share.open_writer()
    fetch_log = FetchLog(writer, thread.run, worker=strategy.holder, version=version)
    failed = False
    try:
        yield fetch_log
    except Exception:
        failed = True
        raise
    finally:
        await fetch_log.close(failed=failed)
        thread.close(wait_s=0.0)  # a call that does not return is left alone with its part


def open_sink(files: SinkFiles, *, fsync: bool) -> MultiSink:
    sink = MultiSink(files.outputs, fsync=fsync, overwrite=files.overwrite)
    try:
        sink.restore(files.checkpoint)
    except BaseException:
        sink.close()
        raise
    return sink


def open_archive(crawl: OpenCrawl, settings: Settings) -> ArchiveWriter:
    if crawl.keep_days:
        expire(crawl.segments, keep_days=crawl.keep_days, today=datetime.now(UTC).date())
    rules = write_rules(crawl.name, settings, writer=crawl.segment_writer)
    return ArchiveWriter.open(crawl.segments, crawl.archived, rules)
