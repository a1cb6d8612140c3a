"""What is logged of a store that does not answer: soon, then once a minute, however many calls wait."""

import logging
import time

from shoal.redis_client.errors import CallFailed

log = logging.getLogger(__name__)

PATIENT_REPEATS = 4  # about a second of them; short interruptions are nobody's business
TELL_EVERY = 60.0  # seconds


class OutageLog:
    def __init__(self, store: str) -> None:
        self._store = store
        self._since: float | None = None  # monotonic
        self._told_at = 0.0

    def goes_on(self, failure: CallFailed, *, since: float, attempts: int) -> None:
        """Hear of a call that has failed again."""
        now = time.monotonic()
        if attempts < PATIENT_REPEATS or (self._since is not None and now - self._told_at < TELL_EVERY):
            return
        if self._since is None:
            self._since = since
        self._told_at = now
        about = {"why": failure.kind, "where": failure.where, "seconds": round(now - self._since)}
        log.warning("store.waits", extra=about)

    def is_over(self, *, attempts: int) -> None:
        """Hear of a call that was answered; one that never had to wait may have asked another server."""
        if self._since is None or attempts < PATIENT_REPEATS:
            return
        seconds = round(time.monotonic() - self._since)
        log.info("store.answers", extra={"store": self._store, "seconds": seconds})
        self._since = None
