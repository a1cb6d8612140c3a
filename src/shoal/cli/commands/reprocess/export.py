"""`shoal export`: write the items or pages of a crawl to a file."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from shoal.cli.input.options import Arguments, Config, Json, Store, examples, option
from shoal.cli.input.page_filters import PageFilterOptions
from shoal.cli.views.format import plural
from shoal.model.errors import Misconfigured

if TYPE_CHECKING:
    from shoal.services.reprocess.export import Exported

EXAMPLES = examples(
    ("The items as a table", "shoal export --out books.csv"),
    ("The pages of one part of the site, for other tools", "shoal export --match /blog/ --out blog.warc.gz"),
    ("Through a pipe", "shoal export --out - | jq .price"),
    ("From one format to another, without a crawl", "shoal export --from books.csv --out books.sqlite"),
    ("Items from the archived pages", "shoal export --from archive --spider books.py --out books.csv"),
)

Out = Annotated[
    str,
    option("--out", "PATH", "Items as .jsonl, .csv, .sqlite, .parquet or - (JSON lines); pages as .warc.gz."),
]
From = Annotated[
    str | None,
    option(
        "--from",
        "PATH",
        "Any output, of a crawl or not; or: archive.",
        default="the most exact output of the crawl",
    ),
]
Spider = Annotated[
    str | None, option("--spider", "SPIDER", "With --from archive: what extracts the items again.")
]
Crawl = Annotated[str | None, option("--crawl", "NAME", "The crawl to export.", default="the only one")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions(PageFilterOptions):
    """The options of `shoal export`."""

    out: Out
    source: From = None
    spider: Spider = None
    argument: Arguments = None
    store: Store = None
    crawl: Crawl = None
    config: Config = None
    json: Json = False


def command(options: ExportOptions) -> int:
    """Write the items or the pages of a crawl to a file.

    The suffix of --out chooses the format. The file appears only when it is complete. With --from, items are
    copied from any output, or made again from the archived pages.
    """
    import sys

    from shoal.cli.process.exit_codes import ExitCode
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.reprocess.export import export_json

    done = _export(options)
    stream = sys.stderr if options.out == "-" else None
    if options.json:
        print_json(export_json(done), stream)
    else:
        print_lines(export_lines(done), stream)
    return ExitCode.NOT_VERIFIED if done.lost else ExitCode.FINISHED


def _export(options: ExportOptions) -> "Exported":
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store, load_settings
    from shoal.cli.input.target import read_target
    from shoal.services.reprocess.choice import PageFilter
    from shoal.services.reprocess.export import ARCHIVE, ExportPlan, convert, export, export_archive

    pages = options.filter()
    if options.spider is not None and options.source != ARCHIVE:
        raise Misconfigured("--spider is for --from archive: the other sources have items")
    if options.source not in (None, ARCHIVE):
        if pages != PageFilter() or options.crawl is not None:
            raise Misconfigured("--from PATH copies all items: leave out --crawl and the choice of pages")
        return convert(options.source, options.out)
    plan = ExportPlan(
        chosen_store(options.store, config=options.config), options.out, options.crawl or "", pages
    )
    if options.source is None:
        return run(export(plan))
    arguments = options.argument or ()
    spider = read_target([options.spider], arguments=arguments).source if options.spider else None
    flags = {} if options.store is None else {"store": options.store}
    return run(export_archive(plan, spider, load_settings(flags, config=options.config).settings))


def export_lines(done: "Exported") -> Iterator[str]:
    what = [] if done.out.endswith(".warc.gz") else [plural(done.items, "item")]
    what += [] if done.pages is None else [plural(done.pages, "page")]
    yield f"{done.crawl or done.source}: {' of '.join(what)} written to {done.out}"
    if done.unreadable:
        yield f"skipped: {plural(done.unreadable, 'page')} missing from the archive, or damaged"
    if done.failed:
        yield f"failed: {plural(done.failed, 'page')} that the spider could not parse; shoal reparse says why"
