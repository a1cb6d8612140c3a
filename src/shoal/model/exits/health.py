"""The health of an exit, in general and at one host: counted over a window, shared by all processes of a
store.

An exit is unhealthy if fewer than half of its requests succeed, or five in a row fail. With fewer than five
requests there is no evidence. An unhealthy exit rests; after that a single request probes it: if it
succeeds, the exit is back, else it rests for twice as long.

Processes collect what they see (`ExitDelta`) and merge it into the stored record (`merge`) about once a
second. Pure: the caller has the clock.
"""

from collections.abc import Iterable

import msgspec

from shoal.model.exits.exit import OTHER_KIND
from shoal.model.quarantine import Count, Seconds

WINDOW_S = 300.0
BUCKET_S = 30.0
MIN_REQUESTS = 5
MAX_RUN = 5  # failures in a row
MIN_SUCCESS = 0.5
MAX_DOUBLINGS = 5
LOGIN_REST_S = 3_600.0
PROBE_S = 30.0  # for which a probe keeps other processes from probing
EXIT_SEEN_S = 120.0  # an exit that no process has had for longer is not in use
KEPT_S = 3_600.0  # after which a record about one host is dropped
LOGIN, UNHEALTHY, BY_HAND = "login", "unhealthy", "by hand"


class ExitRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of an exit, or of an exit at one host."""

    total: Count = 0
    successes: Count = 0
    last_success: Seconds = 0.0  # since the epoch
    last_failure: Seconds = 0.0
    run: Count = 0  # failures in a row
    window: tuple[tuple[int, int, int], ...] = ()  # number of the bucket, successes, failures
    rest_until: Seconds = 0.0  # 0: in use; in the past: to be probed
    rests: Count = 0  # in a row
    cause: str = ""  # of the rest
    why: str = ""  # the latest failure, in words, no secrets
    probe_until: Seconds = 0.0  # a process probes it until then
    kind: str = ""
    country: str = ""
    seen_at: Seconds = 0.0  # a process had it in its list


class ExitDelta(msgspec.Struct):
    """What one process has seen since its last merge."""

    successes: int = 0
    failures: int = 0
    run: int = 0  # failures since the last success
    login: bool = False  # the user name or password was refused
    why: str = ""

    def plus(self, later: "ExitDelta") -> "ExitDelta":
        """Return both together."""
        return ExitDelta(
            self.successes + later.successes,
            self.failures + later.failures,
            later.run if later.successes else self.run + later.run,
            self.login or later.login,
            later.why or self.why,
        )

    def succeed(self) -> None:
        self.successes += 1
        self.run = 0

    def fail(self, why: str = "", *, login: bool = False) -> None:
        self.failures += 1
        self.run += 1
        self.login = self.login or login
        self.why = why or self.why


def success_rate(record: ExitRecord, now: float) -> tuple[float, int]:
    """Return the share of successes in the window, and how many requests that is.

    Without any, the share is that of all requests; 1.0 without those.
    """
    oldest = int((now - WINDOW_S) // BUCKET_S)
    recent = [(good, bad) for bucket, good, bad in record.window if bucket > oldest]
    requests = sum(good + bad for good, bad in recent)
    if requests:
        return sum(good for good, _ in recent) / requests, requests
    return (record.successes / record.total if record.total else 1.0), 0


def is_unhealthy(record: ExitRecord, now: float) -> bool:
    rate, requests = success_rate(record, now)
    return record.run >= MAX_RUN or (requests >= MIN_REQUESTS and rate < MIN_SUCCESS)


def is_out(record: ExitRecord | None, now: float) -> bool:
    """Return whether nothing may be sent: it rests, or another request probes it."""
    return record is not None and (record.rest_until > now or record.probe_until > now)


def needs_probe(record: ExitRecord | None, now: float) -> bool:
    """Return whether the next request probes it."""
    return record is not None and 0 < record.rest_until <= now


def exits_down(records: Iterable[ExitRecord], now: float) -> list[tuple[str, list[ExitRecord]]]:
    """Return the exits in use if all are out, else those of each kind that has no other: (kind, records).

    The kind is empty if all exits are out. Exits without a kind cannot be asked for, and are no kind here.
    """
    used = [record for record in records if now - record.seen_at < EXIT_SEEN_S]
    if used and all(is_out(record, now) for record in used):
        return [("", used)]
    kinds: dict[str, list[ExitRecord]] = {}
    for record in used:
        if record.kind != OTHER_KIND:
            kinds.setdefault(record.kind, []).append(record)
    return [
        (kind, found)
        for kind, found in sorted(kinds.items())
        if kind and all(is_out(record, now) for record in found)
    ]


def ready_at(record: ExitRecord) -> float:
    return max(record.rest_until, record.probe_until)


def merge(record: ExitRecord, delta: ExitDelta, now: float, *, cool_off: float) -> ExitRecord:
    """Return the record after what one process has seen."""
    bucket, oldest = int(now // BUCKET_S), int((now - WINDOW_S) // BUCKET_S)
    window = {number: (good, bad) for number, good, bad in record.window if number > oldest}
    good, bad = window.get(bucket, (0, 0))
    window[bucket] = (good + delta.successes, bad + delta.failures)
    merged = msgspec.structs.replace(
        record,
        total=record.total + delta.successes + delta.failures,
        successes=record.successes + delta.successes,
        last_success=now if delta.successes else record.last_success,
        last_failure=now if delta.failures else record.last_failure,
        run=delta.run if delta.successes else record.run + delta.run,
        window=tuple((number, *counts) for number, counts in sorted(window.items())),
        why=delta.why or record.why,
    )
    if delta.login:
        return _rested(merged, now, LOGIN_REST_S, LOGIN)
    if delta.successes and not delta.run:
        if record.rest_until and record.cause != BY_HAND:
            return restored(merged)
    elif record.rest_until <= now and delta.failures and (record.rest_until or is_unhealthy(merged, now)):
        return _rested(merged, now, cool_off * 2 ** min(record.rests, MAX_DOUBLINGS), UNHEALTHY)
    return merged


def _rested(record: ExitRecord, now: float, seconds: float, cause: str) -> ExitRecord:
    return msgspec.structs.replace(
        record, rest_until=now + seconds, rests=record.rests + 1, cause=cause, probe_until=0.0
    )


def restored(record: ExitRecord) -> ExitRecord:
    """Return the record of an exit that is in use again."""
    return msgspec.structs.replace(
        record, rest_until=0.0, rests=0, run=0, cause="", window=(), probe_until=0.0
    )


def rested_by_hand(record: ExitRecord, now: float, seconds: float) -> ExitRecord:
    return msgspec.structs.replace(record, rest_until=now + seconds, cause=BY_HAND, probe_until=0.0)


def probed(record: ExitRecord, now: float) -> ExitRecord:
    """Return the record while one request probes the exit."""
    return msgspec.structs.replace(record, probe_until=now + PROBE_S)


def is_stale(record: ExitRecord, now: float) -> bool:
    """Return whether a record about one host can be dropped."""
    return now - max(record.last_success, record.last_failure, record.rest_until) > KEPT_S
