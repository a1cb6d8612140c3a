"""The observations that conditions are computed from, and the alerts that conditions may become. Pure."""

from collections.abc import Sequence

import msgspec

from shoal.model.alert import Alert, AlertKind, Level
from shoal.services.alerts.observation import Observation
from shoal.services.inspect.status import CrawlStatus

ENDED = ("done", "gone", "dead", "filtered", "held")


class Window(msgspec.Struct, frozen=True):
    """The latest observation, and those before it."""

    observations: Sequence[Observation]  # oldest first, at least one

    @property
    def now(self) -> Observation:
        return self.observations[-1]

    @property
    def first(self) -> Observation:
        return self.observations[0]

    def before(self, seconds: float) -> Observation | None:
        """Return the latest observation that is at least so old; None: no observation is that old."""
        old = [one for one in self.observations if self.now.at - one.at >= seconds]
        return old[-1] if old else None


def since(observations: Sequence[Observation], now: float, seconds: float) -> Sequence[Observation]:
    """Return the observations of the last seconds, without those of a clock that was set back since."""
    return [one for one in observations if 0.0 <= now - one.at <= seconds]


def candidate(
    window: Window,
    kind: AlertKind,
    about: str,
    cause: str,
    action: str,
    *,
    stage: str,
    level: Level = Level.WARNING,
    value: float = 0.0,
    limit: float = 0.0,
) -> Alert:
    return Alert(
        kind=kind,
        about=about,
        level=level,
        stage=stage,
        cause=cause,
        action=action,
        value=value,
        limit=limit,
        since=window.now.at,
        held_at=window.now.at,
    )


def ended(crawl: CrawlStatus) -> int:
    return sum(crawl.counts.get(state, 0) for state in ENDED)
