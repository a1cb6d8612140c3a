"""`shoal export`: write the items or pages of a crawl to a file."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from shoal.cli.input.options import Config, Json, Store, examples, option
from shoal.cli.input.page_filters import PageFilterOptions
from shoal.cli.views.format import plural

if TYPE_CHECKING:
    from shoal.services.reprocess.export import Exported

EXAMPLES = examples(
    ("The items as a table", "shoal export --out books.csv"),
    ("The pages of one part of the site, for other tools", "shoal export --match /blog/ --out blog.warc.gz"),
    ("Through a pipe", "shoal export --out - | jq .price"),
)

Out = Annotated[
    str,
    option("--out", "PATH", "Items as .jsonl, .csv, .sqlite, .parquet or - (JSON lines); pages as .warc.gz."),
]
Crawl = Annotated[str | None, option("--crawl", "NAME", "The crawl to export.", default="the only one")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions(PageFilterOptions):
    """The options of `shoal export`."""

    out: Out
    store: Store = None
    crawl: Crawl = None
    config: Config = None
    json: Json = False


def command(options: ExportOptions) -> int:
    """Write the items or the pages of a crawl to a file.

    The suffix of --out chooses the format. The file appears only when it is complete.
    """
    import sys
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.process.exit_codes import ExitCode
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.reprocess.export import ExportPlan, export, export_json

    pages = options.filter()
    store = chosen_store(options.store, config=options.config)
    done = run(export(ExportPlan(store, options.out, options.crawl or "", pages)))
    stream = sys.stderr if options.out == "-" else None
    if options.json:
        print_json(export_json(done), stream)
    else:
        print_lines(export_lines(done), stream)
    return ExitCode.NOT_VERIFIED if done.lost else ExitCode.FINISHED


def export_lines(done: "Exported") -> Iterator[str]:
    what = [] if done.out.endswith(".warc.gz") else [plural(done.items, "item")]
    what += [] if done.pages is None else [plural(done.pages, "page")]
    yield f"{done.crawl}: {' of '.join(what)} written to {done.out}"
    if done.unreadable:
        yield f"skipped: {plural(done.unreadable, 'page')} missing from the archive, or damaged"
