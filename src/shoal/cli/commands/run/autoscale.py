"""`shoal autoscale`: how many workers a fleet needs, and why not more."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.dead_letter_filters import age
from shoal.cli.input.options import Config, Json, Store, examples, option

if TYPE_CHECKING:
    from shoal.services.autoscale.report import Recommendation
    from shoal.services.autoscale.rules import ScaleRules

EXAMPLES = examples(
    ("How many workers does each stage need?", "shoal autoscale --store redis://queue.example"),
    (
        "For a program that starts them, every ten seconds",
        "shoal autoscale --store redis://queue.example --every 10s --json",
    ),
    (
        "Between 2 and 50 workers, the queue empty within an hour",
        "shoal autoscale --store redis://queue.example --min 2 --max 50 --drain 1h",
    ),
    ("Start and stop workers on this machine by it", "shoal fleet --max 8 books.py"),
)
SPAN_S = 5.0  # between two looks: rates are what has happened between them


def command(
    *,
    store: Store = None,
    min_workers: Annotated[
        int,
        typer.Option("--min", metavar="N", min=0, max=100_000, help="Fewest workers per stage."),
    ] = 1,
    max_workers: Annotated[
        int,
        typer.Option("--max", metavar="N", min=1, max=100_000, help="Most workers per stage."),
    ] = 16,
    drain: Annotated[
        str | None, option("--drain", "AGE", "The time in which to empty the queue.", default="5m")
    ] = None,
    every: Annotated[
        str | None, option("--every", "AGE", "Repeat, until Ctrl-C; numbers fall only after a minute.")
    ] = None,
    config: Config = None,
    json: Json = False,
) -> int:
    """Compute how many workers each role and pool of a fleet needs.

    Looks at the queue, at what arrives and leaves, at what one worker does, and at the pace that hosts and
    exits allow together: where that is the limit, it says so, because more workers would only wait. Reads the
    store for five seconds and changes nothing. shoal serve gives the same figures to KEDA.
    """
    import uvloop

    from shoal.cli.input.settings_loader import load_settings
    from shoal.model.errors import Misconfigured
    from shoal.services.autoscale.rules import ScaleRules

    if min_workers > max_workers:
        raise Misconfigured(f"--min {min_workers} is more than --max {max_workers}")
    given = {} if store is None else {"store": store}
    settings = load_settings(given, config=config).settings
    rules = ScaleRules(min=min_workers, max=max_workers, drain_s=age("--drain", drain) or 300.0)
    uvloop.run(_run(settings.store, rules, age("--every", every), json=json))
    return 0


async def _run(dsn: str, rules: "ScaleRules", every: float | None, *, json: bool) -> None:
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.autoscale.report import recommend, recommendation_json

    async for found in recommend(
        dsn, rules, span=SPAN_S if every is None else every, repeat=every is not None
    ):
        if json:
            print_json([recommendation_json(one) for one in found])
        else:
            print_lines(_lines(found))


def _lines(found: "list[Recommendation]") -> list[str]:
    from shoal.cli.views.format import plural, table

    rows = [
        (
            one.wanted.role + (f" ({one.wanted.pool})" if one.wanted.pool else ""),
            f"{one.load.queued:,}",
            f"{one.load.inflow:,.1f}",
            f"{one.load.drained:,.1f}",
            f"{one.load.workers}",
            f"{one.workers}",
        )
        for one in found
    ]
    lines = table(("stage", "queued", "in/s", "out/s", "workers", "wanted"), rows)
    return [*lines, "", *(f"{one.name}: {plural(one.workers, 'worker')}, {one.wanted.why}" for one in found)]
