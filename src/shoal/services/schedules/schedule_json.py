"""Schedules as JSON: what `shoal schedule list --json` and the API return."""

from shoal.model.configuration.crawl_definition import command_arguments, hide_secrets
from shoal.services.schedules.manage import KnownSchedule
from shoal.sinks.names import public_name
from shoal.stores.contract.schedules import Schedule


def shown_arguments(schedule: Schedule) -> list[str]:
    """Return target and options of the crawl, without what may be secret."""
    return command_arguments(hide_secrets(schedule.crawl, public_name))


def schedule_json(one: KnownSchedule) -> dict[str, object]:
    found = one.schedule
    return {
        "name": found.name,
        "cron": found.cron,
        "every_s": found.every_s,
        "timezone": found.timezone,
        "jitter_s": found.jitter_s,
        "overlap": found.overlap.value,
        "missed": found.missed.value,
        "paused": found.paused,
        "again": found.again,
        "adaptive": found.adaptive,
        "budget": found.budget,
        "keep": found.keep,
        "arguments": shown_arguments(found),
        "next_at": one.next_at,
        "runs": [
            {"tick": run.tick, "state": run.state.value, "crawl": run.crawl, "why": run.why}
            for run in one.state.runs
        ],
    }
