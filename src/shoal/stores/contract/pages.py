"""The archived pages of a crawl, and the items that they brought."""

import re
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol

import msgspec

from shoal.archive.fetch_log import FetchLogReader
from shoal.archive.reader import ArchiveReader
from shoal.model.errors import Misconfigured
from shoal.model.page import Item, PageRecord
from shoal.model.settings import Settings
from shoal.sinks.names import is_address
from shoal.sinks.registry import resolve

JSON_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".jsonl.zst")
CSV = (".csv", ".csv.gz", ".csv.zst")
_NO_CONTENT = (204, 205, 206)  # responses that are archived and not parsed


class PageFilter(msgspec.Struct, frozen=True):
    """A choice of pages."""

    match: str = ""  # regular expression, found anywhere in the URL
    status: int | None = None
    since: float | None = None  # epoch seconds of fetching
    until: float | None = None
    limit: int | None = None

    def takes(self, page: PageRecord) -> bool:
        """Judge a page by its record; its URL is only known once the page was read."""
        return (
            (self.status is None or page.status == self.status)
            and (self.since is None or page.fetched_at >= self.since)
            and (self.until is None or page.fetched_at < self.until)
        )

    def takes_url(self, url: str) -> bool:
        return not self.match or re.search(self.match, url) is not None


class PageEntry(msgspec.Struct, frozen=True):
    fingerprint: int
    page: PageRecord
    items: Sequence[bytes] | None  # as they were written, one JSON object each; None: not read


class ItemNeeds(msgspec.Struct, frozen=True):
    """What a command needs of the output that it reads the items of a crawl from."""

    exact: bool = False  # the items as they were written: formats with columns change the types of values
    by_page: bool = False  # every item in the order of writing, so that each page can be given its own


class ItemSource(msgspec.Struct, frozen=True):
    """An output that holds every item of a crawl; one with keys may have replaced some of them."""

    output: str
    count: int

    def read(self) -> Iterator[Item]:
        """Yield the items, not beyond the count: what a killed writer has left is not part of the crawl."""
        read = resolve(self.output).factory.read
        assert read is not None, "see `readable_outputs`"
        return islice(read(self.output), self.count)

    @property
    def by_page(self) -> bool:
        return not resolve(self.output).factory.keyed


def readable_outputs(outputs: Iterable[str], needs: ItemNeeds) -> list[str]:
    """Return the outputs that a command can read the items of a crawl from, the most exact one first."""
    return sorted((output for output in outputs if _can_read(output, needs)), key=_inexactness)


def _can_read(output: str, needs: ItemNeeds) -> bool:
    if needs.exact and not output.endswith(JSON_LINES):
        return False
    try:
        factory = resolve(output).factory
    except Misconfigured:  # standard output, or a format of a package that is not installed here
        return False
    return factory.read is not None and not (needs.by_page and factory.keyed)


def _inexactness(output: str) -> int:
    """Rank formats by what they keep: every type, types other than lists and objects, text only."""
    if output.endswith(JSON_LINES):
        return 0
    return 1 if is_address(output) else 3 if output.endswith(CSV) else 2


class PageCheck(msgspec.Struct, frozen=True):
    """The pages of a crawl compared with its archive."""

    items: int  # that the pages of the crawl, and its hooks, have brought
    pages: int | None = None  # in the archive; None: not counted
    problems: Sequence[str] = ()
    unchecked: Sequence[str] = ()  # what could not be compared


class CrawlPages(Protocol):
    """The archived pages of one crawl."""

    @property
    def crawl(self) -> str: ...

    @property
    def archive(self) -> ArchiveReader: ...

    @property
    def fetch_log(self) -> FetchLogReader:
        """Return the log of attempts beside the archive, as far as this machine can reach it."""

    @property
    def is_shared(self) -> bool:
        """Return whether every worker of the crawl writes archive and fetch log to this place."""

    @property
    def unreadable(self) -> int:
        """Return how many pages the last run of `pages` did not find in the archive, or found damaged."""

    @property
    def lost(self) -> int:
        """Return how many of those are nowhere else: not those that another machine may have."""

    def settings(self, own: Settings) -> Settings:
        """Return the crawl's settings where the store keeps them, else `own`."""

    async def hosts(self) -> Sequence[str]:
        """Return the hosts in scope."""

    async def outputs(self) -> Collection[str]:
        """Return the names of the outputs that the crawl itself writes."""

    def pages(
        self, selection: PageFilter, items: ItemSource | None = None
    ) -> AsyncGenerator[PageEntry, None]:
        """Yield the pages that the filter takes by their records.

        `items` is what `item_source` returned, for the items of each page. Only a store with `page_records`
        can attribute items to pages.
        """

    async def item_source(self, needs: ItemNeeds) -> ItemSource:
        """Find an output that holds every item; raise `Misconfigured` if no output does."""

    async def check(self, *, deep: bool) -> PageCheck:
        """Compare the pages that the store has settled with the archive; `deep` reads every page."""


def is_parsed(page: PageRecord) -> bool:
    """Return whether a spider gets this page; redirects and responses without content are not parsed.

    A page with a status of 400 or above was archived because a handler takes it.
    """
    return not 300 <= page.status < 400 and page.status not in _NO_CONTENT
