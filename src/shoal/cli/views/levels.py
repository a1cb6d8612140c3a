"""The levels of hosts, as people read them."""

from collections.abc import Iterator, Mapping

from shoal.cli.views.format import duration, quote_value, utc_time
from shoal.model.levels.learned import HostLevels, LearnedLevel

MAX_LINES = 10


def level_text(learned: LearnedLevel, now: float) -> str:
    """Return a level, since when, and why."""
    since = f" since {utc_time(learned.since)}" if learned.since else ""
    why = f": {quote_value(learned.why)}" if learned.why else ""
    if learned.rest_until > now:
        return f"plain, no other level helps; tried again in {duration(learned.rest_until - now)}{why}"
    return f"{learned.level}{since}{why}"


def host_level_lines(known: HostLevels, now: float) -> Iterator[str]:
    """Yield what is set for a host, and the level of each part where it was raised, or lowered again."""
    if known.pin:
        yield f"level {known.pin}, set by hand; shoal host set-level HOST auto ends it"
    # Those that are raised first: others need no attention.
    by_level = sorted(known.patterns.items(), key=lambda pair: (not pair[1].is_raised, pair[0]))
    changed = {pattern: learned for pattern, learned in by_level if learned.has_changed}
    for pattern, learned in list(changed.items())[:MAX_LINES]:
        yield f"level of {quote_value(pattern)}: {level_text(learned, now)}"
    if len(changed) > MAX_LINES:
        yield f"and {len(changed) - MAX_LINES} more parts; --json has all"


def level_lines(hosts: Mapping[str, HostLevels], now: float) -> Iterator[str]:
    """Yield a line for each part of a host whose level has changed; only the first ones."""
    lines = [
        f"{host}: {line}" for host, known in sorted(hosts.items()) for line in host_level_lines(known, now)
    ]
    yield from lines[:MAX_LINES]
    if len(lines) > MAX_LINES:
        yield f"and {len(lines) - MAX_LINES} more parts of hosts whose level has changed; --json has all"
