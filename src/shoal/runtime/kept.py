"""The pages that a crawl keeps, each with the items it brought, in the order in which they were committed.

Pages and items are written by the same commits, in the same order (`commit`). So the lines of a JSONL output
that has taken part from the beginning belong to the pages one after the other, as many as each page's record
says: no key is needed to tell whose they are. An output that does not add up is refused, not guessed at.
"""

import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shoal.archive.names import file_name
from shoal.archive.places import segments_in
from shoal.archive.reader import ArchiveReader
from shoal.fetch.decode import decode_archived
from shoal.frontier.sqlite import Reader
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.page import PageRecord
from shoal.runtime import sums
from shoal.runtime.outlet import sinks_key
from shoal.sinks.names import name_of
from shoal.sinks.recount import outputs, recount
from shoal.stores.folder import StoreFolder

_LINES = (".jsonl", ".ndjson")
_NO_CONTENT = (204, 205, 206)  # answers that are kept and not parsed


@dataclass(frozen=True, slots=True)
class Selection:
    """Which pages are meant."""

    match: str = ""  # regular expression that the URL matches somewhere
    status: int | None = None
    since: float | None = None  # epoch seconds of fetching
    until: float | None = None
    limit: int | None = None

    def takes(self, page: PageRecord) -> bool:
        """Judge a page by its record; its URL is known only once it is read."""
        return (
            (self.status is None or page.status == self.status)
            and (self.since is None or page.fetched_at >= self.since)
            and (self.until is None or page.fetched_at < self.until)
        )

    def takes_url(self, url: str) -> bool:
        return not self.match or re.search(self.match, url) is not None


@dataclass(frozen=True, slots=True)
class Kept:
    fingerprint: int
    page: PageRecord
    items: Sequence[bytes] | None  # as they were written, one JSON object each; None: not asked for


def is_parsed(page: PageRecord) -> bool:
    """Say whether a page is one that a spider gets to see: redirects and answers without content are not."""
    return 200 <= page.status < 300 and page.status not in _NO_CONTENT


def archive_reader(store: StoreFolder, crawl: str) -> ArchiveReader:
    return ArchiveReader(segments_in(store.archive / file_name(crawl)), decode_archived)


async def kept_pages(
    reader: Reader, crawl: str, selection: Selection, items: Path | None = None
) -> AsyncGenerator[Kept, None]:
    """Give the pages that are chosen by their record; `items` is an output that `own_items` found."""
    with _lines_of(items) as lines:
        async for fingerprint, page in reader.pages(crawl):
            before = None if lines is None else [next(lines) for _ in range(page.items)]
            if selection.takes(page):
                yield Kept(fingerprint, page, before)


async def own_items(reader: Reader, store: StoreFolder, crawl: str) -> Path:
    """Find the JSONL output that holds every item of a crawl; raise `Misconfigured` if there is none."""
    if store.owner() is not None:
        raise Misconfigured(
            f"{store.path} is in use by {store.owner()}: its items are complete when that ends"
        )
    total = 0
    async for _, page in reader.pages(crawl):
        total += page.items
    known = outputs(await reader.checkpoint(sinks_key(crawl)))
    for path, checkpoint in known.items():
        if path.endswith(_LINES):
            try:
                if recount(path, checkpoint) == total:
                    return Path(path)
            except Rejected:
                continue  # gone, or changed: perhaps there is another one
    if made := sums.Sums.load(await reader.crawl_get(crawl, sums.KEY)).hook_items:
        raise Misconfigured(
            f"{made} items of crawl {crawl!r} were made by on_error hooks, from no page: "
            "the others cannot be told from them"
        )
    shown = ", ".join(known) or "nothing but standard output"
    raise Misconfigured(
        f"crawl {crawl!r} has no JSONL output with all its {total} items any more (it wrote to {shown})"
    )


def refuse_own(out: str, checkpoint: bytes | None) -> None:
    """Keep a command that makes an output away from those that the crawl itself goes on writing."""
    if name_of(out) in outputs(checkpoint):
        raise Misconfigured(f"output {name_of(out)}: the crawl itself writes there; name another one")


@contextmanager
def _lines_of(path: Path | None) -> Iterator[Iterator[bytes] | None]:
    if path is None:
        yield None
        return
    with path.open("rb") as file:
        yield (line.rstrip(b"\n") for line in file)
