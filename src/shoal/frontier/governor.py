"""The governor of one host: how often requests may be sent to it, and whether one may be sent now.

It holds GCRA's one number (`model/pace.py`), the number of requests in flight, and the signals of the latest
responses for adaptive slow-down. What survives a restart is in its `HostRecord`. For the rest, a restart
assumes the worst: a request was sent just now, and the burst is spent.
"""

import math
from collections.abc import Iterable

from shoal.frontier.results import HostView
from shoal.frontier.rules import HostRecord, applied_pace
from shoal.model.adaptive_delay import (
    Signal,
    SlowdownRules,
    is_lone,
    next_slow_factor,
    retry_delay,
    take_back,
)
from shoal.model.pace import Pace, clamp, next_turn, take


def host_view(name: str, governor: "Governor", *, waiting: int) -> HostView:
    """Return the current state of a host."""
    record = governor.record
    return HostView(
        host=name,
        waiting=waiting,
        inflight=governor.inflight,
        interval=governor.interval,
        burst=governor.burst,
        concurrency=governor.concurrency,
        next_turn=governor.ready,
        crawl_delay=record.crawl_delay,
        rest_until=record.rest_until,
        slow=record.slow,
        paused=record.paused,
        failures=governor.failures,
        responses=governor.responses,
    )


USUAL_RULES = SlowdownRules()


class Governor:
    __slots__ = (
        "_last", "_normal", "_rules", "_tat", "_token", "burst", "concurrency", "failures", "inflight",
        "interval", "ready", "record", "responses",
    )  # fmt: skip

    def __init__(self, record: HostRecord, *, last: float = -math.inf) -> None:
        """Govern a host to which the last known request was sent at `last`."""
        self.record = record
        self.inflight = 0
        self.failures = 0
        self._last = last
        self._token = 0  # lease token of the batch that took the latest turn
        self._rules = USUAL_RULES
        self._normal = 0  # responses so far, if none of them was trouble
        self.responses = ""  # signals of the latest; kept from the first trouble on: most hosts have none
        self._set_pace(applied_pace(record, (), self._rules))

    def follow(self, paces: Iterable[Pace], rules: SlowdownRules) -> None:
        """Apply the pace that results from the host's record and the paces of its crawls.

        A change leaves no credit, as if the whole burst had been spent with the latest request. Otherwise a
        longer interval would mean more credit, and slowing a host down would first let more requests through.
        """
        self._rules = rules
        pace = applied_pace(self.record, paces, rules)
        if (pace.interval, pace.burst, pace.concurrency) != (self.interval, self.burst, self.concurrency):
            self._set_pace(pace)
        self._update_ready()

    def _set_pace(self, pace: Pace) -> None:
        self.interval, self.burst, self.concurrency = pace.interval, pace.burst, pace.concurrency
        self._tat = self._last + self.burst * self.interval
        self._token = 0  # a turn taken under the old pace is not returned
        self._update_ready()

    def _update_ready(self) -> None:
        self.ready = max(
            self.record.rest_until, next_turn(self._tat, interval=self.interval, burst=self.burst)
        )

    @property
    def open(self) -> bool:
        """Whether a request may be sent as soon as the host is due."""
        return self.inflight < self.concurrency and not self.record.paused

    def take(self, now: float, token: int) -> None:
        """Take the turn of one request."""
        self.inflight += 1
        self._tat = take(self._tat, now=now, interval=self.interval)
        self._last = now
        self._token = token
        self._update_ready()

    def return_turn(self, token: int, interval: float) -> None:
        """Return the turn of a request that was never sent.

        This has an effect only if no later turn was taken and the pace is unchanged. A later request has
        waited for this turn already, and the next one would follow it too soon.
        """
        if token == self._token:
            self._tat -= interval
            self._update_ready()

    def rest(self, until: float) -> None:
        self.record.rest_until = max(self.record.rest_until, until)
        self._update_ready()

    def record_response(self, signal: Signal) -> bool:
        """Record a response; return True if the slow factor changed, so that the pace has to be updated."""
        window = self._rules.window
        if not self.responses:
            if signal == Signal.NORMAL and self.record.slow == 1.0:
                self._normal += 1
                return False
            self.responses = "0" * min(self._normal, window - 1)
        self.responses = (self.responses + str(int(signal)))[-window:]
        slow = next_slow_factor(self.record.slow, self.responses, self.interval, self._rules)
        changed = slow != self.record.slow
        self.record.slow = slow
        return changed

    def blames_request(self, signal: Signal, *, charged: int, rests: int) -> bool:
        """Return whether an attempt says something about its request only; the caller updates the pace then.

        `charged` and `rests` count the earlier attempts of the request, with and without a charge. What its
        refusals did to the host before it was found at fault is taken back.
        """
        if signal in (Signal.NORMAL, Signal.LATE) or charged + rests == 0:
            return False
        window = self.responses or "0" * min(self._normal, self._rules.window)
        if not is_lone(signal, charged, rests, window):
            return False
        if signal == Signal.RATE_LIMITED and "2" in window:
            self.record.slow, self.responses = take_back(self.record.slow, window, charged, rests)
        return True

    def retry_delay(self, delay: float, rest: float) -> float:
        """Return the delay of a request that was refused with 429 or 503."""
        return retry_delay(delay, rest, self.responses, self.interval)

    def clear_slowdown(self) -> None:
        """Forget the latest responses and the slow factor; the caller updates the pace."""
        self.record.slow = 1.0
        self.responses, self._normal = "", 0

    def set_back(self, now: float) -> None:
        """Limit the wait to what the pace allows at `now`: the clock was set back."""
        self._last = min(self._last, now)
        self._tat = clamp(self._tat, now=now, interval=self.interval, burst=self.burst)
        self._token = 0
        self._update_ready()
