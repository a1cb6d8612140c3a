"""The governor of one host: how often it may be asked, and whether now is such a moment.

It keeps GCRA's one number (`model/pace.py`), how many requests are out, and the window of answers that
adaptive slow-down looks at. What survives a restart is in its `HostRecord`; the rest is assumed the worst:
the host was asked just now, and its burst is spent.
"""

import math
from collections.abc import Iterable

from shoal.frontier.results import HostView
from shoal.frontier.rules import HostRecord, applied_pace, slowed
from shoal.model.adaptive_delay import ResponseWindow, SlowdownRules
from shoal.model.pace import Pace, clamp, next_turn, take


def host_view(name: str, governor: "Governor", *, waiting: int) -> HostView:
    """Show a host as it is now."""
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
    )


USUAL_RULES = SlowdownRules()


class Governor:
    __slots__ = (
        "_clear", "_last", "_rules", "_tat", "_token", "_window", "burst", "concurrency", "failures",
        "inflight", "interval", "ready", "record",
    )  # fmt: skip

    def __init__(self, record: HostRecord, *, last: float = -math.inf) -> None:
        """Govern a host that was last asked at `last`, as far as anybody knows."""
        self.record = record
        self.inflight = 0
        self.failures = 0
        self._last = last
        self._token = 0  # of the batch that took the latest turn
        self._rules = USUAL_RULES
        self._clear = 0  # answers so far, none of them a block
        self._window: ResponseWindow | None = None  # made with the first block: most hosts never push back
        self._set_pace(applied_pace(record, (), self._rules))

    def follow(self, paces: Iterable[Pace], rules: SlowdownRules) -> None:
        """Apply the pace that the host's record and these crawls come to.

        A change leaves no credit: it is as if the whole burst had been spent with the latest request.
        Otherwise a longer interval would mean a longer burst, and slowing a host down would first let more
        through.
        """
        self._rules = rules
        pace = applied_pace(self.record, paces, rules)
        if (pace.interval, pace.burst, pace.concurrency) != (self.interval, self.burst, self.concurrency):
            self._set_pace(pace)
        self._aim()

    def _set_pace(self, pace: Pace) -> None:
        self.interval, self.burst, self.concurrency = pace.interval, pace.burst, pace.concurrency
        self._tat = self._last + self.burst * self.interval
        self._token = 0  # its neighbours in the batch may have left: nothing is given back
        self._aim()

    def _aim(self) -> None:
        self.ready = max(
            self.record.rest_until, next_turn(self._tat, interval=self.interval, burst=self.burst)
        )

    @property
    def open(self) -> bool:
        """Whether time alone can keep a request from going."""
        return self.inflight < self.concurrency and not self.record.paused

    def take(self, now: float, token: int) -> None:
        """Let one request go."""
        self.inflight += 1
        self._tat = take(self._tat, now=now, interval=self.interval)
        self._last = now
        self._token = token
        self._aim()

    def give_back(self, token: int, interval: float) -> None:
        """Take back the turn of a request that never left.

        Only while no later turn was taken and the pace is the same: a later one has waited for this one
        already, and giving this one back would let the next follow it too soon.
        """
        if token == self._token:
            self._tat -= interval
            self._aim()

    def rest(self, until: float) -> None:
        self.record.rest_until = max(self.record.rest_until, until)
        self._aim()

    def hear(self, blocked: bool) -> bool:
        """Learn from an answer; say whether the slow factor changed, so that the pace has to be worked out
        anew."""
        if self._window is None:
            if not blocked and self.record.slow == 1.0:
                self._clear += 1
                return False
            self._window = ResponseWindow(self._rules)
            for _ in range(min(self._clear, self._rules.window)):
                self._window.note(False)
        slow = slowed(self._window, blocked, self.record.slow)
        changed = slow != self.record.slow
        self.record.slow = slow
        return changed

    def set_back(self, now: float) -> None:
        """Owe no more than can be owed at `now`: the clock was set back."""
        self._last = min(self._last, now)
        self._tat = clamp(self._tat, now=now, interval=self.interval, burst=self.burst)
        self._token = 0
        self._aim()
