"""Exporting a crawl: its items in any format, or its pages as one WARC file.

Items are copied from the crawl's own JSONL output, each as it was written: those of the chosen pages, or all
of them where the store keeps no page records. Pages are copied record by record, still compressed; each is
read first, so that damaged ones are not copied. The output appears when it is complete.
"""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

from shoal import __version__
from shoal.archive.errors import PageExpired, PageUnreadable
from shoal.archive.gzip_members import pack
from shoal.archive.warc import RecordIds, warcinfo_record
from shoal.model.errors import Misconfigured
from shoal.model.page import Item
from shoal.services.reprocess.atomic_output import replacing, replacing_items
from shoal.services.reprocess.choice import choose_crawl, refuse_own_output
from shoal.sinks.files import translate_errors
from shoal.stores.contract.pages import CrawlPages, ItemLines, PageEntry, PageFilter, read_lines
from shoal.stores.open import open_store

WARC = ".warc.gz"
_REMEDY = "shoal reparse SPIDER --commit --out PATH makes items again from the archive"


@dataclass(frozen=True, slots=True)
class ExportPlan:
    store: str
    out: str
    crawl: str = ""  # empty: the only one in the store
    selection: PageFilter = field(default_factory=PageFilter)


@dataclass(slots=True)
class Exported:
    crawl: str
    out: str
    pages: int | None = None  # None: the store does not know which page an item came from
    items: int = 0
    unreadable: int = 0  # pages that are missing in the archive or damaged
    lost: int = 0  # of those, pages that have not expired


async def export(plan: ExportPlan) -> Exported:
    """Write the items of a crawl, or, to a .warc.gz, its pages. Changes nothing in the store."""
    async with open_store(plan.store) as store:
        pages = await store.archive_of(await choose_crawl(store, plan.crawl))
        await refuse_own_output(pages, plan.out)
        report = Exported(pages.crawl, plan.out)
        if plan.out.endswith(WARC):
            await _export_pages(pages, plan, report)
        elif store.capabilities.page_records:
            await _export_items(pages, plan, report)
        else:
            await _copy_items(pages, plan, report)
    return report


async def _export_items(pages: CrawlPages, plan: ExportPlan, report: Exported) -> None:
    items = await _item_lines(pages)
    report.pages = 0
    with replacing_items(plan.out) as output:
        # The filter needs the URL of a page only for --match: without it no page is read.
        chosen = _chosen(pages, plan.selection, report, items.path, reads=bool(plan.selection.match))
        async with aclosing(chosen):
            async for entry in chosen:
                lines = entry.items or ()
                output.write([Item(f"{entry.fingerprint:016x}-{n}", line) for n, line in enumerate(lines)])
                report.items += len(lines)
                report.pages += 1


async def _copy_items(pages: CrawlPages, plan: ExportPlan, report: Exported) -> None:
    """Copy all items: the store does not know which page one of them came from."""
    if plan.selection != PageFilter():
        raise Misconfigured(
            f"a fleet does not keep which page an item came from, so no pages can be chosen; {_REMEDY}"
        )
    items = await _item_lines(pages)
    with replacing_items(plan.out) as output, read_lines(items.path) as lines:
        # Not beyond the count: what a killed writer has left there is not part of the crawl yet.
        for number, line in enumerate(islice(lines or (), items.count)):
            output.write([Item(f"{number:016x}", line)])
    report.items = items.count


async def _item_lines(pages: CrawlPages) -> ItemLines:
    try:
        return await pages.item_lines()
    except Misconfigured as error:
        raise Misconfigured(f"{error}; {_REMEDY}") from None


async def _export_pages(pages: CrawlPages, plan: ExportPlan, report: Exported) -> None:
    fields = [
        ("software", f"Shoal/{__version__}"),
        ("format", "WARC File Format 1.1"),
        ("isPartOf", report.crawl),
    ]
    head = warcinfo_record(RecordIds(), Path(plan.out).name, at=time.time(), fields=fields)
    with replacing(plan.out) as draft, translate_errors(plan.out), draft.open("wb") as file:
        file.write(pack(head))
        report.pages = 0
        chosen = _chosen(pages, plan.selection, report, None, reads=True)
        async with aclosing(chosen):
            async for entry in chosen:
                file.write(pages.archive.raw_records(entry.page.ref))
                report.pages += 1
    report.unreadable += pages.unreadable
    report.lost += pages.lost


async def _chosen(
    pages: CrawlPages, selection: PageFilter, report: Exported, items: Path | None, *, reads: bool
) -> AsyncGenerator[PageEntry, None]:
    left = selection.limit
    async with aclosing(pages.pages(selection, items)) as entries:
        async for entry in entries:
            if left == 0:
                return
            try:
                if reads and not selection.takes_url(pages.archive.read(entry.page.ref).url):
                    continue
            except PageUnreadable as error:
                report.unreadable += 1
                report.lost += not isinstance(error, PageExpired)
                continue
            left = None if left is None else left - 1
            yield entry


def export_json(report: Exported) -> dict[str, object]:
    return asdict(report)
