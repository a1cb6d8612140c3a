"""`shoal reparse`: parse archived pages with a changed spider and compare the items."""

import json as jsons
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Arguments, Config, Json, Store, examples, option
from shoal.cli.input.page_filters import PageFilterOptions
from shoal.cli.views.format import by_reason, duration, plural, quote_value
from shoal.model.errors import Misconfigured

if TYPE_CHECKING:
    from shoal.services.reprocess.diff import Differences, Example
    from shoal.services.reprocess.reparse import Reparsed

EXAMPLES = examples(
    ("What would change? Fetches and writes nothing", "shoal reparse books.py"),
    ("Only some pages", "shoal reparse books.py --match /catalogue/ --limit 100"),
    ("Two versions of a spider on the same pages", "shoal reparse books.py --against books-old.py"),
    ("Write the new items", "shoal reparse books.py --commit --out books-v2.jsonl"),
)

MAX_VALUE_CHARS = 60

Target = Annotated[
    str,
    typer.Argument(
        metavar="SPIDER",
        help="The changed spider: books.py, books.py:name or module:name; or a URL, with --item.",
        show_default=False,
    ),
]
Items = Annotated[list[str] | None, option("--item", "NAME=CSS", "A field of each record, without a spider.")]
Crawl = Annotated[
    str | None,
    option("--crawl", "NAME", "The crawl whose pages to read.", default="the spider's name, or the only one"),
]
Against = Annotated[
    str | None,
    option(
        "--against",
        "SPIDER",
        "Compare with the items of this spider.",
        default="the crawl's items",
    ),
]
Commit = Annotated[
    bool,
    option("--diff/--commit", "", "Only compare, or also write the new items to --out?", default="compare"),
]
Out = Annotated[
    str | None,
    option("--out", "PATH", "With --commit: .jsonl, .csv, .sqlite, .parquet or -; replaced when complete."),
]
Procs = Annotated[str | None, option("--procs", "N", "Parse processes.", default="one per core")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReparseOptions(PageFilterOptions):
    """The options of `shoal reparse`."""

    spider: Target
    item: Items = None
    argument: Arguments = None
    store: Store = None
    crawl: Crawl = None
    against: Against = None
    diff: Commit = True
    out: Out = None
    procs: Procs = None
    config: Config = None
    json: Json = False


def command(options: ReparseOptions) -> int:
    """Parse archived pages again with a changed spider, without a request.

    Prints which fields are added, removed or changed, with examples. Does not change the crawl.
    """
    if options.diff and options.out is not None:
        raise Misconfigured("--out is where --commit writes to: add --commit, or remove --out")
    if not options.diff and options.out is None:
        raise Misconfigured("--commit needs --out PATH: where the new items go")

    from shoal.cli.input.settings_loader import load_settings
    from shoal.cli.input.target import read_target
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.reprocess.reparse import ReparsePlan, reparse, reparse_json

    flags = {"store": options.store, "crawl.procs": options.procs}
    set_flags = {key: value for key, value in flags.items() if value is not None}
    loaded = load_settings(set_flags, config=options.config)
    arguments = options.argument or ()
    plan = ReparsePlan(
        source=read_target([options.spider], options.item or (), arguments=arguments).source,
        settings=loaded.settings,
        crawl=options.crawl or "",
        selection=options.filter(),
        against=read_target([options.against], arguments=arguments).source if options.against else None,
        out=options.out or "",
        overrides=loaded.overrides,
    )

    import sys

    import uvloop

    from shoal.cli.process.exit_codes import ExitCode
    from shoal.cli.process.log_format import start_logging

    start_logging(quiet=True)
    began = time.monotonic()
    report = uvloop.run(reparse(plan))
    elapsed = time.monotonic() - began
    stream = sys.stderr if options.out == "-" else None
    if options.json:
        print_json(reparse_json(report, elapsed), stream)
    else:
        print_lines(reparse_lines(report, elapsed), stream)
    return ExitCode.NOT_VERIFIED if report.lost else ExitCode.FINISHED


def reparse_lines(report: "Reparsed", elapsed: float) -> Iterator[str]:
    """Yield what was parsed, what failed, then the differences."""
    rate = f", {report.pages / elapsed:,.0f} pages/s" if report.pages and elapsed > 0 else ""
    yield (
        f"{report.crawl}: {plural(report.pages, 'page')} parsed again without a request,"
        f" {plural(report.items, 'item')}, in {duration(elapsed)}{rate}"
    )
    if report.unreadable:
        yield f"skipped: {plural(report.unreadable, 'page')} missing from the archive, or damaged"
    if report.rejected:
        yield f"rejected: {plural(report.rejected, 'item')} that do not fit their model"
    if report.discarded:
        yield f"dropped by item hooks: {by_reason(report.discarded)}"
    for reason, number in sorted(report.faults.items(), key=lambda one: -one[1]):
        yield f"failed: {plural(number, 'page')}: {quote_value(reason)}"
        yield from (f"    {url}" for url in report.fault_urls[reason])
    if report.differences is not None:
        if report.against:
            yield f"compared with {report.against}"
        yield from difference_lines(report.differences)
    else:
        yield f"not compared: {report.uncompared}"
    if report.out and report.out != "-":
        yield f"{plural(report.items, 'item')} written to {report.out}"


def difference_lines(found: "Differences") -> Iterator[str]:
    if not found:
        yield f"no difference in {plural(found.items_before, 'item')}"
        return
    yield (
        f"different on {plural(found.pages_changed, 'page')}:"
        f" {plural(found.items_changed, 'item')} changed,"
        f" {found.items_added:,} added, {found.items_removed:,} removed"
        f" ({found.items_before:,} before, {found.items_after:,} now)"
    )
    for name, changes in found.fields.items():
        changed = [
            f"{word} in {number:,}"
            for word, number in (
                ("added", changes.added),
                ("removed", changes.removed),
                ("changed", changes.changed),
            )
            if number
        ]
        yield f"field {quote_value(name)}: {', '.join(changed)}"
        yield from map(_example, changes.examples)
    if found.examples:
        yield "items that exist only before or only now:"
        yield from map(_example, found.examples)


def _example(example: "Example") -> str:
    return f"    {_short(example.before)} -> {_short(example.after)}  {example.url}"


def _short(value: object) -> str:
    if value is None:
        return "nothing"
    text = jsons.dumps(value, ensure_ascii=False)
    if not text.isprintable():  # a page must not control the terminal
        text = jsons.dumps(value)
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[: MAX_VALUE_CHARS - 3]}..."
