"""`shoal export`: what a crawl has gathered, in another form."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from shoal.cli.input.options import Config, Json, Store, examples, option
from shoal.cli.input.page_filters import Limit, Match, Since, Status, Until
from shoal.cli.views.format import counted

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


def command(
    *,
    out: Out,
    store: Store = None,
    crawl: Crawl = None,
    match: Match = None,
    status: Status = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Write the items or the pages of a crawl to a file.

    The ending of --out says what and how. The file is there when it is complete, not before.
    """
    import sys
    from asyncio import run

    from shoal.cli.input.page_filters import selection_of
    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import json_text, put
    from shoal.services.reprocess.export import ExportPlan, export

    selection = selection_of(match=match, status=status, since=since, until=until, limit=limit)
    done = run(export(ExportPlan(chosen_store(store, config=config), out, crawl or "", selection)))
    text = json_text(asdict(done)) if json else "\n".join(export_lines(done))
    put(text, sys.stderr if out == "-" else None)


def export_lines(done: "Exported") -> Iterator[str]:
    what = [] if done.out.endswith(".warc.gz") else [counted(done.items, "item")]
    what += [] if done.pages is None else [counted(done.pages, "page")]
    yield f"{done.crawl}: {' of '.join(what)} written to {done.out}"
    if done.unreadable:
        yield f"left out: {counted(done.unreadable, 'page')} that the archive has no more, or damaged"
