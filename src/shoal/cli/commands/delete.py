"""`shoal forget`: remove a crawl from its store, for good."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Json, Store, Yes, examples
from shoal.cli.views.format import count, counted
from shoal.stores.address import shown_store

if TYPE_CHECKING:
    from shoal.services.control.delete import CrawlFootprint

EXAMPLES = examples(
    ("A crawl that nobody needs any more; asks first", "shoal forget shop"),
    ("In a script, on a fleet's store", "shoal forget shop --store redis://queue.example --yes"),
)


def command(
    crawl: Annotated[str, typer.Argument(metavar="CRAWL", help="Name of the crawl.", show_default=False)],
    *,
    store: Store = None,
    yes: Yes = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Remove a crawl from its store, for good.

    Its queue, the URLs that it has seen, its dead letters, settings and counters go. Its outputs and its
    archived pages stay where they are. Asks first. Refused while somebody works on it.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import put, put_json

    address = chosen_store(store, config=config)
    gone = run(_forget(address, crawl, yes=yes))
    if json:
        put_json(_json(address, gone))
    else:
        put("\n".join(_lines(gone)))


async def _forget(address: str, crawl: str, *, yes: bool) -> "CrawlFootprint":
    from shoal.cli.input.confirm import require_yes
    from shoal.services.control.delete import forgetting

    async with forgetting(address, crawl) as found:
        what = f"crawl {crawl} of {shown_store(address)}, for good: {_figures(found.belongings)}"
        require_yes(f"forget {what}? Outputs and archived pages stay.", yes=yes)
        await found.forget()
        return found.belongings


def _figures(gone: "CrawlFootprint") -> str:
    parts = [counted(gone.accepted, "URL")]
    parts += [f"{count(gone.open)} still to be crawled"] if gone.open else []
    parts += [f"{count(gone.dead)} given up"] if gone.dead else []
    unwritten = counted(gone.unwritten, "page")
    parts += [f"the items of {unwritten} that are not in every output yet"] if gone.unwritten else []
    return ", ".join(parts)


def _lines(gone: "CrawlFootprint") -> list[str]:
    lines = [f"crawl {gone.crawl} is forgotten: {_figures(gone)}"]
    lines += [f"stays: {output}" for output in gone.outputs]
    if gone.archive:
        lines.append(f"stays: {gone.archive}{' of each worker' if gone.scattered else ''}")
    return lines


def _json(address: str, gone: "CrawlFootprint") -> dict[str, object]:
    return {
        "store": shown_store(address),
        "forgotten": gone.crawl,
        "accepted": gone.accepted,
        "open": gone.open,
        "dead": gone.dead,
        "unwritten": gone.unwritten,
        "outputs": list(gone.outputs),
        "archive": gone.archive,
    }
