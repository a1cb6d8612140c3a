"""From conditions to alerts: raised when a condition has held for a while, cleared when it is over. Pure.

What swings around a limit is one alert and not many. An alert that is raised ends when its value is well
within the limit (`eased`), for a time that doubles each time the same alert was raised again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
        AlertKind.INTERNAL_ERROR,
        AlertKind.STAGE_STALLED,
        AlertKind.BANDWIDTH,
        AlertKind.ERROR_BUDGET,
        *LASTING,
    }
)
MARGIN = 0.1  # of a limit, by which a value must be within it before an alert ends
AGAIN_S = 900.0  # within which an alert that is raised again counts as the same one
MOST_DOUBLINGS = 4


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
    conditions = find_conditions(window, rules)
    holding = {condition.key for condition in conditions}
    raised = {alert.key for alert in previous.active} - holding
    if raised:
        conditions += [one for one in find_conditions(window, eased(rules)) if one.key in raised]
    return apply_conditions(conditions, rules, previous, window.now.at, by=by)


def eased(rules: AlertSettings) -> AlertSettings:
    """Return the limits within which an alert that was raised ends."""
    over = ("p95", "dead_letters", "bandwidth", "error_budget", "store_memory")
    return replace(
        rules,
        queue_depth=int(rules.queue_depth * (1 - MARGIN)),
        disk_free=int(rules.disk_free * (1 + MARGIN)),
        success=rules.success + (1 - rules.success) * MARGIN,
        host_success=rules.host_success + (1 - rules.host_success) * MARGIN,
        **{name: getattr(rules, name) * (1 - MARGIN) for name in over},
    )


def calm_of(alert: Alert, rules: AlertSettings, previous: AlertBook, now: float) -> float:
    """Return for how long the condition of an alert has to be over."""
    before = [
        one for one in previous.recent if one.key == alert.key and 0.0 <= now - one.cleared_at <= AGAIN_S
    ]
    return rules.calm * 2.0 ** min(len(before), MOST_DOUBLINGS)


def apply_conditions(
    conditions: Sequence[Alert], rules: AlertSettings, previous: AlertBook, now: float, *, by: str = ""
) -> Evaluation:
    """Return the alerts when these conditions hold, after the alerts of before."""
    known = {alert.key: alert for alert in previous.open}
    if previous.stopped:  # an alert of the run before ends when this one has found its condition over
        known = {key: msgspec.structs.replace(alert, held_at=now) for key, alert in known.items()}
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
        if 0.0 <= now - alert.held_at < calm_of(alert, rules, previous, now):
            holding[key] = alert
        else:
            cleared.append(msgspec.structs.replace(alert, cleared_at=now))
    recent = (*reversed(cleared), *previous.recent)[:MAX_RECENT]
    book = AlertBook(at=now, by=by, open=tuple(holding.values()), recent=recent)
    return Evaluation(book, raised, cleared)


def clear_all(previous: AlertBook, now: float, *, by: str = "") -> Evaluation:
    """Return the alerts after the crawl of a folder has finished: only lasting ones stay."""
    stay = tuple(alert for alert in previous.open if alert.kind in LASTING)
    cleared = [
        msgspec.structs.replace(alert, cleared_at=now)
        for alert in previous.active
        if alert.kind not in LASTING
    ]
    recent = (*reversed(cleared), *previous.recent)[:MAX_RECENT]
    return Evaluation(AlertBook(at=now, by=by, open=stay, recent=recent), cleared=cleared)


def stop_all(previous: AlertBook, now: float, *, by: str = "") -> AlertBook:
    """Return the alerts after the process of a folder has ended before its crawl: none is over."""
    return AlertBook(at=now, by=by, open=tuple(previous.active), recent=previous.recent, stopped=True)


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
