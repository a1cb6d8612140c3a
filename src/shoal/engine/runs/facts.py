"""The facts that decide what a command does: those of the stored crawl, and those of the command.

The command is stored with its crawl once everything that it asks for has been queued. A run that is killed
before that leaves the facts of the run before, so the next command compares with those and does the rest.
"""

import shlex
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import msgspec

from shoal.fetch.exits.ledger import STOP
from shoal.frontier.results import Counts, DeadLetter
from shoal.model.crawl_totals import BEGAN
from shoal.model.failure import FailureClass
from shoal.model.request import Request
from shoal.model.settings import Settings
from shoal.model.url import host_key
from shoal.sinks.drafts import DRAFTS, UNFINISHED, load_drafts
from shoal.sinks.names import canonical_name
from shoal.spider.source import PlainSpider, SpiderDescription, SpiderFile, SpiderModule, SpiderSource

KEY = "command"
"""Name of the value in a crawl's state: the command that was last applied to it."""

MAX_START = 1_000  # start URLs that are stored one by one; of more, only a digest is
MAX_LETTERS = 10_000  # dead letters that are read in search of start URLs


class CommandFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a command asks for, as far as the next one is compared with it."""

    spider: str = ""  # file name or module; empty: a crawl without a spider
    version: str = ""  # of the spider's code
    fields: tuple[tuple[str, str], ...] = ()  # of --item
    declared: bool = False  # the spider declares the type of its items
    start: tuple[str, ...] = ()  # start URLs, sorted; empty if there are more than `MAX_START`
    start_digest: str = ""
    listed: bool = False  # more start URLs came from --seeds
    max_pages: int = 0
    depth: int | None = None
    follow: str = ""
    follow_typed: bool = False  # by the user, not by the spider
    any_host: bool = False
    hosts: tuple[str, ...] = ()  # in scope: the spider's, else those of the start URLs; sorted
    per_host: int = 0  # requests that are accepted per host
    robots: bool = True
    allow_private: bool = False
    outputs: tuple[str, ...] = ()
    stops_at_budget: bool = False  # for exits

    @classmethod
    def load(cls, stored: bytes | None) -> "CommandFacts | None":
        """Return what is stored with a crawl; None: nothing, or nothing that this version can read."""
        try:
            return None if stored is None else msgspec.json.decode(stored, type=cls)
        except msgspec.DecodeError:
            return None

    def dump(self) -> bytes:
        return msgspec.json.encode(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFlags:
    """How the command was typed, besides what it asks for."""

    fresh: bool = False
    again: bool = False
    again_after: float = 0.0  # with `again`: unless the last generation began at this time, or later
    named: bool = False  # with --crawl
    dry_run: bool = False
    confirmed: bool = False  # with --yes
    opens_complete: bool = False  # not typed: a program wants the items of a crawl that is complete
    store: str = ""  # the address for commands; empty: the usual folder

    @property
    def store_option(self) -> str:
        return f" --store {shlex.quote(self.store)}" if self.store else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlFacts:
    """A crawl as its store has it."""

    command: CommandFacts | None = None  # None: an earlier version ran it
    waiting: int = 0  # requests that have not ended, none of which is in progress
    in_progress: int = 0  # requests that a process fetches or parses right now, or had when it was killed
    done: int = 0
    gone: int = 0
    filtered: int = 0
    held: int = 0  # of them, those that can be released
    dead: int = 0
    dead_parse: int = 0  # pages that the spider failed on
    dead_start: int = 0  # start URLs among them
    dead_refused: int = 0  # addresses among them that the command did not allow
    unwritten: int = 0  # pages whose items are not in every output of a fleet yet
    unfinished: bool = False  # a run was killed before it brought its outputs into their final form
    unpublished: bool = False  # a generation has ended, and its outputs are not in place
    began: float = 0.0  # epoch seconds of its generation; 0: not known
    paused: bool = False
    live: bool = False  # workers of a fleet serve the store

    @property
    def open(self) -> int:
        return self.waiting + self.in_progress

    @property
    def pages(self) -> int:
        """The number of pages that count for --max-pages."""
        return self.done + self.dead_parse

    @property
    def barren(self) -> bool:
        """Whether it has ended without a single page: there is nothing to continue, and nothing to lose."""
        return not self.open and not self.done and not self.unwritten


def command_facts(
    source: SpiderSource,
    spider: SpiderDescription,
    settings: Settings,
    seeds: Sequence[Request],
    *,
    outputs: Iterable[str],
    listed: bool = False,
    overrides: Collection[str] = (),
) -> CommandFacts:
    """Return the facts of a command; `overrides` are the settings of [crawl] that the user has set."""
    crawl = settings.crawl
    start = sorted({seed.url for seed in seeds})
    named = sorted({host.lower() for host in spider.hosts})
    return CommandFacts(
        spider=_spider_name(source),
        version=spider.version if not isinstance(source, PlainSpider) else "",
        fields=tuple(source.items.items()) if isinstance(source, PlainSpider) else (),
        declared=spider.models,
        start=tuple(start) if len(start) <= MAX_START else (),
        start_digest=sha256("\n".join(start).encode()).hexdigest()[:16],
        listed=listed,
        max_pages=crawl.max_pages,
        depth=crawl.depth,
        follow=crawl.follow,
        follow_typed="follow" in overrides,
        any_host=not named and not crawl.same_host,
        hosts=tuple(named or sorted({host_key(url) for url in start})),
        per_host=settings.links.per_host,
        robots=crawl.robots,
        allow_private=crawl.allow_private,
        outputs=tuple(sorted(map(canonical_name, outputs))),
        stops_at_budget=crawl.over_budget == STOP,
    )


def _spider_name(source: object) -> str:
    match source:
        case SpiderFile(path=path, attribute=attribute):
            return f"{Path(path).name}:{attribute}" if attribute else Path(path).name
        case SpiderModule(module=module, attribute=attribute):
            return f"{module}:{attribute}"
    return ""


class FactsReader(Protocol):
    """The part of a frontier's reader that the facts of a crawl come from."""

    async def crawls(self) -> list[str]: ...
    async def counts(self, crawl: str) -> Counts: ...
    async def paused(self, crawl: str) -> bool: ...
    async def value(self, crawl: str, key: str) -> bytes | None: ...
    def dead_letters(
        self, crawl: str, *, classes: Collection[FailureClass] = (), host: str = "", limit: int | None = None
    ) -> AsyncIterator[DeadLetter]: ...


async def read_facts(reader: FactsReader, crawl: str, *, live: bool = False) -> CrawlFacts | None:
    """Return the facts of a crawl; None: the store has no such crawl. `live`: workers serve the store."""
    if crawl not in await reader.crawls():
        return None
    counts = await reader.counts(crawl)
    start = refused = 0
    if counts.dead:
        async for letter in reader.dead_letters(crawl, limit=MAX_LETTERS):
            start += is_start(letter)
            refused += letter.kind is FailureClass.REFUSED
    return CrawlFacts(
        command=CommandFacts.load(await reader.value(crawl, KEY)),
        waiting=counts.waiting + counts.delayed,
        in_progress=counts.leased + counts.parsing,
        done=counts.done,
        gone=counts.gone,
        filtered=counts.filtered,
        held=counts.held,
        dead=counts.dead,
        dead_parse=counts.pages - counts.done,
        dead_start=start,
        dead_refused=refused,
        unfinished=bool(await reader.value(crawl, UNFINISHED)),
        unpublished=bool(load_drafts(await reader.value(crawl, DRAFTS))),
        began=float(await reader.value(crawl, BEGAN) or 0.0),
        paused=await reader.paused(crawl),
        live=live,
    )


def is_start(letter: DeadLetter) -> bool:
    """Return whether a dead letter is a start URL, or what one redirected to."""
    return letter.request.depth == 0 and not letter.request.found_on


class LetterReplay(Protocol):
    async def replay(self, crawl: str, *, fingerprints: Collection[int] = ()) -> int: ...


async def replay_letters(
    reader: FactsReader, letters: LetterReplay, crawl: str, *, start: bool, refused: bool
) -> int:
    """Queue dead letters again: start URLs, and addresses that are allowed now; return how many."""
    chosen = [
        letter.fingerprint
        async for letter in reader.dead_letters(crawl, limit=MAX_LETTERS)
        if (start and is_start(letter)) or (refused and letter.kind is FailureClass.REFUSED)
    ]
    return await letters.replay(crawl, fingerprints=chosen) if chosen else 0
