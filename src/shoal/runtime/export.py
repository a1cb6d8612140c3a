"""What a crawl has gathered, in another form: its items in any format, or its pages as one WARC file.

Items are copied from the crawl's own JSONL output, each as it was written. Pages are copied record by record,
still compressed; each is read first, so that what is damaged does not get into a new file. The output appears
when it is complete.
"""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from shoal import __version__
from shoal.archive.errors import PageUnreadable
from shoal.archive.members import pack
from shoal.archive.reader import ArchiveReader
from shoal.archive.warc import RecordIds, warcinfo_record
from shoal.frontier.sqlite import Reader
from shoal.model.errors import Misconfigured
from shoal.model.page import Item
from shoal.runtime.draft import drafting, drafting_items
from shoal.runtime.kept import Kept, Selection, archive_reader, kept_pages, own_items, refuse_own
from shoal.runtime.looking import peeking
from shoal.runtime.outlet import sinks_key
from shoal.sinks.files import translated
from shoal.stores.folder import StoreFolder

WARC = ".warc.gz"


@dataclass(frozen=True, slots=True)
class ExportPlan:
    store: str
    out: str
    crawl: str = ""  # empty: the only one there is
    selection: Selection = field(default_factory=Selection)


@dataclass(slots=True)
class Exported:
    crawl: str
    out: str
    pages: int = 0
    items: int = 0
    unreadable: int = 0  # pages that the archive has no more, or damaged


async def export(plan: ExportPlan) -> Exported:
    """Write the items of a crawl, or, to a .warc.gz, its pages. Changes nothing in the store."""
    store = StoreFolder(Path(plan.store))
    async with peeking(plan.store) as reader:
        crawl = await only_crawl(reader, plan.crawl)
        refuse_own(plan.out, await reader.checkpoint(sinks_key(crawl)))
        report = Exported(crawl, plan.out)
        archive = archive_reader(store, crawl)
        if plan.out.endswith(WARC):
            await _export_pages(reader, archive, plan, report)
        else:
            await _export_items(reader, archive, plan, report, await _items_of(reader, store, crawl))
    return report


async def only_crawl(reader: Reader, asked: str) -> str:
    """Choose the crawl that is meant; raise `Misconfigured` if that is not clear."""
    names = await reader.crawls()
    if asked in names or (not asked and len(names) == 1):
        return asked or names[0]
    problem = f"no crawl named {asked!r}" if asked else f"{len(names)} crawls"
    raise Misconfigured(
        f"the store has {problem}; --crawl chooses one of: {', '.join(names) or 'none at all'}"
    )


async def _items_of(reader: Reader, store: StoreFolder, crawl: str) -> Path:
    try:
        return await own_items(reader, store, crawl)
    except Misconfigured as error:
        raise Misconfigured(
            f"{error}; shoal reparse SPIDER --commit --out PATH makes them again from the archive"
        ) from None


async def _export_items(
    reader: Reader, archive: ArchiveReader, plan: ExportPlan, report: Exported, items: Path
) -> None:
    with drafting_items(plan.out) as draft:
        # Whose items they are is told by the page's URL: without --match no page has to be read.
        chosen = _chosen(reader, archive, plan.selection, report, items, reads=bool(plan.selection.match))
        async with aclosing(chosen):
            async for kept in chosen:
                lines = kept.items or ()
                draft.write([Item(f"{kept.fingerprint:016x}-{n}", line) for n, line in enumerate(lines)])
                report.items += len(lines)
                report.pages += 1


async def _export_pages(reader: Reader, archive: ArchiveReader, plan: ExportPlan, report: Exported) -> None:
    fields = [
        ("software", f"Shoal/{__version__}"),
        ("format", "WARC File Format 1.1"),
        ("isPartOf", report.crawl),
    ]
    head = warcinfo_record(RecordIds(), Path(plan.out).name, at=time.time(), fields=fields)
    with drafting(plan.out) as draft, translated(plan.out), draft.open("wb") as file:
        file.write(pack(head))
        chosen = _chosen(reader, archive, plan.selection, report, None, reads=True)
        async with aclosing(chosen):
            async for kept in chosen:
                file.write(archive.packed(kept.page.ref))
                report.pages += 1


async def _chosen(
    reader: Reader,
    archive: ArchiveReader,
    selection: Selection,
    report: Exported,
    items: Path | None,
    *,
    reads: bool,
) -> AsyncGenerator[Kept, None]:
    left = selection.limit
    pages = kept_pages(reader, report.crawl, selection, items)
    async with aclosing(pages):
        async for kept in pages:
            if left == 0:
                return
            try:
                if reads and not selection.takes_url(archive.read(kept.page.ref).url):
                    continue
            except PageUnreadable:
                report.unreadable += 1
                continue
            left = None if left is None else left - 1
            yield kept
