"""Alerts: what is wrong, where, why, and what to do about it. Values only; `services.alerts` decides."""

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
    INTERNAL_ERROR = "internal_error"
    SCHEDULE_FAILED = "schedule_failed"
    SCHEDULE_MISSED = "schedule_missed"


BY_RECORDS = frozenset({AlertKind.SCHEDULE_FAILED, AlertKind.SCHEDULE_MISSED})
"""Alerts that follow from the records of a store: they hold although no process runs."""


class Level(StrEnum):
    CRITICAL = "critical"  # nothing progresses, or data is at risk
    WARNING = "warning"


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: AlertKind
    about: str = ""  # a crawl, a host, a role or a pool; empty: the whole store
    level: Level = Level.WARNING
    stage: str = ""  # that is affected: "frontier", "fetch", "parse", "sink"; or "store", "schedule"
