"""`shoal reparse`: a changed spider over the pages in the archive, and what that changes."""

import json as jsons
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Json, Store, examples, option
from shoal.cli.input.page_filters import Limit, Match, Since, Status, Until
from shoal.cli.process.log_format import shown
from shoal.cli.views.format import counted, duration
from shoal.model.errors import Misconfigured

if TYPE_CHECKING:
    from shoal.services.reprocess.diff import Differences, Example
    from shoal.services.reprocess.reparse import Reparsed

EXAMPLES = examples(
    ("What would change? Nothing is fetched, nothing is written", "shoal reparse books.py"),
    ("Only some pages", "shoal reparse books.py --match /catalogue/ --limit 100"),
    ("Two versions of a spider on the same pages", "shoal reparse books.py --against books-old.py"),
    ("Write the new items", "shoal reparse books.py --commit --out books-v2.jsonl"),
)

WIDTH = 60  # characters of a value that are shown

Target = Annotated[
    str,
    typer.Argument(
        metavar="SPIDER",
        help="The changed spider: books.py or module:name; or a URL, with --item.",
        show_default=False,
    ),
]
Items = Annotated[list[str] | None, option("--item", "NAME=CSS", "A field of each record, without a spider.")]
Crawl = Annotated[
    str | None,
    option("--crawl", "NAME", "The crawl to read pages of.", default="the spider's name, or the only one"),
]
Against = Annotated[
    str | None,
    option(
        "--against",
        "SPIDER",
        "Compare with what this spider makes of the pages.",
        default="the crawl's items",
    ),
]
Commit = Annotated[
    bool,
    option("--diff/--commit", "", "Only compare, or write the new items to --out, too?", default="compare"),
]
Out = Annotated[
    str | None,
    option(
        "--out", "PATH", "With --commit: .jsonl, .csv, .sqlite, .parquet or -; replaced when all is done."
    ),
]
Procs = Annotated[str | None, option("--procs", "N", "Parse processes.", default="one per core")]


def command(
    spider: Target,
    *,
    item: Items = None,
    store: Store = None,
    crawl: Crawl = None,
    match: Match = None,
    status: Status = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    against: Against = None,
    diff: Commit = True,
    out: Out = None,
    procs: Procs = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Parse archived pages again with a changed spider, without a request.

    Says which fields are added, removed or changed, with examples. The crawl itself stays as it is.
    """
    if diff and out is not None:
        raise Misconfigured("--out is where --commit writes to: add --commit, or leave --out away")
    if not diff and out is None:
        raise Misconfigured("--commit needs --out PATH: where the new items go")

    from shoal.cli.input.page_filters import selection_of
    from shoal.cli.input.settings_loader import load_settings
    from shoal.cli.input.target import read_target
    from shoal.cli.views.output import json_text, put
    from shoal.services.reprocess.reparse import ReparsePlan, reparse

    flags = {"store": store, "crawl.procs": procs}
    layers = load_settings({key: value for key, value in flags.items() if value is not None}, config=config)
    plan = ReparsePlan(
        source=read_target([spider], item or ()).source,
        settings=layers.settings,
        crawl=crawl or "",
        selection=selection_of(match=match, status=status, since=since, until=until, limit=limit),
        against=read_target([against]).source if against else None,
        out=out or "",
        overrides=layers.overrides,
    )

    import sys

    import uvloop

    from shoal.cli.process.log_format import start_logging

    start_logging(quiet=True)
    began = time.monotonic()
    report = uvloop.run(reparse(plan))
    took = time.monotonic() - began
    text = json_text(reparse_json(report, took)) if json else "\n".join(reparse_lines(report, took))
    put(text, sys.stderr if out == "-" else None)


def reparse_json(report: "Reparsed", took: float) -> dict[str, object]:
    return {**asdict(report), "elapsed_s": round(took, 3)}


def reparse_lines(report: "Reparsed", took: float) -> Iterator[str]:
    """Say what was parsed, what failed, then what is different."""
    rate = f", {report.pages / took:,.0f} pages a second" if report.pages and took > 0 else ""
    yield (
        f"{report.crawl}: {counted(report.pages, 'page')} parsed again without a request,"
        f" {counted(report.items, 'item')}, in {duration(took)}{rate}"
    )
    if report.unreadable:
        yield f"left out: {counted(report.unreadable, 'page')} that the archive has no more, or damaged"
    if report.rejected:
        yield f"rejected: {counted(report.rejected, 'item')} that do not fit their model"
    for reason, number in sorted(report.faults.items(), key=lambda one: -one[1]):
        yield f"failed: {counted(number, 'page')}: {shown(reason)}"
        yield from (f"    {url}" for url in report.fault_urls[reason])
    if report.differences is not None:
        if report.against:
            yield f"compared with {report.against}"
        yield from difference_lines(report.differences)
    else:
        yield f"not compared: {report.uncompared}"
    if report.out and report.out != "-":
        yield f"{counted(report.items, 'item')} written to {report.out}"


def difference_lines(found: "Differences") -> Iterator[str]:
    if not found:
        yield f"no difference in {counted(found.items_before, 'item')}"
        return
    yield (
        f"different on {counted(found.pages_changed, 'page')}:"
        f" {counted(found.items_changed, 'item')} changed,"
        f" {found.items_added:,} added, {found.items_removed:,} removed"
        f" ({found.items_before:,} before, {found.items_after:,} now)"
    )
    for name, changes in found.fields.items():
        told = [
            f"{word} in {number:,}"
            for word, number in (
                ("added", changes.added),
                ("removed", changes.removed),
                ("changed", changes.changed),
            )
            if number
        ]
        yield f"field {shown(name)}: {', '.join(told)}"
        yield from map(_example, changes.examples)
    if found.examples:
        yield "items that are there only before or only now:"
        yield from map(_example, found.examples)


def _example(example: "Example") -> str:
    return f"    {_short(example.before)} -> {_short(example.after)}  {example.url}"


def _short(value: object) -> str:
    if value is None:
        return "nothing"
    text = jsons.dumps(value, ensure_ascii=False)
    if not text.isprintable():  # what a page says must not steer a terminal
        text = jsons.dumps(value)
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
