"""What a crawl has gathered, in another form: its items in any format, or its pages as one WARC file.

Items are copied from the crawl's own JSONL output, each as it was written: those of the chosen pages, or of a
fleet, which does not keep whose they are, all. Pages are copied record by record, still compressed; each is
read first, so that what is damaged does not get into a new file. The output appears when it is complete.
"""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from shoal import __version__
from shoal.archive.errors import PageUnreadable
from shoal.archive.gzip_members import pack
from shoal.archive.warc import RecordIds, warcinfo_record
from shoal.model.errors import Misconfigured
from shoal.model.page import Item
from shoal.services.reprocess.atomic_output import drafting, drafting_items
from shoal.services.reprocess.folder_pages import FolderPages, PageEntry, PageFilter, lines_of
from shoal.services.reprocess.pages import CrawlPages, open_pages, refuse_own
from shoal.sinks.files import translate_errors

if TYPE_CHECKING:
    from shoal.services.reprocess.fleet_pages import FleetPages

WARC = ".warc.gz"
_REMEDY = "shoal reparse SPIDER --commit --out PATH makes items again from the archive"


@dataclass(frozen=True, slots=True)
class ExportPlan:
    store: str
    out: str
    crawl: str = ""  # empty: the only one there is
    selection: PageFilter = field(default_factory=PageFilter)


@dataclass(slots=True)
class Exported:
    crawl: str
    out: str
    pages: int | None = None  # None: the items of a fleet, which belong to no page any more
    items: int = 0
    unreadable: int = 0  # pages that the archive has no more, or damaged


async def export(plan: ExportPlan) -> Exported:
    """Write the items of a crawl, or, to a .warc.gz, its pages. Changes nothing in the store."""
    async with open_pages(plan.store, plan.crawl) as holdings:
        await refuse_own(holdings, plan.out)
        report = Exported(holdings.crawl, plan.out)
        if plan.out.endswith(WARC):
            await _export_pages(holdings, plan, report)
        elif isinstance(holdings, FolderPages):
            await _export_items(holdings, plan, report)
        else:
            await _copy_items(holdings, plan, report)
    return report


async def _export_items(holdings: FolderPages, plan: ExportPlan, report: Exported) -> None:
    try:
        items = await holdings.items()
    except Misconfigured as error:
        raise Misconfigured(f"{error}; {_REMEDY}") from None
    report.pages = 0
    with drafting_items(plan.out) as draft:
        # Whose items they are is told by the page's URL: without --match no page has to be read.
        chosen = _chosen(holdings, plan.selection, report, items, reads=bool(plan.selection.match))
        async with aclosing(chosen):
            async for kept in chosen:
                lines = kept.items or ()
                draft.write([Item(f"{kept.fingerprint:016x}-{n}", line) for n, line in enumerate(lines)])
                report.items += len(lines)
                report.pages += 1


async def _copy_items(holdings: "FleetPages", plan: ExportPlan, report: Exported) -> None:
    """Copy all the items of a fleet: nothing tells which page one of them came from."""
    if plan.selection != PageFilter():
        raise Misconfigured(
            f"a fleet does not keep which page an item came from, so no pages can be chosen; {_REMEDY}"
        )
    try:
        output, count = await holdings.whole_output()
    except Misconfigured as error:
        raise Misconfigured(f"{error}; {_REMEDY}") from None
    with drafting_items(plan.out) as draft, lines_of(output) as lines:
        # Not beyond the count: whatever a killed writer has left there is not the crawl's yet.
        for number, line in enumerate(islice(lines or (), count)):
            draft.write([Item(f"{number:016x}", line)])
    report.items = count


async def _export_pages(holdings: CrawlPages, plan: ExportPlan, report: Exported) -> None:
    fields = [
        ("software", f"Shoal/{__version__}"),
        ("format", "WARC File Format 1.1"),
        ("isPartOf", report.crawl),
    ]
    head = warcinfo_record(RecordIds(), Path(plan.out).name, at=time.time(), fields=fields)
    with drafting(plan.out) as draft, translate_errors(plan.out), draft.open("wb") as file:
        file.write(pack(head))
        report.pages = 0
        chosen = _chosen(holdings, plan.selection, report, None, reads=True)
        async with aclosing(chosen):
            async for kept in chosen:
                file.write(holdings.archive.raw_records(kept.page.ref))
                report.pages += 1
    report.unreadable += holdings.unreadable


async def _chosen(
    holdings: CrawlPages, selection: PageFilter, report: Exported, items: Path | None, *, reads: bool
) -> AsyncGenerator[PageEntry, None]:
    left = selection.limit
    async with aclosing(holdings.pages(selection, items)) as pages:
        async for kept in pages:
            if left == 0:
                return
            try:
                if reads and not selection.takes_url(holdings.archive.read(kept.page.ref).url):
                    continue
            except PageUnreadable:
                report.unreadable += 1
                continue
            left = None if left is None else left - 1
            yield kept
