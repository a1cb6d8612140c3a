"""Exporting a crawl: its items in any format, or its pages as one WARC file.

Items are copied from an output of the crawl, the most exact one: those of the chosen pages, or all of them
where items cannot be attributed to pages. They can also be copied from any output without a crawl, or be
extracted from the archive again. Pages are copied record by record, still compressed; each is read first, so
that damaged ones are not copied. The output appears when it is complete.
"""

import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, aclosing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from shoal import __version__
from shoal.archive.errors import PageExpired, PageUnreadable
from shoal.archive.gzip_members import pack
from shoal.archive.warc import RecordIds, warcinfo_record
from shoal.model.errors import Misconfigured
from shoal.model.page import Item
from shoal.model.settings import Settings
from shoal.services.reprocess.atomic_output import replacing, replacing_items
from shoal.services.reprocess.choice import choose_crawl, refuse_own_output
from shoal.services.reprocess.reparse import ReparsePlan, reparse
from shoal.sinks.files import translate_errors
from shoal.sinks.names import canonical_name, public_name
from shoal.sinks.registry import resolve
from shoal.spider.source import SpiderSource
from shoal.stores.contract.crawl_record import spider_source
from shoal.stores.contract.pages import CrawlPages, ItemNeeds, ItemSource, PageEntry, PageFilter
from shoal.stores.open import open_store

WARC = ".warc.gz"
ARCHIVE = "archive"  # instead of an output: the pages of the crawl
_REMEDY = "--from archive --spider SPIDER makes items again from the archived pages"


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
    source: str = ""  # the output that items were copied from, or `archive`; empty: pages were exported
    failed: int = 0  # pages of the archive that the spider could not parse


async def export(plan: ExportPlan) -> Exported:
    """Write the items of a crawl, or, to a .warc.gz, its pages. Changes nothing in the store."""
    async with open_store(plan.store) as store:
        pages = await store.archive_of(await choose_crawl(store, plan.crawl))
        await refuse_own_output(pages, plan.out)
        report = Exported(pages.crawl, public_name(plan.out))
        if plan.out.endswith(WARC):
            await _export_pages(pages, plan, report)
            return report
        chosen = plan.selection != PageFilter()
        if chosen and not store.capabilities.page_records:
            raise Misconfigured(
                f"a fleet does not keep which page an item came from, so no pages can be chosen; {_REMEDY}"
            )
        try:
            source = await pages.item_source(ItemNeeds(by_page=chosen))
        except Misconfigured as error:
            raise Misconfigured(f"{error}; {_REMEDY}") from None
        report.source = public_name(source.output)
        if store.capabilities.page_records and source.by_page:
            await _export_items(pages, source, plan, report)
        else:
            _copy(source.read(), plan.out, report)
    return report


def convert(source: str, out: str) -> Exported:
    """Write the items of any output, of a crawl or of another program, to another one."""
    if out.endswith(WARC):
        raise Misconfigured(f"output {out}: pages come from the archive of a crawl: leave out --from")
    if canonical_name(source) == canonical_name(out):
        raise Misconfigured(f"output {public_name(out)}: --from and --out are the same")
    report = Exported("", public_name(out), source=public_name(source))
    read = resolve(source).factory.read
    if read is None:
        raise Misconfigured(f"output {report.source!r}: its format can be written only")
    _copy(read(source), out, report)
    return report


async def export_archive(plan: ExportPlan, spider: SpiderSource | None, settings: Settings) -> Exported:
    """Extract the items from the archived pages of a crawl again, with a spider, and write them.

    Without a spider, the one that was submitted is run; a folder does not keep it.
    """
    async with AsyncExitStack() as stack:
        if spider is None:
            spider = await _submitted_spider(stack, plan)
        done = await reparse(
            ReparsePlan(spider, settings, plan.crawl, plan.selection, out=plan.out, compare=False)
        )
    return Exported(
        done.crawl,
        done.out,
        done.pages,
        done.items,
        done.unreadable,
        done.lost,
        source=ARCHIVE,
        failed=sum(done.faults.values()),
    )


async def _submitted_spider(stack: AsyncExitStack, plan: ExportPlan) -> SpiderSource:
    async with open_store(plan.store) as store:
        record = None
        if store.capabilities.shared:
            record = await store.crawls.record(await choose_crawl(store, plan.crawl))
        if record is None:
            raise Misconfigured("--from archive needs --spider SPIDER: the store does not keep the spider")
    return spider_source(record)


async def _export_items(pages: CrawlPages, source: ItemSource, plan: ExportPlan, report: Exported) -> None:
    report.pages = 0
    with replacing_items(plan.out) as output:
        # The filter needs the URL of a page only for --match: without it no page is read.
        chosen = _chosen(pages, plan.selection, report, source, reads=bool(plan.selection.match))
        async with aclosing(chosen):
            async for entry in chosen:
                lines = entry.items or ()
                output.write([Item(f"{entry.fingerprint:016x}-{n}", line) for n, line in enumerate(lines)])
                report.items += len(lines)
                report.pages += 1


def _copy(items: Iterable[Item], out: str, report: Exported) -> None:
    with replacing_items(out) as output:
        for item in items:
            output.write([item])
        report.items = output.count


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
    pages: CrawlPages, selection: PageFilter, report: Exported, items: ItemSource | None, *, reads: bool
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
