"""`shoal verify`: count everything again from the data and compare."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from shoal.cli.input.options import Config, Crawl, Json, Store, examples, option
from shoal.cli.views.format import counted

if TYPE_CHECKING:
    from shoal.services.inspect.verify import VerifyReport

EXAMPLES = examples(
    ("Is everything accounted for?", "shoal verify"),
    ("Read every archived page again, too", "shoal verify --deep"),
    ("In a script: 0 is fine, 5 is not", "shoal verify --store /data/shop --json"),
    ("A fleet: every shard, every output", "shoal verify --store redis://queue.example"),
    ("Put a fleet's counters and lines right", "shoal verify --store redis://queue.example --repair"),
)


def command(
    store: Store = None,
    crawl: Crawl = None,
    *,
    deep: Annotated[bool, option("--deep", "", "Read every archived page and check its digest.")] = False,
    repair: Annotated[
        bool, option("--repair", "", "First put right what a script that was cut short left in Redis.")
    ] = False,
    config: Config = None,
    json: Json = False,
) -> int:
    """Prove that nothing was lost and nothing doubled.

    Counts everything again from the data and compares frontier, archive and items with one another.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.process.exit_codes import ExitCode
    from shoal.cli.views.output import put, put_json
    from shoal.services.inspect.verify import verify

    report = run(verify(chosen_store(store, config=config), crawl, deep=deep, repair=repair))
    if json:
        put_json(verify_json(report))
    else:
        put("\n".join(verify_lines(report)))
    return ExitCode.NOT_VERIFIED if report.problems else ExitCode.FINISHED


def verify_json(report: "VerifyReport") -> dict[str, object]:
    return {"ok": not report.problems, "problems": report.problems, **asdict(report)}


def verify_lines(report: "VerifyReport") -> Iterator[str]:
    """Say what was counted, then every problem on a line of its own."""
    for line in report.repaired or ():
        yield f"put right: {line}"
    if report.repaired is not None and not report.repaired:
        yield "there was nothing to put right"
    for crawl in report.crawls:
        archived = "" if crawl.pages is None else f"{counted(crawl.pages, 'page')} in the archive, "
        brought = counted(crawl.items, "item")
        yield f"{crawl.name}: {counted(crawl.accepted, 'request')} accounted for, {archived}{brought}"
        for path, items in crawl.outputs.items():
            yield f"  {path}: {'there, not counted' if items is None else counted(items, 'item')}"
        if crawl.waiting:
            yield f"  {counted(crawl.waiting, 'item')} on the way to the outputs"
        for what in crawl.unchecked:
            yield f"  not checked: {what}"
    for problem in report.problems:
        yield f"problem: {problem}"
    yield counted(len(report.problems), "problem") if report.problems else "nothing lost, nothing doubled"
