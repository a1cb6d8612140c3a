"""`shoal doctor`: is this machine fit for a crawl, and if not, what to do."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from shoal.cli.input.options import Config, Json, Store, examples
from shoal.cli.process.log_format import shown
from shoal.cli.views.format import counted
from shoal.stores.address import shown_store

if TYPE_CHECKING:
    from shoal.services.doctor import Check

EXAMPLES = examples(
    ("Is anything in the way?", "shoal doctor"),
    ("A fleet's store: version, memory, eviction, persistence", "shoal doctor --store redis://queue.example"),
    ("Before a long crawl, in a script: 0 is fine, 1 is not", "shoal doctor --store /data/shop --json"),
)


def command(store: Store = None, config: Config = None, json: Json = False) -> int:
    """Check this machine and the store, and say how to mend what is wrong.

    Asks nobody on the network but the store of a fleet, and changes nothing.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.process.exit_codes import ExitCode
    from shoal.cli.views.output import put, put_json
    from shoal.services.doctor import Grade, examine

    address = chosen_store(store, config=config)
    checks = run(examine(address))
    failed = any(check.grade is Grade.FAIL for check in checks)
    if json:
        put_json(
            {"ok": not failed, "store": shown_store(address), "checks": [asdict(check) for check in checks]}
        )
    else:
        put("\n".join(doctor_lines(checks)))
    return ExitCode.USAGE if failed else ExitCode.FINISHED


def doctor_lines(checks: "Sequence[Check]") -> Iterator[str]:
    """One line a check; what is not fine has a second one that says what to do."""
    width = max(len(check.name) for check in checks)
    for check in checks:
        finding = check.finding if check.finding.isprintable() else shown(check.finding)
        yield f"{check.grade.upper():4}  {check.name:{width}}  {finding}"
        if check.fix:
            yield f"      {'':{width}}  -> {check.fix}"
    wrong = sum(check.grade != "ok" for check in checks)
    yield "everything is fine" if not wrong else f"{counted(wrong, 'thing')} to look at"
