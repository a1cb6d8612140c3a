"""`shoal delete`: delete a crawl from its store."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Json, Store, Yes, examples
from shoal.cli.views.format import count, plural

if TYPE_CHECKING:
    from shoal.services.control.delete import CrawlFootprint

EXAMPLES = examples(
    ("An old crawl; asks for confirmation", "shoal delete shop"),
    ("In a script, on a fleet's store", "shoal delete shop --store redis://queue.example --yes"),
)


def command(
    crawl: Annotated[str, typer.Argument(metavar="CRAWL", help="Name of the crawl.", show_default=False)],
    *,
    store: Store = None,
    yes: Yes = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Delete a crawl from its store. This cannot be undone.

    Deletes its queue, the URLs that it has seen, its dead letters, settings and counters. Its outputs and
    archived pages stay. Asks for confirmation. Refused while a process works on the crawl.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.control.delete import delete_json
    from shoal.services.store_address import public_address

    address = chosen_store(store, config=config)
    deleted = run(_delete(address, crawl, yes=yes))
    if json:
        print_json(delete_json(public_address(address), deleted))
    else:
        print_lines(_lines(deleted))


async def _delete(address: str, crawl: str, *, yes: bool) -> "CrawlFootprint":
    from shoal.cli.input.confirm import require_yes
    from shoal.services.control.delete import open_deletion
    from shoal.services.store_address import public_address

    async with open_deletion(address, crawl) as found:
        what = f"crawl {crawl} of {public_address(address)}: {_figures(found.footprint)}"
        require_yes(f"delete {what}? Outputs and archived pages stay.", yes=yes)
        await found.delete()
        return found.footprint


def _figures(deleted: "CrawlFootprint") -> str:
    parts = [plural(deleted.accepted, "URL")]
    parts += [f"{count(deleted.open)} not crawled yet"] if deleted.open else []
    parts += [f"{count(deleted.dead)} given up"] if deleted.dead else []
    unwritten = plural(deleted.unwritten, "page")
    parts += [f"the items of {unwritten} that are not in every output yet"] if deleted.unwritten else []
    return ", ".join(parts)


def _lines(deleted: "CrawlFootprint") -> list[str]:
    lines = [f"crawl {deleted.crawl} is deleted: {_figures(deleted)}"]
    lines += [f"stays: {output}" for output in deleted.outputs]
    if deleted.archive:
        lines.append(f"stays: {deleted.archive}{' of each worker' if deleted.scattered else ''}")
    return lines
