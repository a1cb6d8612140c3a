"""From conditions to alerts: raised when a condition has held for a while, cleared when it is over. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from shoal.model.alert import LASTING, MAX_RECENT, Alert, AlertBook, AlertKind
from shoal.model.settings import AlertSettings
from shoal.services.alerts.conditions import find_conditions
from shoal.services.alerts.observation import Observation
from shoal.services.alerts.window import Window

MAX_OPEN = 200
AT_ONCE = frozenset(  # events and what was counted over the window: waiting adds nothing
    {
        AlertKind.TRAP_CLOSED,
        AlertKind.YIELD_DROPPED,
        AlertKind.INTERNAL_ERROR,
        AlertKind.STAGE_STALLED,
        AlertKind.BANDWIDTH,
        AlertKind.ERROR_BUDGET,
    }
)


@dataclass(frozen=True, slots=True)
class Evaluation:
    book: AlertBook
    raised: Sequence[Alert] = ()  # now
    cleared: Sequence[Alert] = ()  # now


def evaluate(
    observations: Sequence[Observation], rules: AlertSettings, previous: AlertBook, *, by: str = ""
) -> Evaluation:
    """Return the alerts after the latest of these observations, oldest first."""
    window = Window(observations)
    return apply_conditions(find_conditions(window, rules), rules, previous, window.now.at, by=by)


def apply_conditions(
    conditions: Sequence[Alert], rules: AlertSettings, previous: AlertBook, now: float, *, by: str = ""
) -> Evaluation:
    """Return the alerts when these conditions hold, after the alerts of before."""
    known = {alert.key: alert for alert in previous.open}
    holding: dict[tuple[AlertKind, str], Alert] = {}
    raised, cleared = [], []
    for condition in conditions[:MAX_OPEN]:
        alert = _continue(condition, known.get(condition.key), now)
        wait = 0.0 if alert.kind in AT_ONCE else rules.wait
        if not alert.raised_at and now - alert.since >= wait:
            alert = msgspec.structs.replace(alert, raised_at=now)
            raised.append(alert)
        holding[alert.key] = alert
    for key, alert in known.items():
        if key in holding or not alert.raised_at:
            continue  # a condition that ended before its alert was raised is forgotten
        if 0.0 <= now - alert.held_at < rules.calm:
            holding[key] = alert
        else:
            cleared.append(msgspec.structs.replace(alert, cleared_at=now))
    recent = (*reversed(cleared), *previous.recent)[:MAX_RECENT]
    book = AlertBook(at=now, by=by, open=tuple(holding.values()), recent=recent)
    return Evaluation(book, raised, cleared)


def clear_all(previous: AlertBook, now: float, *, by: str = "") -> Evaluation:
    """Return the alerts after the last process of a store has ended in good order: only lasting ones stay."""
    ended = [alert for alert in previous.open if alert.raised_at and alert.kind not in LASTING]
    cleared = [msgspec.structs.replace(alert, cleared_at=now) for alert in ended]
    recent = (*reversed(cleared), *previous.recent)[:MAX_RECENT]
    lasting = tuple(alert for alert in previous.open if alert.raised_at and alert.kind in LASTING)
    return Evaluation(AlertBook(at=now, by=by, open=lasting, recent=recent), cleared=cleared)


def _continue(condition: Alert, known: Alert | None, now: float) -> Alert:
    """Return the condition with what is known of it from before."""
    if known is None:
        return condition
    return msgspec.structs.replace(
        condition,
        since=min(known.since, now),  # the clock may have been set back
        raised_at=min(known.raised_at, now),
        done=known.done,
        held_at=now,
    )
