"""Logs of an outage: after about a second, then once a minute, however many calls are waiting."""

import logging
import time

from shoal.redis_client.errors import CallFailed

log = logging.getLogger(__name__)

QUIET_ATTEMPTS = 4  # failed attempts that are not logged, about a second: short interruptions are normal
QUIET_S = 2.0  # unless they took longer: a server that does not answer fails an attempt every few seconds
LOG_EVERY_S = 60.0


class OutageLog:
    def __init__(self, store: str) -> None:
        self._store = store
        self._since: float | None = None  # monotonic; None: no outage was logged
        self._logged_at = 0.0

    def record_failure(self, failure: CallFailed, *, since: float, attempts: int) -> None:
        """Record that an attempt of a call failed; `since`: when the call began, `attempts`: earlier ones."""
        now = time.monotonic()
        if not _is_outage(attempts, now - since):
            return
        if self._since is not None and now - self._logged_at < LOG_EVERY_S:
            return
        if self._since is None:
            self._since = since
        self._logged_at = now
        about = {"store": self._store, "why": failure.kind, "where": failure.where}
        log.warning("store.unavailable", extra={**about, "seconds": round(now - self._since)})

    def record_success(self, *, since: float, attempts: int) -> None:
        """Record that a call succeeded; one that failed only briefly may have asked another server."""
        if self._since is None or not attempts or not _is_outage(attempts, time.monotonic() - since):
            return
        seconds = round(time.monotonic() - self._since)
        log.info("store.recovered", extra={"store": self._store, "seconds": seconds})
        self._since = None


def _is_outage(attempts: int, seconds: float) -> bool:
    return attempts >= QUIET_ATTEMPTS or seconds >= QUIET_S
