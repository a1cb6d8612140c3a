"""Alerts: what is wrong, where, why, and what to do about it. Values only; `services.alerts` decides."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

MAX_RECENT = 100  # cleared alerts that are kept
STALE_S = 60.0  # after which the alerts of a process that has ended count as unknown


class AlertKind(StrEnum):
    QUEUE_DEPTH = "queue_depth"
    SUCCESS_RATE = "success_rate"
    HOST_FAILING = "host_failing"
    HOST_THROTTLED = "host_throttled"
    LATENCY = "latency"
    DEAD_LETTERS = "dead_letters"
    BANDWIDTH = "bandwidth"
    ERROR_BUDGET = "error_budget"
    STAGE_STALLED = "stage_stalled"
    STAGE_BEHIND = "stage_behind"
    NO_WORKER = "no_worker"
    EXITS_DOWN = "exits_down"
    STORE_FULL = "store_full"
    STORE_UNAVAILABLE = "store_unavailable"
    TRAP_CLOSED = "trap_closed"
    YIELD_DROPPED = "yield_dropped"
    INTERNAL_ERROR = "internal_error"
    SCHEDULE_FAILED = "schedule_failed"
    SCHEDULE_MISSED = "schedule_missed"


LASTING = frozenset({AlertKind.SCHEDULE_FAILED, AlertKind.SCHEDULE_MISSED, AlertKind.YIELD_DROPPED})
"""Alerts that follow from the records of a store: they last until their cause is over, without a process."""


class Level(StrEnum):
    CRITICAL = "critical"  # nothing progresses, or data is at risk
    WARNING = "warning"


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: AlertKind
    about: str = ""  # a crawl, a host, a role or a pool; empty: the whole store
    level: Level = Level.WARNING
    stage: str = ""  # that is affected: "frontier", "fetch", "parse", "sink"; or "store", "schedule"
    cause: str  # in plain words
    action: str = ""  # what to do
    value: float = 0.0  # that was measured
    limit: float = 0.0  # that it exceeded or fell below
    since: float  # epoch seconds: when the condition began
    raised_at: float = 0.0  # 0: it has not held for long enough yet
    held_at: float = 0.0  # when the condition last held
    cleared_at: float = 0.0  # 0: it is active
    done: str = ""  # what was done by policy

    @property
    def key(self) -> tuple[AlertKind, str]:
        return self.kind, self.about

    @property
    def text(self) -> str:
        """The cause, what was done, and what to do, in one line."""
        return "; ".join(part for part in (self.cause, self.done, self.action) if part)


class AlertBook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The alerts of a store, as one process has last evaluated them."""

    at: float = 0.0  # epoch seconds
    by: str = ""  # the process
    open: tuple[Alert, ...] = ()  # active ones, and conditions that have not held for long enough
    recent: tuple[Alert, ...] = ()  # cleared ones, latest first
    held: dict[str, int] = {}  # hosts of a fleet that are paused, resting or slowed; empty: too many to look
    used_ratio: float = 0.0  # of the store's memory, or of the disk of its folder; 0: it has no limit
    stopped: bool = False  # the process has ended before its crawl: what is open is as it was then

    @property
    def active(self) -> Sequence[Alert]:
        """The alerts that are raised, the worst first."""
        raised = [alert for alert in self.open if alert.raised_at]
        return sorted(raised, key=lambda alert: (alert.level is not Level.CRITICAL, alert.raised_at))

    @property
    def unknown(self) -> Sequence[Alert]:
        """The alerts that were raised when the process ended: whether they still hold is not known."""
        return [alert for alert in self.active if self.stopped and alert.kind not in LASTING]

    def is_current(self, now: float) -> bool:
        """Return whether a process still evaluates them; False as well if a clock was set."""
        return abs(now - self.at) < STALE_S


def read_book(stored: bytes | None) -> AlertBook:
    """Decode stored alerts; what this version cannot read counts as none."""
    try:
        return AlertBook() if stored is None else msgspec.msgpack.decode(stored, type=AlertBook)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return AlertBook()


def dump_book(book: AlertBook) -> bytes:
    return msgspec.msgpack.encode(book)


def alert_json(alert: Alert) -> dict[str, object]:
    return {
        "kind": alert.kind.value,
        "about": alert.about,
        "level": alert.level.value,
        "stage": alert.stage,
        "cause": alert.cause,
        "action": alert.action,
        "done": alert.done,
        "text": alert.text,
        "value": alert.value,
        "limit": alert.limit,
        "since": alert.since,
        "raised_at": alert.raised_at,
        "cleared_at": alert.cleared_at or None,
    }
