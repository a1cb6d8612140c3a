"""`shoal verify`: recount a store from its data and compare."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from shoal.cli.input.options import Config, Crawl, Json, Store, examples, option
from shoal.cli.views.format import plural

if TYPE_CHECKING:
    from shoal.services.inspect.verify import VerifyReport

EXAMPLES = examples(
    ("Is everything accounted for?", "shoal verify"),
    ("Read every archived page again, too", "shoal verify --deep"),
    ("In a script: 0 is fine, 5 is not", "shoal verify --store /data/shop --json"),
    ("A fleet: every shard, every output", "shoal verify --store redis://queue.example"),
    ("Repair a fleet's counters and indexes", "shoal verify --store redis://queue.example --repair"),
)


def command(
    store: Store = None,
    crawl: Crawl = None,
    *,
    deep: Annotated[bool, option("--deep", "", "Read every archived page and check its digest.")] = False,
    repair: Annotated[
        bool, option("--repair", "", "First repair counters and indexes from the data.")
    ] = False,
    config: Config = None,
    json: Json = False,
) -> int:
    """Prove that nothing was lost and nothing was duplicated.

    Recounts everything from the data and compares frontier, archive and items with one another.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import load_settings
    from shoal.cli.process.exit_codes import ExitCode
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.inspect.verify import verify, verify_json

    settings = load_settings({} if store is None else {"store": store}, config=config).settings
    allowed = settings.worker.allow_outputs
    report = run(verify(settings.store, crawl, deep=deep, repair=repair, allow_outputs=allowed))
    if json:
        print_json(verify_json(report))
    else:
        print_lines(verify_lines(report))
    if report.empty:
        return ExitCode.NO_CRAWL
    return ExitCode.NOT_VERIFIED if report.problems else ExitCode.FINISHED


def verify_lines(report: "VerifyReport") -> Iterator[str]:
    """Yield what was counted, then one line per problem."""
    for line in report.repaired or ():
        yield f"repaired: {line}"
    if report.repaired is not None and not report.repaired:
        yield "nothing to repair"
    for crawl in report.crawls:
        archived = "" if crawl.pages is None else f"{plural(crawl.pages, 'page')} in the archive, "
        items = plural(crawl.items, "item")
        yield f"{crawl.name}: {plural(crawl.accepted, 'request')} accounted for, {archived}{items}"
        for path, written in crawl.outputs.items():
            yield f"  {path}: {'exists, not counted' if written is None else plural(written, 'item')}"
        if crawl.waiting:
            yield f"  {plural(crawl.waiting, 'item')} not written to the outputs yet"
        if crawl.lost:
            yield f"  {plural(crawl.lost, 'request')} lost: accepted, and in no state"
        for what in crawl.unchecked:
            yield f"  not checked: {what}"
    for problem in report.problems:
        yield f"problem: {problem}"
    if report.empty:
        yield f"no crawl here: {report.store} is new, or everything in it is lost"
    elif report.problems:
        yield plural(len(report.problems), "problem")
    else:
        yield "nothing lost, nothing doubled"
