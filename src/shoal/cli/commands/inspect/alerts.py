"""`shoal alerts`: what is wrong with the crawls of a store, why, and what to do."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from shoal.cli.input.options import Config, Json, Store, examples
from shoal.model.format import duration
from shoal.model.printable import printable

if TYPE_CHECKING:
    from shoal.services.alerts.read import StoreAlerts

EXAMPLES = examples(
    ("What is wrong right now?", "shoal alerts"),
    ("For a script", "shoal alerts --json"),
    ("Those of a fleet", "shoal alerts --store redis://queue.example"),
)
MAX_RECENT = 10


def command(store: Store = None, config: Config = None, json: Json = False) -> None:
    """Show the alerts of a store: cause, what was done, what to do.

    Reads only; safe while a crawl runs.
    """
    import time
    from asyncio import run

    from shoal.cli.input.settings_loader import load_settings
    from shoal.cli.views.output import print_json, print_lines
    from shoal.model.alert import alert_json
    from shoal.services.alerts.read import alerts
    from shoal.services.store_address import public_address

    settings = load_settings({} if store is None else {"store": store}, config=config).settings
    found = run(alerts(settings.store, settings.alerts))
    if json:
        print_json(
            {
                "store": public_address(settings.store),
                "evaluated_at": found.at or None,
                "active": [*map(alert_json, found.active)],
                "unknown": [*map(alert_json, found.unknown)],
                "recent": [*map(alert_json, found.recent)],
            }
        )
    else:
        print_lines(alert_lines(found, time.time()))


def alert_lines(found: "StoreAlerts", now: float) -> Iterator[str]:
    """Yield the active alerts, the worst first, and the latest ones that were cleared."""
    if not found.active and not found.unknown:
        yield "no alerts"
    for alert in found.active:
        what = f"{alert.level.value}: {alert.kind.value} for {duration(now - alert.since)}"
        yield printable(f"{what}: {alert.text}")
    for alert in found.unknown:
        ago = duration(now - found.at)
        yield printable(f"unknown since the crawl was stopped {ago} ago: {alert.kind.value}: {alert.cause}")
    for alert in found.recent[:MAX_RECENT]:
        ago, lasted = duration(now - alert.cleared_at), duration(alert.cleared_at - alert.since)
        yield printable(f"cleared {ago} ago after {lasted}: {alert.kind.value}: {alert.cause}")
