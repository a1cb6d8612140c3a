"""`shoal diff`: what changed between two generations of a crawl."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Json, Store, examples, option
from shoal.cli.views.format import quote_value, utc_time
from shoal.cli.views.output import print_json, print_lines
from shoal.model.printable import printable

if TYPE_CHECKING:
    from shoal.services.reprocess.generations import Generation, GenerationDiff, ItemChange

EXAMPLES = examples(
    ("What the last run has changed", "shoal diff books"),
    ("Since three runs ago, with recrawl.keep = 3", "shoal diff books --from 4 --to 7"),
    ("For a program", "shoal diff books --json"),
)

SIGNS = {"appeared": "+", "changed": "~", "vanished": "-"}

Name = Annotated[
    str | None,
    typer.Argument(metavar="CRAWL", help="The crawl; the only one if left out.", show_default=False),
]
From = Annotated[int | None, option("--from", "N", "The earlier generation.", default="the one before --to")]
To = Annotated[int | None, option("--to", "N", "The later generation.", default="the current one")]


def command(
    crawl: Name = None,
    *,
    before: From = None,
    after: To = None,
    store: Store = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Print which items and URLs appeared, changed and vanished between two generations of a crawl.

    Reads only. Items are compared by their key, field by field; URLs that answer 404 or 410 are gone, and
    those that no page links to any more are named as well.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.services.reprocess.generations import diff_generations, diff_json

    dsn = chosen_store(store, config=config)
    diff = run(diff_generations(dsn, crawl=crawl, before=before, after=after))
    if json:
        print_json(diff_json(diff))
    else:
        print_lines(list(lines_of(diff)))


def lines_of(diff: "GenerationDiff") -> Iterator[str]:
    """Yield the lines of a comparison."""
    from shoal.services.reprocess.generations import UrlChange, kind_of

    yield f"{printable(diff.crawl)}: {_generation(diff.before)} to {_generation(diff.after)}"
    kinds = [kind_of(one) for one in diff.items]
    figures = ", ".join(f"{kinds.count(kind)} {kind}" for kind in SIGNS)
    yield f"items: {figures}"
    for one, kind in zip(diff.items, kinds, strict=True):
        yield from _item_lines(one, kind)
    counts = diff.url_counts
    named = ", ".join(f"{counts[change]:,} {change.value}" for change in UrlChange if counts[change])
    yield f"pages: {diff.unchanged:,} unchanged" + (f", {named}" if named else "")
    for url in diff.urls:
        status = f" ({url.status})" if url.change in (UrlChange.GONE, UrlChange.FAILED) and url.status else ""
        yield f"  {url.change.value}{status}  {printable(url.url) or f'trace {url.fingerprint:016x}'}"
    if diff.unreadable:
        yield f"not compared: the archive here does not have the results of {diff.unreadable:,} pages"


def _item_lines(change: "ItemChange", kind: str) -> Iterator[str]:
    yield f"  {SIGNS[kind]} {printable(change.key)}  {printable(change.url)}"
    if kind == "changed":
        for name, (old, new) in change.fields.items():
            values = " -> ".join(quote_value(value) for value in (old, new))
            yield f"      {printable(name)}: {values}"


def _generation(one: "Generation") -> str:
    when = f" ({utc_time(one.began)})" if one.began else ""
    return f"generation {one.number}{when}" + ("" if one.finished else ", not finished")
