"""`shoal doctor`: check this machine and the store before a crawl."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from shoal.cli.input.options import Config, Json, Store, examples
from shoal.cli.views.format import plural, quote_value

if TYPE_CHECKING:
    from shoal.services.doctor.checks import Check

EXAMPLES = examples(
    ("Check everything", "shoal doctor"),
    ("A fleet's store: version, memory, eviction, persistence", "shoal doctor --store redis://queue.example"),
    ("Before a long crawl, in a script: 0 is fine, 1 is not", "shoal doctor --store /data/shop --json"),
)


def command(store: Store = None, config: Config = None, json: Json = False) -> int:
    """Check this machine and the store, and print how to repair what is wrong.

    Connects only to the store of a fleet, and changes nothing.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store, load_settings
    from shoal.cli.process.exit_codes import ExitCode
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.doctor.checks import Grade, doctor_json, examine
    from shoal.services.store_address import public_address

    address = chosen_store(store, config=config)
    checks = run(examine(address, load_settings({}, config=config).settings.browser))
    failed = any(check.grade is Grade.FAIL for check in checks)
    if json:
        print_json(doctor_json(public_address(address), checks))
    else:
        print_lines(doctor_lines(checks))
    return ExitCode.USAGE if failed else ExitCode.FINISHED


def doctor_lines(checks: "Sequence[Check]") -> Iterator[str]:
    """Yield one line per check; a check that did not pass has a second line with the remedy."""
    width = max(len(check.name) for check in checks)
    for check in checks:
        finding = check.finding if check.finding.isprintable() else quote_value(check.finding)
        yield f"{check.grade.upper():4}  {check.name:{width}}  {finding}"
        if check.fix:
            yield f"      {'':{width}}  -> {check.fix}"
    wrong = sum(check.grade != "ok" for check in checks)
    yield "all checks passed" if not wrong else f"{plural(wrong, 'check')} did not pass"
